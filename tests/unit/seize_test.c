/* SPDX-License-Identifier: MIT
 *
 * seize: what the tracer asks of the kernel, and what it makes of the answers. The kernel is
 * played: tracer_test has a real one.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "base/clock.h"
#include "capture/seize.h"

#include "sleeper.h"

enum { OPTIONS = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC, NOBODY = 1 << 30 };
enum { EACH_NS = 100000000 }; /* those in an exec are looked at again */

/* What the next call says, and what the last one was asked. */
static struct {
	int code; /* 0: done */
	unsigned hangs; /* so many do not return */
	long request, data;
	pid_t tid;
	void *at;
} kernel;

/* Instead of the C library's. A call that is done may leave any errno. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list ap;

	va_start(ap, request);
	kernel.request = request;
	kernel.tid = va_arg(ap, pid_t);
	kernel.at = va_arg(ap, void *);
	kernel.data = va_arg(ap, long);
	va_end(ap);
	if (kernel.hangs) {
		kernel.hangs--;
		for (;;)
			pause();
	}
	errno = kernel.code ? kernel.code : ESRCH;
	return kernel.code ? -1 : 0;
}

static int setup(void **state)
{
	static struct seizer s;

	memset(&kernel, 0, sizeof(kernel));
	nudge_init();
	*state = &s;
	return seizer_init(&s, OPTIONS);
}

static int teardown(void **state)
{
	seizer_deinit(*state);
	return 0;
}

static void as_it_was_told(void **state)
{
	struct err err = { 0 };

	assert_int_equal(seizer_seize(*state, getpid(), &err), 0);
	assert_int_equal(kernel.request, PTRACE_SEIZE);
	assert_int_equal(kernel.tid, getpid());
	assert_null(kernel.at);
	assert_int_equal(kernel.data, OPTIONS);
}

/* Who traces us can't be stopped by us; another can. */
static void one_that_traces_us(void **state)
{
	struct seizer *s = *state;
	struct err err = { 0 };
	char want[64];

	s->our_tracer = getppid();
	assert_int_equal(seizer_seize(s, getpid(), &err), 0);
	kernel.tid = 0;
	assert_int_equal(seizer_seize(s, getppid(), &err), -EPERM);
	assert_int_equal(kernel.tid, 0);
	snprintf(want, sizeof(want), "process %d traces pysampled, ", getppid());
	assert_memory_equal(err.text, want, strlen(want));
}

/* A child that is traced by us from the begin on, and stops as it has said so. */
static pid_t born_traced(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		syscall(SYS_ptrace, PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void one_that_is_ours_already(void **state)
{
	struct err err = { 0 };
	pid_t pid = born_traced();

	kernel.code = EPERM;
	assert_int_equal(seizer_seize(*state, pid, &err), 0);
	kernel.code = ESRCH;
	assert_int_equal(seizer_seize(*state, pid, &err), -ESRCH);
	sleeper_end(pid);
}

static void one_that_has_ended(void **state)
{
	struct err err = { 0 };
	siginfo_t si;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	kernel.code = EPERM;
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	assert_int_equal(seizer_seize(*state, pid, &err), -ESRCH);
	waitpid(pid, NULL, 0);
	assert_int_equal(seizer_seize(*state, pid, &err), -ESRCH);
	assert_string_equal(err.text, "");
}

static void one_that_may_not_be_had(void **state)
{
	struct err err = { 0 };
	char want[64];
	pid_t pid = sleeper_start();

	kernel.code = EACCES;
	snprintf(want, sizeof(want), "not permitted to trace thread %d (%s): ", pid,
		 strerror(EACCES));
	assert_int_equal(seizer_seize(*state, pid, &err), -EPERM);
	assert_memory_equal(err.text, want, strlen(want));
	assert_int_equal(seizer_next(*state), 0); /* nor is it tried again */
	sleeper_end(pid);
}

/* Whether it has ended, or is ours already, can't be told. */
static void one_that_can_not_be_looked_at(void **state)
{
	struct err err = { 0 };
	struct rlimit was;
	int r;

	kernel.code = EPERM;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, was.rlim_max }), 0);
	r = seizer_seize(*state, getpid(), &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(r, -EMFILE);
	assert_non_null(strstr(err.text, "no descriptors left: raise the limit (ulimit -n)"));
}

/* A process called "debugger" that traces another; which one, by @to. */
static int be_a_debugger(int to)
{
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "debugger");
	pid = born_traced();
	if (write(to, &pid, sizeof(pid)) == sizeof(pid))
		pause();
	return 1;
}

static void one_that_another_traces_is_told_with_its_tracer(void **state)
{
	struct err err = { 0 };
	char want[200];
	int ends[2];
	pid_t debugger, pid;

	assert_int_equal(pipe(ends), 0);
	debugger = fork();
	if (debugger == 0)
		_exit(be_a_debugger(ends[1]));
	assert_int_equal(read(ends[0], &pid, sizeof(pid)), sizeof(pid));
	kernel.code = EPERM;
	assert_int_equal(seizer_seize(*state, pid, &err), -EPERM);
	snprintf(want, sizeof(want), "thread %d is traced by process %d (debugger) already", pid,
		 debugger);
	assert_memory_equal(err.text, want, strlen(want));
	kill(pid, SIGKILL);
	kill(debugger, SIGKILL);
	waitpid(debugger, NULL, 0);
	close(ends[0]);
	close(ends[1]);
}

/* On a busy machine not each time. */
static void one_that_hangs_is_given_up_soon(void **state)
{
	enum { TRIES = 20, SOON_NS = 1000000000 };
	struct err err = { 0 };
	uint64_t least = UINT64_MAX;

	kernel.hangs = UINT_MAX;
	for (int i = 0; i < TRIES && least > SOON_NS; i++) {
		uint64_t begin = now_ns();

		assert_int_equal(seizer_seize(*state, getpid(), &err), -EAGAIN);
		least = MIN(least, now_ns() - begin);
	}
	assert_true(least <= SOON_NS);
}

/* So it looks where we have no CPU until the time is up. */
static void one_that_hangs_now_and_then_is_had(void **state)
{
	struct err err = { 0 };

	kernel.hangs = 3;
	assert_int_equal(seizer_seize(*state, getpid(), &err), 0);
	assert_int_equal(kernel.hangs, 0);
	assert_int_equal(seizer_next(*state), 0);
}

/* Do waits of this thread end now and then? */
static bool is_nudged(const struct seizer *s)
{
	struct itimerspec t;

	assert_int_equal(timer_gettime(s->limit.timer, &t), 0);
	assert_int_equal(t.it_interval.tv_sec, 0);
	assert_true(!t.it_interval.tv_nsec || t.it_interval.tv_nsec == EACH_NS);
	return t.it_interval.tv_nsec;
}

static void later(void **state)
{
	struct seizer *s = *state;
	pid_t parent = getppid();
	struct err err = { 0 };

	kernel.hangs = UINT_MAX;
	assert_int_equal(seizer_next(s), 0);
	assert_false(is_nudged(s));
	assert_int_equal(seizer_seize(s, NOBODY, &err), -ESRCH);
	assert_false(is_nudged(s));
	assert_int_equal(seizer_seize(s, parent, &err), -EAGAIN);
	assert_int_equal(seizer_seize(s, getpid(), &err), -EAGAIN);
	assert_non_null(strstr(err.text, "is in an execve(2) that does not return"));
	assert_true(is_nudged(s));
	kernel.hangs = 0;
	assert_int_equal(seizer_seize(s, getpid(), &err), 0);
	assert_true(is_nudged(s)); /* they wait as before */
	assert_int_equal(seizer_next(s), parent);
	assert_true(is_nudged(s));
	assert_int_equal(seizer_next(s), getpid());
	assert_false(is_nudged(s));
	assert_int_equal(seizer_next(s), 0);
}

/* Whoever waits for it looks, and finds that it is gone. */
static void one_that_ended_meanwhile_is_told(void **state)
{
	struct err err = { 0 };
	pid_t pid = sleeper_start();

	kernel.hangs = UINT_MAX;
	assert_int_equal(seizer_seize(*state, pid, &err), -EAGAIN);
	sleeper_end(pid);
	assert_int_equal(seizer_next(*state), pid);
	assert_int_equal(seizer_next(*state), 0);
}

#define SEIZE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SEIZE_TEST(as_it_was_told),
		SEIZE_TEST(one_that_traces_us),
		SEIZE_TEST(one_that_is_ours_already),
		SEIZE_TEST(one_that_has_ended),
		SEIZE_TEST(one_that_may_not_be_had),
		SEIZE_TEST(one_that_can_not_be_looked_at),
		SEIZE_TEST(one_that_another_traces_is_told_with_its_tracer),
		SEIZE_TEST(one_that_hangs_is_given_up_soon),
		SEIZE_TEST(one_that_hangs_now_and_then_is_had),
		SEIZE_TEST(later),
		SEIZE_TEST(one_that_ended_meanwhile_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
