/* SPDX-License-Identifier: MIT
 *
 * recorder_balance: from when on it is counted, and what of it samples are expected of.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "record/recorder_int.h"

enum { EVENT_FD = 100000, COUNTED = 1000 };

static struct recorder recorder;
static bool noted; /* before the event was read */

ssize_t read(int fd, void *to, size_t n)
{
	ssize_t (*f)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
	const uint64_t reading[] = { COUNTED, 2000, 2000 };

	if (fd != EVENT_FD)
		return f(fd, to, n);
	noted = recorder.ticks.n == 1;
	memcpy(to, reading, sizeof(reading));
	return sizeof(reading);
}

/* What the targets have used is looked at first, which takes as long as there are many: events that
 * count meanwhile have no samples. */
static void events_are_read_last(void **state)
{
	struct attached thread = { .tid = getpid(), .fds = (int[]){ EVENT_FD } };
	struct session session = { .n_events = 1 };
	struct recorder *r = &recorder;
	struct target *t;

	session.events[0].attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.exclude_kernel = 1, /* so ticks tell the part in the kernel */
	};
	r->session = &session;
	r->attach = (struct attach){
		.session = &session, .n_slots = 1, .attached = &thread, .n_attached = 1
	};
	assert_int_equal(targets_init(&r->tracker.targets), 0);
	t = target_create(getpid());
	assert_non_null(t);
	assert_int_equal(targets_publish(&r->tracker.targets, &t, 1), 0);
	recorder_begin_counting(r);
	assert_int_equal(r->counted_before[0], COUNTED);
	assert_true(noted);
	ticks_deinit(&r->ticks);
	targets_deinit(&r->tracker.targets);
}

/* A child of ours, with one that has used so many ticks and has ended. */
struct parent {
	pid_t pid;
	int ask[2], told[2];
};

enum { TICKS = 20 };

static void use_ticks(void)
{
	struct timespec used;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	while (used.tv_sec * 100 + used.tv_nsec / 10000000 < TICKS);
}

/* Waits for its child when it is asked to, and then for its own end. */
static _Noreturn void be_parent(const struct parent *p)
{
	siginfo_t info;
	pid_t child;
	char c = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child = fork();
	if (child == 0) {
		use_ticks();
		_exit(0);
	}
	if (child < 0 || waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) < 0 ||
	    write(p->told[1], &c, 1) != 1 || read(p->ask[0], &c, 1) != 1 ||
	    waitpid(child, NULL, 0) != child || write(p->told[1], &c, 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void await(const struct parent *p)
{
	char c;

	assert_int_equal(read(p->told[0], &c, 1), 1);
}

static void start_parent(struct parent *p)
{
	assert_int_equal(pipe(p->ask), 0);
	assert_int_equal(pipe(p->told), 0);
	p->pid = fork();
	if (p->pid == 0)
		be_parent(p);
	assert_true(p->pid > 0);
	await(p);
}

static void end_parent(const struct parent *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(p->ask[i]);
		close(p->told[i]);
	}
}

/* A recording of @pid by a clock on CPUs. */
static struct recorder *begin_clock(struct session *session, pid_t pid)
{
	struct recorder *r = calloc(1, sizeof(*r));
	struct target *t = target_create(pid);

	assert_non_null(r);
	assert_non_null(t);
	session->n_events = 1;
	session->events[0].attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000,
	};
	r->session = r->attach.session = session;
	r->plan.wide = true;
	assert_int_equal(targets_init(&r->tracker.targets), 0);
	assert_int_equal(targets_publish(&r->tracker.targets, &t, 1), 0);
	return r;
}

static void end_clock(struct recorder *r)
{
	ticks_deinit(&r->ticks);
	targets_deinit(&r->tracker.targets);
	free(r);
}

/* The ticks that are expected of a process that waits for a child, which is no target. */
static uint64_t told_of_child(bool follow)
{
	struct session session = { 0 };
	struct recorder *r;
	struct parent p;
	uint64_t ret;

	start_parent(&p);
	r = begin_clock(&session, p.pid);
	r->o.follow = follow;
	recorder_begin_counting(r);
	assert_int_equal(write(p.ask[1], "", 1), 1);
	await(&p);
	recorder_note_ticks(r);
	ret = r->ticks.used.user + r->ticks.used.kernel;
	end_clock(r);
	end_parent(&p);
	return ret;
}

/* A child that is followed would be a target, whose time from before is owed; of others nothing
 * counts. */
static void children_that_are_no_targets(void **state)
{
	assert_true(told_of_child(true) > TICKS / 2);
	assert_true(told_of_child(false) < TICKS / 2);
}

/* It was told of its child before the recording. */
static void start_told_parent(struct parent *p)
{
	start_parent(p);
	assert_int_equal(write(p->ask[1], "", 1), 1);
	await(p);
}

/* From when it starts a child that is no target, nothing that it is told of children counts; what
 * it was told before the recording never did. */
static void children_of_before(void **state)
{
	struct session session = { 0 };
	struct recorder *r;
	struct parent p;

	start_told_parent(&p);
	r = begin_clock(&session, p.pid);
	r->o.follow = true;
	recorder_begin_counting(r);
	assert_true(ticks_strange(&r->ticks, p.pid));
	assert_int_equal(r->ticks.used.user, 0);
	assert_int_equal(r->ticks.used.kernel, 0);
	end_clock(r);
	end_parent(&p);
}

static void without_descriptors(void (*act)(struct recorder *r), struct recorder *r)
{
	struct rlimit all;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, all.rlim_max }), 0);
	act(r);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
}

/* The target does, and there was no clock before. */
static void join(struct recorder *r)
{
	r->needs_ticks = true;
	recorder_count_from_now(r, r->tracker.targets.all[0]->pid);
}

/* The ticks that are counted of a process that has used many before: without descriptors @then, or
 * if that is NULL @begin, looked at it. @as_child: as of our own child, which is no target. */
static uint64_t counted_without(void (*begin)(struct recorder *r),
				void (*then)(struct recorder *r), bool as_child)
{
	struct session session = { 0 };
	struct recorder *r;
	struct parent p;
	uint64_t ret;

	start_told_parent(&p);
	r = begin_clock(&session, as_child ? getpid() : p.pid);
	r->o.follow = true;
	r->o.child = as_child;
	r->o.pids[0] = p.pid;
	if (then) {
		begin(r);
		without_descriptors(then, r);
	} else {
		without_descriptors(begin, r);
	}
	recorder_note_ticks(r);
	ret = r->ticks.used.user + r->ticks.used.kernel;
	end_clock(r);
	end_parent(&p);
	return ret;
}

/* Who can't be looked at for want of descriptors has not ended. */
static void no_descriptors(void **state)
{
	assert_true(counted_without(recorder_begin_counting, NULL, false) < TICKS / 2);
	assert_true(counted_without(recorder_begin_counting, recorder_note_ticks, false) <
		    TICKS / 2);
	assert_true(counted_without(recorder_begin_counting, recorder_note_ticks, true) <
		    TICKS / 2);
	assert_true(counted_without(join, NULL, false) < TICKS / 2);
}

/* Of a clock on CPUs with 10 samples of a ms each, beside a second that the process has used. */
static uint64_t uncounted_of(size_t n_tids)
{
	struct recorder_summary summary = { 0 };
	struct session session = { 0 };
	struct stats stats = { 0 };
	struct cpu_slot slot = { 0 };
	struct recorder *r = begin_clock(&session, getpid());

	session.stats = &stats;
	r->o.n_tids = n_tids;
	r->config.slots = &slot;
	r->config.n_slots = 1;
	r->ticks.used.user = (uint64_t)sysconf(_SC_CLK_TCK);
	atomic_store(&slot.seen[0].n, 10);
	atomic_store(&slot.seen[0].period, 10 * session.events[0].attr.sample_period);
	recorder_balance(r, &summary);
	end_clock(r);
	return summary.uncounted;
}

/* The scheduler tells what a process has used, not which of its threads. */
static void threads_that_are_named(void **state)
{
	assert_int_equal(uncounted_of(0), 990);
	assert_int_equal(uncounted_of(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_are_read_last),
		cmocka_unit_test(children_that_are_no_targets),
		cmocka_unit_test(children_of_before),
		cmocka_unit_test(no_descriptors),
		cmocka_unit_test(threads_that_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
