/* SPDX-License-Identifier: MIT
 *
 * stop: what proves a stop, whom it refuses, and by which signal it stops whom.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "unit.h"
#include "base/clock.h"
#include "capture/capture.h"
#include "capture/reader_int.h"
#include "capture/tracer.h"
#include "fake_machine.h"

extern const struct capture_ops capture_stop;

static int attached_by_us(void *arg, struct err *err)
{
	*(struct err **)arg = err;
	return -ENXIO;
}

static void nothing(int sig)
{
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
		{ { .named = true, .waits = true }, -EINVAL, "--mode wall" },
		{ { .named = true, .joins = true }, -EINVAL, "--match" },
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

static void block(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	if (sig)
		sigaddset(&set, sig);
	pthread_sigmask(how, &set, NULL);
}

static void leave_the_second(void)
{
	if (machine.n_sleeps == 3)
		block(SIG_UNBLOCK, SIGWINCH);
}

static void *waits_deaf(void *arg)
{
	block(SIG_BLOCK, SIGURG);
	block(SIG_BLOCK, SIGWINCH);
	sem_post(arg);
	pause();
	return NULL;
}

/* One that a thread blocks is not the first choice, but one that can be had. */
static void signals_that_a_thread_blocks(void **state)
{
	pid_t self = getpid();
	pthread_t thread;
	struct err err;
	sem_t deaf;

	sem_init(&deaf, 0, 0);
	assert_int_equal(0, pthread_create(&thread, NULL, waits_deaf, &deaf));
	sem_wait(&deaf);
	assert_int_equal(SIGURG, capture_stop_signal(&self, 1, NULL, 0, &err));
	signal(SIGURG, nothing);
	assert_int_equal(SIGWINCH, capture_stop_signal(&self, 1, NULL, 0, &err));
	signal(SIGURG, SIG_DFL);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

/* A signal that is blocked for a moment, as in a thread that is just being made, is not taken;
 * but who blocks both all the time is not waited for long. */
static void signals_blocked_for_a_moment(void **state)
{
	pid_t self = getpid();
	struct err err;

	machine_begin(0);
	machine.on_sleep = leave_the_second;
	block(SIG_BLOCK, SIGURG);
	block(SIG_BLOCK, SIGWINCH);
	assert_int_equal(SIGWINCH, capture_stop_signal(&self, 1, NULL, 0, &err));
	assert_int_equal(3, machine.n_sleeps);
	assert_int_equal(2000000, machine.sleep.tv_nsec);
	block(SIG_BLOCK, SIGWINCH);
	assert_int_equal(-EBUSY, capture_stop_signal(&self, 1, NULL, 0, &err));
	assert_true(machine.n_sleeps > 3 && machine.n_sleeps < 20);
	/* Other signals may be taken by anybody. */
	block(SIG_UNBLOCK, SIGWINCH);
	block(SIG_UNBLOCK, SIGURG);
	block(SIG_BLOCK, SIGUSR1);
	machine.n_sleeps = 0;
	assert_int_equal(SIGURG, capture_stop_signal(&self, 1, NULL, 0, &err));
	assert_int_equal(0, machine.n_sleeps);
	block(SIG_UNBLOCK, SIGUSR1);
}

static _Atomic int other_blocks; /* 1: asked, 2: it does, 3: it may end */

static void *block_in_thread(void *arg)
{
	block(SIG_BLOCK, SIGURG);
	other_blocks = 2;
	while (other_blocks == 2)
		usleep(100);
	return NULL;
}

/* Each thread has a say, also one that is not the first; and each process. */
static void signals_of_other_threads(void **state)
{
	pid_t pids[2] = { fork(), getpid() };
	pthread_t thread;
	struct err err;

	if (pids[0] == 0) {
		pause();
		_exit(0);
	}
	other_blocks = 1;
	assert_int_equal(0, pthread_create(&thread, NULL, block_in_thread, NULL));
	while (other_blocks == 1)
		usleep(100);
	assert_int_equal(SIGWINCH, capture_stop_signal(&pids[1], 1, NULL, 0, &err));
	assert_int_equal(SIGWINCH, capture_stop_signal(pids, 2, NULL, 0, &err));
	assert_int_equal(SIGURG, capture_stop_signal(pids, 1, NULL, 0, &err));
	assert_int_equal(SIGWINCH, capture_stop_signal(pids, 1, &pids[1], 1, &err));
	other_blocks = 3;
	pthread_join(thread, NULL);
	assert_int_equal(SIGURG, capture_stop_signal(pids, 2, &pids[1], 1, &err));
	kill(pids[0], SIGKILL);
	waitpid(pids[0], NULL, 0);
}

/* Who is traced already can't be had, and by whom is said. */
static void a_traced_process_is_refused(void **state)
{
	pid_t child = fork();
	struct capture_want want = { .named = true, .pids = &child, .n_pids = 1 };
	char who[60];
	struct err err;

	if (child == 0) {
		pause();
		_exit(0);
	}
	assert_int_equal(0, capture_stop.possible(&want, &err));
	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0) {
		assert_int_equal(-EPERM, capture_stop.possible(&want, &err));
		snprintf(who, sizeof(who), "process %d is traced by process %d", child,
			 getpid());
		assert_non_null(strstr(err.text, who));
		ptrace(PTRACE_DETACH, child, NULL, NULL);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(-ESRCH, capture_stop.possible(&want, &err));
}

static void expect_no_descriptor(void)
{
	pid_t self = getpid();
	struct rlimit was, none;
	struct err err;
	char want[32];
	int r;

	getrlimit(RLIMIT_NOFILE, &was);
	none = was;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	r = capture_stop_signal(&self, 1, NULL, 0, &err);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(-EMFILE, r);
	snprintf(want, sizeof(want), "process %d can't be looked at", self);
	assert_ptr_equal(err.text, strstr(err.text, want));
}

static void *waits_for(void *sem)
{
	while (sem_wait(sem) < 0)
		;
	return NULL;
}

/* Where descriptors have run out nobody knows which signals are taken, be it of a process with
 * one thread, whose tasks are not listed, or with several. */
static void no_descriptor_for_signals(void **state)
{
	pthread_t other;
	sem_t end;

	expect_no_descriptor();
	sem_init(&end, 0, 0);
	assert_int_equal(0, pthread_create(&other, NULL, waits_for, &end));
	expect_no_descriptor();
	sem_post(&end);
	pthread_join(other, NULL);
}

static void *be_stops_reader(void *arg)
{
	struct cpus two = cpus_from(2, 1);

	machine_begin(0);
	assert_int_equal(0, capture_stop.thread_begin(NULL, 2));
	assert_true(same_cpus(&machine.kept, &two));
	assert_int_equal(0, capture_stop.thread_begin(NULL, 7));
	assert_true(same_cpus(&machine.kept, &two));
	machine_end(NULL);
	assert_int_equal(SCHED_BATCH, sched_getscheduler(0) & ~SCHED_RESET_ON_FORK);
	return NULL;
}

/* Its readers go where the sample was if they may, and are no more urgent than others; its
 * events are of user mode, of one thread, and wait to be armed. */
static void stop_demands(void **state)
{
	struct perf_options o = { .kernel = true, .inherit = true };
	struct cpu_slot slot = { .cpu = 3 };
	pthread_t thread;

	capture_stop.limit(&o);
	assert_false(o.kernel || o.inherit);
	assert_true(o.disabled);
	assert_int_equal(0, pthread_create(&thread, NULL, be_stops_reader, NULL));
	pthread_join(thread, NULL);
	assert_int_equal(0, capture_stop.slot_begin(&slot));
	assert_int_equal(3, slot.handover.cpu);
	assert_true(slot.handover.posted >= 0);
	handover_deinit(&slot.handover);
	assert_true(capture_stop.comes_back(&(struct hold){ .preempted = true }));
	assert_false(capture_stop.comes_back(&(struct hold){ .witness = WITNESS_SAME }));
}

/* Threads are stopped on no CPU: all readers are told to be quiet, each once, and until when.
 */
static void stop_sheds_on_all_cpus(void **state)
{
	enum { LEFT = 500000000 };
	static struct cpu_slot slots[3];
	static struct reader_config c = { .slots = slots, .n_slots = 2 };
	static struct reader r = { .c = &c, .slot = &slots[0], .n_pend = 2, .pend[0].done = true };
	uint64_t before = now_ns(), posts;

	for (int i = 0; i < 3; i++)
		assert_int_equal(0, handover_init(&slots[i].handover, i));
	for (int turn = 0; turn < 2; turn++)
		capture_stop.shed(&r, LEFT);
	for (int i = 0; i < 2; i++) {
		assert_true(slots[i].handover.quiet_until >= before + LEFT);
		assert_true(slots[i].handover.quiet_until <= now_ns() + LEFT);
		assert_int_equal(0, eventfd_read(slots[i].handover.posted, &posts));
		assert_int_equal(1, posts);
	}
	assert_int_equal(0, slots[2].handover.quiet_until);
	assert_int_equal(1, r.n_pend); /* what is judged by now is over */
	assert_false(r.pend[0].done);
	for (int i = 0; i < 3; i++)
		handover_deinit(&slots[i].handover);
}

static void note_text(void *arg, const char *text)
{
	snprintf(arg, 400, "%s", text);
}

/* Where no signal is left no tracer is made, and the reason is the caller's. */
static void stop_attaches_nobody(void **state)
{
	static const pid_t nobody = 1 << 23;
	struct tracer_config config = { .signal = 0 };
	struct tracer *tracer = NULL;
	char said[400] = "";
	const struct note note = { .take = note_text, .arg = said };
	struct err err = { 0 }, *given = NULL;
	const struct capture_attach a = { .attach = attached_by_us,
					  .arg = &given,
					  .pids = &nobody,
					  .n_pids = 1,
					  .note = &note,
					  .tracer = &config,
					  .ret_tracer = &tracer };

	assert_int_equal(-ESRCH, capture_stop.attach(&a, &err));
	assert_non_null(strstr(err.text, "no process"));
	assert_null(tracer);
	assert_null(given);
	assert_string_equal("", said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stop_needs_the_registers),
		cmocka_unit_test(stop_refuses),
		cmocka_unit_test(stop_signal),
		cmocka_unit_test(stop_signal_of_a_family),
		cmocka_unit_test(signals_that_a_thread_blocks),
		cmocka_unit_test_teardown(signals_blocked_for_a_moment, machine_end),
		cmocka_unit_test(signals_of_other_threads),
		cmocka_unit_test(a_traced_process_is_refused),
		cmocka_unit_test(no_descriptor_for_signals),
		cmocka_unit_test_teardown(stop_demands, machine_end),
		cmocka_unit_test(stop_sheds_on_all_cpus),
		cmocka_unit_test(stop_attaches_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
