/* SPDX-License-Identifier: MIT
 *
 * capture: the rule that tells exact from late, a row for each reason; and which
 * capture a name picks.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/base.h"
#include "capture/capture.h"
#include "capture/preempt.h"
#include "capture/reader_int.h"
#include "sample/perf_decode.h"
#include "sys/realtime.h"

extern const struct capture_ops capture_preempt, capture_stop, capture_async;

/* Flags: k the event was in the kernel, p preempted, b backlog, r ran again; s, m a
 * witness saw the same registers, or others. The sample is at 1000 ns. */
struct judge_row {
	const char *what, *flags;
	uint64_t t_out, gap_max_ns;
	enum judgement want;
};

static const struct judge_row judge_rows[] = {
	{ "held at once", "p", 1100, 200, JUDGE_EXACT },
	{ "held at the last moment", "p", 1100, 100, JUDGE_EXACT },
	{ "left a moment too late", "p", 1100, 99, JUDGE_GAP },
	{ "left by its own will", "", 1100, 200, JUDGE_VOLUNTARY },
	{ "no record of leaving", "p", 0, 200, JUDGE_NOSWITCH },
	{ "came back", "pr", 1100, 200, JUDGE_RAN },
	{ "came back before us", "pb", 1100, 200, JUDGE_BACKLOG },
	/* The kernel may work on, and wait, before the thread leaves. */
	{ "preempted in the kernel", "kp", 999000, 200, JUDGE_EXACT },
	{ "waited in the kernel", "k", 999000, 200, JUDGE_EXACT },
	{ "kernel, came back", "kr", 999000, 200, JUDGE_RAN },
	{ "kernel, came back before us", "kb", 999000, 200, JUDGE_BACKLOG },
	{ "kernel, no record", "k", 0, 200, JUDGE_NOSWITCH },
	/* A witness knows better than time and manner, but not than a way back. */
	{ "late, same registers", "ps", 999000, 99, JUDGE_EXACT },
	{ "own will, same registers", "s", 1100, 200, JUDGE_EXACT },
	{ "soon, other registers", "pm", 1100, 200, JUDGE_GAP },
	{ "kernel, other registers", "kpm", 1100, 200, JUDGE_GAP },
	{ "same registers, came back", "psr", 1100, 200, JUDGE_RAN },
	{ "same registers, backlog", "psb", 1100, 200, JUDGE_BACKLOG },
	{ "same registers, no record", "ps", 0, 200, JUDGE_NOSWITCH },
	/* Of several reasons the one that says most. */
	{ "all of them", "br", 0, 0, JUDGE_BACKLOG },
	{ "no record, came back", "pr", 0, 200, JUDGE_NOSWITCH },
	{ "own will, came back", "r", 1100, 200, JUDGE_RAN },
	{ "own will, too late", "", 1100, 0, JUDGE_VOLUNTARY },
	/* A record from before the sample proves nothing. */
	{ "left before", "p", 900, 200, JUDGE_GAP },
};

static void nothing(int sig)
{
}

static void judge(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(judge_rows); i++) {
		const struct judge_row *row = &judge_rows[i];
		const struct hold h = {
			.t0 = 1000,
			.t_out = row->t_out,
			.t_end = 2000000,
			.in_kernel = strchr(row->flags, 'k'),
			.preempted = strchr(row->flags, 'p'),
			.backlog = strchr(row->flags, 'b'),
			.ran = strchr(row->flags, 'r'),
			.gap_max_ns = row->gap_max_ns,
			.witness = strchr(row->flags, 's') ? WITNESS_SAME :
				   strchr(row->flags, 'm') ? WITNESS_MOVED :
							     WITNESS_NONE,
		};

		if (capture_judge_held(&h) != row->want)
			fail_msg("%s: %d", row->what, capture_judge_held(&h));
		assert_int_equal(capture_preempt.judge(&h), row->want);
	}
}

static struct preempt_plan nothing_known;
static const struct capture_want in_general = { .named = true, .plan = &nothing_known };

/* Exact by the witness alone. */
static void async_needs_the_witness(void **state)
{
	struct hold h = { .t0 = 1000, .t_out = 1100, .gap_max_ns = 200, .preempted = true };

	assert_int_equal(capture_async.judge(&h), JUDGE_CAPTURE);
	h.witness = WITNESS_MOVED;
	assert_int_equal(capture_async.judge(&h), JUDGE_CAPTURE);
	h.witness = WITNESS_SAME;
	assert_int_equal(capture_async.judge(&h), JUDGE_EXACT);
	h.t_out = 1201;
	assert_int_equal(capture_async.judge(&h), JUDGE_CAPTURE);
	h.counted = true; /* then how long it took tells no more */
	assert_int_equal(capture_async.judge(&h), JUDGE_EXACT);
	h.witness = WITNESS_MOVED;
	assert_int_equal(capture_async.judge(&h), JUDGE_CAPTURE);
	h.witness = WITNESS_SAME;
	h.t_out = 1100;
	h.ran = true;
	assert_int_equal(capture_async.judge(&h), JUDGE_RAN);
	h.backlog = true;
	assert_int_equal(capture_async.judge(&h), JUDGE_BACKLOG);
	assert_int_equal(capture_async.possible(&in_general, NULL), 0);
	assert_int_equal(capture_async.thread_begin(NULL, 0), 0);
}

/* The registers at the stop, and that it lasted. */
static void stop_needs_the_registers(void **state)
{
	struct hold h = { .t0 = 1000, .t_out = 1100, .preempted = true };

	assert_int_equal(capture_stop.judge(&h), JUDGE_NOSTOP);
	h.witness = WITNESS_MOVED;
	assert_int_equal(capture_stop.judge(&h), JUDGE_GAP);
	h.witness = WITNESS_SAME;
	assert_int_equal(capture_stop.judge(&h), JUDGE_EXACT);
	h.t_out = 0; /* the stop is no less one without a switch record */
	assert_int_equal(capture_stop.judge(&h), JUDGE_EXACT);
	h.ran = true;
	assert_int_equal(capture_stop.judge(&h), JUDGE_RAN);
}

struct want_row {
	struct capture_want want;
	int code;
	const char *says;
};

/* What stop refuses, and what only when it is not asked for by name. */
static void stop_refuses(void **state)
{
	static const pid_t nobody = 1 << 23;
	static const struct want_row rows[] = {
		{ { .user_only = true }, 0, "" },
		{ { .named = true }, 0, "" },
		{ { 0 }, -ENOENT, "user mode only" },
		{ { .named = true, .kernel_only = true }, -ENOENT, "user mode only" },
		{ { .named = true, .switches = true }, -ENOENT, "scheduler" },
#ifdef __aarch64__
		{ { .named = true, .breakpoints = true }, -ENOENT, "breakpoints" },
#else
		{ { .named = true, .breakpoints = true }, 0, "" },
#endif
		{ { .user_only = true, .pids = &nobody, .n_pids = 1 }, -ESRCH, "no process" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };

		assert_int_equal(capture_stop.possible(&rows[i].want, &err), rows[i].code);
		assert_non_null(strstr(err.text, rows[i].says));
	}
}

/* With a handler for the first signal it is the second, with one for both none. */
static void stop_signal(void **state)
{
	pid_t self = getpid();
	struct err err;

	assert_int_equal(capture_stop_signal(&self, 1, NULL, 0, &err), SIGURG);
	signal(SIGURG, nothing);
	assert_int_equal(capture_stop_signal(&self, 1, NULL, 0, &err), SIGWINCH);
	signal(SIGWINCH, nothing);
	assert_int_equal(capture_stop_signal(&self, 1, NULL, 0, &err), -EBUSY);
	assert_non_null(strstr(err.text, "SIGURG and SIGWINCH"));
	signal(SIGURG, SIG_IGN);
	assert_int_equal(capture_stop_signal(&self, 1, NULL, 0, &err), SIGURG);
	signal(SIGURG, SIG_DFL);
	signal(SIGWINCH, SIG_DFL);
}

/* Children have a say, not the last word. */
static void stop_signal_of_a_family(void **state)
{
	pid_t self = getpid(), child = fork();
	struct err err;

	if (child == 0) {
		pause();
		_exit(0);
	}
	assert_int_equal(capture_stop_signal(&child, 1, &self, 1, &err), SIGURG);
	signal(SIGURG, nothing);
	assert_int_equal(capture_stop_signal(&child, 1, &self, 1, &err), SIGWINCH);
	signal(SIGWINCH, nothing);
	assert_int_equal(capture_stop_signal(&child, 1, &self, 1, &err), SIGURG);
	signal(SIGURG, SIG_DFL);
	signal(SIGWINCH, SIG_DFL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* --- a machine as a test wants it: what captures ask libc for --- */

static struct {
	bool fake; /* else all is as it is */
	int most;  /* real-time priority that may be had; 0: none */
	int policy, priority;
	int cpu;
	size_t n_set, n_tries; /* policies that were set; of SCHED_FIFO, or refused */
	struct cpus allowed, kept;
	bool cpuset_asked_for, no_affinity;
	struct rlimit limit;
	bool no_limit;
	size_t n_limits, n_sleeps;
	struct timespec sleep;
} machine;

static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int sched_setscheduler(pid_t pid, int policy, const struct sched_param *p)
{
	int (*f)(pid_t, int, const struct sched_param *) = real("sched_setscheduler");

	if (!machine.fake)
		return f(pid, policy, p);
	assert_int_equal(0, pid);
	machine.n_tries += (policy & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
	if ((policy & ~SCHED_RESET_ON_FORK) == SCHED_FIFO &&
	    (p->sched_priority < 1 || p->sched_priority > machine.most)) {
		errno = EPERM;
		return -1;
	}
	machine.policy = policy;
	machine.priority = p->sched_priority;
	machine.n_set++;
	return 0;
}

int sched_getscheduler(pid_t pid)
{
	int (*f)(pid_t) = real("sched_getscheduler");

	if (!machine.fake)
		return f(pid);
	assert_int_equal(0, pid);
	return machine.policy;
}

int sched_getparam(pid_t pid, struct sched_param *p)
{
	int (*f)(pid_t, struct sched_param *) = real("sched_getparam");

	if (!machine.fake)
		return f(pid, p);
	assert_int_equal(0, pid);
	p->sched_priority = machine.priority;
	return 0;
}

int sched_getcpu(void)
{
	int (*f)(void) = real("sched_getcpu");

	return machine.fake ? machine.cpu : f();
}

int sched_getaffinity(pid_t pid, size_t n, cpu_set_t *set)
{
	int (*f)(pid_t, size_t, cpu_set_t *) = real("sched_getaffinity");

	if (!machine.fake)
		return f(pid, n, set);
	assert_int_equal(0, pid);
	if (machine.no_affinity) {
		errno = EINVAL;
		return -1;
	}
	memcpy(set, machine.kept.bits, MIN(n, sizeof(machine.kept.bits)));
	return 0;
}

/* As a cpuset does: what is asked for and allowed, or an error if that is nothing. */
int sched_setaffinity(pid_t pid, size_t n, const cpu_set_t *set)
{
	int (*f)(pid_t, size_t, const cpu_set_t *) = real("sched_setaffinity");
	struct cpus want = { 0 };

	if (!machine.fake)
		return f(pid, n, set);
	memcpy(want.bits, set, MIN(n, sizeof(want.bits)));
	cpus_keep(&want, &machine.allowed);
	machine.cpuset_asked_for = true;
	if (cpus_next(&want, 0) < 0) {
		errno = EINVAL;
		return -1;
	}
	machine.kept = want;
	return 0;
}

int getrlimit(__rlimit_resource_t what, struct rlimit *l)
{
	int (*f)(__rlimit_resource_t, struct rlimit *) = real("getrlimit");

	if (!machine.fake)
		return f(what, l);
	*l = machine.limit;
	errno = EINVAL;
	return machine.no_limit ? -1 : 0;
}

int setrlimit(__rlimit_resource_t what, const struct rlimit *l)
{
	int (*f)(__rlimit_resource_t, const struct rlimit *) = real("setrlimit");

	if (!machine.fake)
		return f(what, l);
	machine.limit = *l;
	machine.n_limits++;
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	int (*f)(const struct timespec *, struct timespec *) = real("nanosleep");

	if (!machine.fake)
		return f(t, left);
	machine.sleep = *t;
	machine.n_sleeps++;
	return 0;
}

static struct cpus cpus_from(int first, int n)
{
	struct cpus c = { 0 };

	for (int i = 0; i < n; i++)
		cpus_add(&c, first + i);
	return c;
}

/* One of 4 CPUs, that gives priorities up to @most. */
static void machine_begin(int most)
{
	memset(&machine, 0, sizeof(machine));
	machine.fake = true;
	machine.most = most;
	machine.allowed = machine.kept = cpus_from(0, 4);
	machine.limit = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
}

static int machine_end(void **state)
{
	machine.fake = false;
	return 0;
}

static bool same_cpus(const struct cpus *a, const struct cpus *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* --- what a capture does that has nothing of its own to do --- */

static int attached_by_us(void *arg, struct err *err)
{
	*(struct err **)arg = err;
	return -ENXIO;
}

/* It says nothing, into any buffer; refuses nothing; its readers are where they were, and
 * nobody comes back. Events are opened by the thread that asks for it. */
static void nothing_of_its_own(void **state)
{
	char buf[4] = "abc";
	struct err err, *given = NULL;
	const struct capture_attach a = { .attach = attached_by_us, .arg = &given };

	assert_ptr_equal(buf, capture_async.stall(buf, 0));
	assert_string_equal("abc", buf);
	assert_ptr_equal(buf, capture_async.stall(buf, sizeof(buf)));
	assert_memory_equal("\0bc", buf, 4);
	buf[0] = 'a';
	assert_ptr_equal(buf, capture_async.caveat(&nothing_known, buf, 1));
	assert_memory_equal("\0bc", buf, 4);
	assert_int_equal(0, capture_async.slot_begin(NULL));
	assert_int_equal(-ENXIO, capture_async.attach(&a, &err));
	assert_ptr_equal(&err, given);
	assert_false(capture_async.moved_away(NULL));
	assert_false(capture_async.comes_back(NULL));
}

/* Who is over the budget sleeps for what is left, but looks at the ring now and then. */
static void shedding_sleeps_in_steps(void **state)
{
	static const uint64_t left[][2] = { { 0, 0 },
					    { 1, 1 },
					    { CAPTURE_SHED_NS - 1, CAPTURE_SHED_NS - 1 },
					    { CAPTURE_SHED_NS, CAPTURE_SHED_NS },
					    { CAPTURE_SHED_NS + 1, CAPTURE_SHED_NS },
					    { UINT64_MAX, CAPTURE_SHED_NS } };

	machine_begin(0);
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		capture_async.shed(NULL, left[i][0]);
		assert_int_equal(i + 1, machine.n_sleeps);
		assert_int_equal(0, machine.sleep.tv_sec);
		assert_int_equal(left[i][1], machine.sleep.tv_nsec);
	}
}

/* --- preempt, on a made-up machine --- */

/* One more than the most urgent target, at most what there is; if that is too much, 1, each
 * tried once; and afterwards this thread is what it was, also if that was urgent. */
static void priorities_that_may_be_had(void **state)
{
	static const struct {
		int most, target, code, want;
	} rows[] = {
		{ 99, 0, 0, 1 },     { 99, 1, 0, 2 },	     { 99, 50, 0, 51 },
		{ 99, 98, 0, 99 },   { 99, 99, -EPERM, 99 }, { 1, 0, 0, 1 },
		{ 1, 1, -EPERM, 1 }, { 5, 4, 0, 5 },	     { 5, 5, -EPERM, 1 },
		{ 0, 0, -EPERM, 1 }, { 0, 7, -EPERM, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct preempt_plan plan = { .targets.rt = { .priority = rows[i].target,
							     .tid = 4711 } };
		const struct capture_want want = { .plan = &plan };
		struct err err = { 0 };
		char who[40];

		machine_begin(rows[i].most);
		machine.policy = SCHED_RR | SCHED_RESET_ON_FORK;
		machine.priority = 3;
		assert_int_equal(rows[i].code, capture_preempt.possible(&want, &err));
		assert_int_equal(rows[i].want, plan.priority);
		assert_int_equal(SCHED_RR | SCHED_RESET_ON_FORK, machine.policy);
		assert_int_equal(3, machine.priority);
		assert_int_equal(rows[i].most ? 2 : 0, machine.n_set); /* and back */
		assert_int_equal(rows[i].target && rows[i].target >= rows[i].most &&
						 rows[i].most < 99 ?
					 2 :
					 1,
				 machine.n_tries);
		if (!rows[i].code)
			continue;
		if (!rows[i].most) {
			assert_non_null(strstr(err.text, "SCHED_FIFO is "));
			continue;
		}
		snprintf(who, sizeof(who), "thread 4711 has real-time priority %d",
			 rows[i].target);
		assert_non_null(strstr(err.text, who));
		assert_non_null(strstr(err.text, rows[i].target < 99 ? "raise" : "lower it"));
	}
}

/* Which CPUs of the targets readers can't go to is found out by going there, spared ones
 * aside, and then this process runs where it ran before. */
static void cpus_that_may_be_had(void **state)
{
	struct preempt_plan plan = { .targets.cpus = cpus_from(1, 4) };
	const struct capture_want want = { .plan = &plan };
	struct cpus own, none = { 0 }, four = cpus_from(4, 1);
	char text[700];
	struct err err;

	machine_begin(99);
	own = machine.kept = cpus_from(0, 1);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_true(same_cpus(&plan.refused, &four));
	assert_true(same_cpus(&machine.kept, &own));
	assert_string_equal(capture_preempt.caveat(&plan, text, sizeof(text)),
			    "samples on CPU 4 are late, for this process may not run there; "
			    "its cpuset (/proc/self/cpuset) must hold what the targets' does");
	/* It runs on all of them already: nothing is tried. */
	machine_begin(99);
	machine.kept = cpus_from(0, 8);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_true(same_cpus(&plan.refused, &none));
	assert_false(machine.cpuset_asked_for);
	/* Not even where it runs can be had: all count as refused. */
	machine_begin(99);
	machine.no_affinity = true;
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "may not run on CPU 1-4,"));
	assert_true(same_cpus(&plan.refused, &plan.targets.cpus));
	/* Spared ones are asked of nobody. */
	machine_begin(99);
	plan.targets.spared = cpus_from(4, 4);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_true(same_cpus(&plan.refused, &none));
	/* All that is not spared is refused. */
	machine_begin(99);
	machine.allowed = machine.kept = cpus_from(0, 1);
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "may not run on CPU 1-3,"));
}

/* CPU 0 is one like others, also where there is no other. */
static void the_first_cpu_alone(void **state)
{
	struct preempt_plan plan = { .targets.cpus = cpus_from(0, 1) };
	const struct capture_want want = { .plan = &plan };
	struct cpus first = cpus_from(0, 1);
	char text[700];
	struct err err;

	machine_begin(99);
	machine.allowed = machine.kept = cpus_from(1, 3);
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "may not run on CPU 0,"));
	assert_true(same_cpus(&plan.refused, &first));
	capture_preempt.caveat(&plan, text, sizeof(text));
	assert_ptr_equal(text, strstr(text, "samples on CPU 0 are late, for this process"));
	/* Which is no reason if others can be had. */
	cpus_add(&plan.targets.cpus, 1);
	machine_begin(99);
	machine.allowed = machine.kept = cpus_from(1, 3);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_true(same_cpus(&plan.refused, &first));
	machine_begin(99);
	plan = (struct preempt_plan){ .targets = { .cpus = first, .spared = first } };
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "the targets run on CPU 0 alone, isolated"));
	capture_preempt.caveat(&plan, text, sizeof(text));
	assert_ptr_equal(text, strstr(text, "samples on CPU 0 are late, for it is isolated"));
}

/* Why readers got no CPU: the budget of our cgroup, or else of the machine. */
static void the_budget_is_told(void **state)
{
	char path[300], text[700], want[400], line[40] = "-1";
	FILE *f = fopen("/proc/sys/kernel/sched_rt_runtime_us", "re");
	long budget = realtime_budget(path, sizeof(path));

	if (f && !fgets(line, sizeof(line), f))
		fail();
	if (f)
		fclose(f);
	snprintf(want, sizeof(want), "(%s is %ld)",
		 budget < 0 ? "kernel.sched_rt_runtime_us" : path,
		 budget < 0 ? strtol(line, NULL, 10) : budget);
	assert_ptr_equal(text, capture_preempt.stall(text, sizeof(text)));
	assert_ptr_equal(text, strstr(text, "a reader got no CPU for a while"));
	assert_string_equal(want, strrchr(text, '('));
}

/* What is late all the same: of two reasons both, spared CPUs last; of refused CPUs and a
 * deadline the first. */
static void caveats_of_preempt(void **state)
{
	struct preempt_plan plan = { .targets = { .cpus = cpus_from(0, 4),
						  .spared = cpus_from(3, 4),
						  .rt.deadline = 77 } };
	char text[700];

	assert_string_equal(
		capture_preempt.caveat(&plan, text, sizeof(text)),
		"thread 77 is SCHED_DEADLINE, which nothing preempts: its samples "
		"are late; samples on CPU 3 are late, for it is isolated (isolcpus, "
		"nohz_full); --hold-isolated sends SCHED_FIFO readers there too");
	/* In a room of any size, and not behind it. */
	for (size_t size = 20; size < 150; size += 20) {
		memset(text, 'x', sizeof(text));
		capture_preempt.caveat(&plan, text, size);
		assert_int_equal(size - 1, strlen(text));
		assert_ptr_equal(text, strstr(text, "thread 77 is SCHED_"));
		for (size_t i = size; i < sizeof(text); i++)
			assert_int_equal('x', text[i]);
	}
	plan.refused = cpus_from(1, 1);
	capture_preempt.caveat(&plan, text, sizeof(text));
	assert_ptr_equal(text, strstr(text, "samples on CPU 1 are late, for this process"));
	assert_non_null(strstr(text, "does; samples on CPU 3 are late"));
	assert_null(strstr(text, "DEADLINE"));
	plan = (struct preempt_plan){ .targets.rt.deadline = 78 };
	assert_string_equal(
		capture_preempt.caveat(&plan, text, sizeof(text)),
		"thread 78 is SCHED_DEADLINE, which nothing preempts: its samples are late");
}

/* A soft limit on running without sleep is raised to the hard one; without one, or where it
 * can't be asked for, nothing is set. */
static void limits_on_running(void **state)
{
	struct preempt_plan plan = { 0 };
	const struct capture_want want = { .plan = &plan };
	struct err err;

	machine_begin(99);
	machine.limit = (struct rlimit){ 5, 9 };
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(9, machine.limit.rlim_cur);
	assert_int_equal(9, machine.limit.rlim_max);
	machine_begin(99);
	machine.limit = (struct rlimit){ 5, 9 };
	machine.no_limit = true;
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(0, machine.n_limits);
}

/* A reader goes to its CPU first and is urgent there; where it may not go it stays what it
 * is. Its children are not urgent. */
static void where_readers_go(void **state)
{
	struct preempt_plan plan = { .priority = 7 };
	struct cpus two = cpus_from(2, 1);

	machine_begin(99);
	assert_int_equal(0, capture_preempt.thread_begin(&plan, 2));
	assert_true(same_cpus(&machine.kept, &two));
	assert_int_equal(SCHED_FIFO | SCHED_RESET_ON_FORK, machine.policy);
	assert_int_equal(7, machine.priority);
	machine_begin(99);
	assert_int_equal(-EINVAL, capture_preempt.thread_begin(&plan, 5));
	assert_int_equal(0, machine.n_set);
	machine_begin(6);
	assert_int_equal(-EPERM, capture_preempt.thread_begin(&plan, 2));
}

/* A reader on another CPU holds nobody; and one that could have been there, if no witness
 * would tell. */
static void readers_that_moved(void **state)
{
	static struct cpu_slot slot = { .cpu = 2 };
	static struct reader_config c;
	static struct reader r = { .c = &c, .slot = &slot };

	for (int witness = 0; witness < 2; witness++) {
		c.witness = witness;
		machine_begin(99);
		machine.cpu = 2;
		machine.kept = cpus_from(2, 1);
		assert_false(capture_preempt.moved_away(&r));
		machine.kept = cpus_from(1, 2);
		assert_int_equal(!witness, capture_preempt.moved_away(&r));
		machine.no_affinity = true;
		assert_int_equal(!witness, capture_preempt.moved_away(&r));
		machine.cpu = 1;
		assert_true(capture_preempt.moved_away(&r));
	}
}

static int pick(const char *name, const struct capture_ops **ret, struct err *why,
		struct err *err)
{
	*ret = NULL;
	*why = (struct err){ .text = "stale" };
	*err = (struct err){ 0 };
	return capture_pick(name, &in_general, ret, why, err);
}

static void pick_by_name(void **state)
{
	const struct capture_ops *ops;
	struct err why, err;

	for (size_t i = 0; captures[i]; i++) {
		int r = pick(captures[i]->name, &ops, &why, &err);

		assert_ptr_equal(ops, captures[i]);
		assert_int_equal(r, captures[i]->possible(&in_general, NULL));
		assert_int_equal(r == 0, err.text[0] == '\0');
		assert_string_equal(why.text, "");
	}
}

/* The first that is possible; of a worse one it is told why. */
static void pick_auto(void **state)
{
	const struct capture_ops *ops;
	struct err why, err;

	assert_int_equal(pick("auto", &ops, &why, &err), 0);
	if (capture_preempt.possible(&in_general, NULL) == 0) {
		assert_ptr_equal(ops, &capture_preempt);
		assert_string_equal(why.text, "");
	} else {
		assert_ptr_equal(ops, &capture_stop);
		assert_non_null(strstr(why.text, "SCHED_FIFO"));
	}
}

/* By name one gets what one asked for, and what it says of that; auto says of each better one
 * why not, in their order. */
static void pick_what_is_impossible(void **state)
{
	struct preempt_plan isolated = { .targets = { .cpus = cpus_from(1, 1),
						      .spared = cpus_from(1, 1) } };
	struct capture_want want = { .plan = &isolated };
	const struct capture_ops *ops = NULL;
	struct err why = { .text = "stale" }, err = { 0 };
	const char *second;

	assert_int_equal(0, capture_pick("auto", &want, &ops, &why, &err));
	assert_ptr_equal(ops, &capture_async);
	assert_ptr_equal(why.text, strstr(why.text, "the targets run on CPU 1 alone"));
	second = strstr(why.text, "is given; --capture stop samples user mode only");
	assert_non_null(second);
	/* Named, stop takes events of both modes; of none but the kernel's not even then. */
	assert_int_equal(0, capture_pick("stop", &want, &ops, &why, &err));
	assert_ptr_equal(ops, &capture_stop);
	assert_string_equal("", why.text);
	want.kernel_only = true;
	assert_int_equal(-ENOENT, capture_pick("stop", &want, &ops, &why, &err));
	assert_non_null(strstr(err.text, "user mode only"));
	assert_int_equal(-EPERM, capture_pick("preempt", &want, &ops, &why, &err));
	assert_ptr_equal(ops, &capture_preempt);
	/* With stop possible, its reason is none. */
	want = (struct capture_want){ .plan = &isolated, .user_only = true };
	assert_int_equal(0, capture_pick("auto", &want, &ops, &why, &err));
	assert_ptr_equal(ops, &capture_stop);
	assert_null(strstr(why.text, "; --capture"));
}

static void pick_errors(void **state)
{
	static const char *const rows[][2] = {
		{ "bpf", "not built" }, { "nosuch", "'nosuch'" },
		{ "Async", "'Async'" }, { "", "auto, preempt, stop, async" },
		{ "stop ", "'stop '" },
	};
	const struct capture_ops *ops;
	struct err why, err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(pick(rows[i][0], &ops, &why, &err), -EINVAL);
		assert_string_equal("", why.text);
		assert_null(ops);
		assert_int_equal(err.code, -EINVAL);
		assert_non_null(strstr(err.text, rows[i][1]));
	}
}

/* With a red zone, whole or without its bytes: no byte behind its record is touched. */
static void stack_bytes(void **state)
{
	enum { SP = 0x7000, STACK = 64, GUARD = 256 };
	static struct reader_config c = { .native = true };
	static struct reader r = { .c = &c };
	unsigned char regs[8 * ARCH_MAX_REGS], stack[STACK];
	const struct pending p = {
		.s = { .user_sp = SP, .regs = regs, .stack = { stack, STACK } }, .held = true
	};
	const struct walk w = { .res.end = PYSTACK_NOPYTHON, .rest.red_end = SP };
	_Alignas(8) unsigned char buf[4096];
	struct q_sample *q = (void *)buf;

	memset(regs, 1, sizeof(regs));
	memset(r.red, 2, sizeof(r.red));
	memset(stack, 3, sizeof(stack));
	for (int drop = 0; drop < 2; drop++) {
		memset(buf, 0xee, sizeof(buf));
		*q = (struct q_sample){ 0 };
		rest_size(&r, &p, &w, q);
		assert_int_equal(RED_BYTES + STACK, q->n_stack);
		if (drop)
			q_drop_stack(q);
		rest_copy(&r, &p.s, q);
		assert_int_equal(1, q_regs(q)[8 * q->n_regs - 1]);
		assert_int_equal(drop ? 0xee : 2, q_stack(q)[0]);
		assert_int_equal(drop ? 0xee : 3, q_stack(q)[RED_BYTES + STACK - 1]);
		for (size_t i = q_bytes(q); i < q_bytes(q) + GUARD; i++)
			assert_int_equal(0xee, buf[i]);
	}
}

/* No right is needed to see that nothing is done there. */
static void isolated_cpus_are_spared(void **state)
{
	struct preempt_plan plan = { 0 };
	struct preempt_targets *t = &plan.targets;
	const struct capture_want want = { .plan = &plan };
	struct cpus before, after;
	struct err err;
	char text[700];

	for (int cpu = 1; cpu < 4; cpu++)
		cpus_add(&t->cpus, cpu);
	for (int cpu = 2; cpu < 8; cpu++)
		cpus_add(&t->spared, cpu);
	assert_int_equal(0, cpus_of_thread(&before, 0));
	assert_int_equal(-EACCES, capture_preempt.thread_begin(&plan, 3));
	assert_int_equal(0, cpus_of_thread(&after, 0));
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(SCHED_OTHER, sched_getscheduler(0));
	assert_string_equal(capture_preempt.caveat(&plan, text, sizeof(text)),
			    "samples on CPU 2-3 are late, for it is isolated (isolcpus, "
			    "nohz_full); --hold-isolated sends SCHED_FIFO readers there too");
	cpus_add(&t->spared, 1);
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_string_equal(
		err.text, "the targets run on CPU 1-3 alone, isolated (isolcpus, nohz_full), "
			  "where no SCHED_FIFO reader goes unless --hold-isolated is given");
	t->spared = (struct cpus){ 0 };
	assert_string_equal("", capture_preempt.caveat(&plan, text, sizeof(text)));
}

/* By a process that is gone afterwards. */
static bool may_be_fifo(void)
{
	struct sched_param param = { .sched_priority = 3 };
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(sched_setscheduler(0, SCHED_FIFO, &param) < 0);
	return waitpid(child, &status, 0) == child && status == 0;
}

static void *be_reader(void *arg)
{
	const struct preempt_plan *plan = arg;
	struct sched_param param;
	struct cpus cpus;

	assert_int_equal(0, capture_preempt.thread_begin(plan, 0));
	assert_int_equal(SCHED_FIFO | SCHED_RESET_ON_FORK, sched_getscheduler(0));
	assert_int_equal(0, sched_getparam(0, &param));
	assert_int_equal(plan->priority, param.sched_priority);
	assert_int_equal(0, cpus_of_thread(&cpus, 0));
	assert_int_equal(1, cpus_count(&cpus));
	assert_true(cpus_has(&cpus, 0));
	return NULL;
}

/* A reader is pinned to its CPU and more urgent than all targets. */
static void readers_are_urgent(void **state)
{
	struct preempt_plan plan = { .targets.rt = { .priority = 2 } };
	const struct capture_want want = { .plan = &plan };
	pthread_t thread;
	struct cpus own;
	struct err err;

	assert_int_equal(0, cpus_of_thread(&own, 0));
	if (!may_be_fifo() || !cpus_has(&own, 0))
		skip();
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(3, plan.priority);
	assert_int_equal(0, pthread_create(&thread, NULL, be_reader, &plan));
	pthread_join(thread, NULL);
}

/* Readers can't go where the targets run, but for CPUs that are spared. */
static void all_cpus_are_refused(void **state)
{
	enum { NONE = CPUS_MAX - 2 }; /* no machine has it */
	struct preempt_plan plan = { 0 };
	const struct capture_want want = { .plan = &plan };
	struct err err;

	if (!may_be_fifo())
		skip();
	for (int spared = 0; spared < 2; spared++) {
		cpus_add(&plan.targets.cpus, NONE + spared);
		if (spared)
			cpus_add(&plan.targets.spared, NONE + spared);
		assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
		assert_non_null(strstr(err.text, "this process may not run on CPU 8190,"));
	}
	cpus_add(&plan.targets.cpus, 0);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
}

/* A reader that never sleeps is not ended by the soft limit on that. */
static void limit_on_running_is_raised(void **state)
{
	struct preempt_plan plan = { 0 };
	const struct capture_want want = { .plan = &plan };
	struct rlimit before, low, after;
	struct err err;

	assert_int_equal(0, getrlimit(RLIMIT_RTTIME, &before));
	low = (struct rlimit){ .rlim_cur = 1000000, .rlim_max = before.rlim_max };
	if (!may_be_fifo() || before.rlim_max <= low.rlim_cur)
		skip();
	assert_int_equal(0, setrlimit(RLIMIT_RTTIME, &low));
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(0, getrlimit(RLIMIT_RTTIME, &after));
	assert_int_equal(before.rlim_max, after.rlim_cur);
	setrlimit(RLIMIT_RTTIME, &before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(judge),
		cmocka_unit_test(async_needs_the_witness),
		cmocka_unit_test(stop_needs_the_registers),
		cmocka_unit_test(stop_refuses),
		cmocka_unit_test(stop_signal),
		cmocka_unit_test(stop_signal_of_a_family),
		cmocka_unit_test(pick_by_name),
		cmocka_unit_test(pick_auto),
		cmocka_unit_test(pick_what_is_impossible),
		cmocka_unit_test(pick_errors),
		cmocka_unit_test(nothing_of_its_own),
		cmocka_unit_test_teardown(shedding_sleeps_in_steps, machine_end),
		cmocka_unit_test_teardown(priorities_that_may_be_had, machine_end),
		cmocka_unit_test_teardown(cpus_that_may_be_had, machine_end),
		cmocka_unit_test_teardown(the_first_cpu_alone, machine_end),
		cmocka_unit_test(the_budget_is_told),
		cmocka_unit_test(caveats_of_preempt),
		cmocka_unit_test_teardown(limits_on_running, machine_end),
		cmocka_unit_test_teardown(where_readers_go, machine_end),
		cmocka_unit_test_teardown(readers_that_moved, machine_end),
		cmocka_unit_test(stack_bytes),
		cmocka_unit_test(isolated_cpus_are_spared),
		cmocka_unit_test(readers_are_urgent),
		cmocka_unit_test(all_cpus_are_refused),
		cmocka_unit_test(limit_on_running_is_raised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
