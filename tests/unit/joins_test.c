/* SPDX-License-Identifier: MIT
 *
 * joins: who is seen while all who look are at work waits, and nobody asks for him meanwhile.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "base/clock.h"
#include "noted.h"
#include "targets/joins.h"

enum { MANY = 20, AT_ONCE = 16, LONG_MS = 1000 };

/* --- this machine --- */

static struct {
	pid_t pids[MANY]; /* opening the first ones' maps hangs; 0: not known */
	_Atomic bool hangs;
	_Atomic int n_hang, n_read; /* who does, and the others whose maps were opened */
	_Atomic time_t later_s;	    /* so much later it is */
	char told[300];
	int n_told;
} machine;

int open(const char *path, int flags, ...)
{
	int pid;

	if (sscanf(path, "/proc/%d/maps", &pid) == 1 && strstr(path, "/maps")) {
		size_t i = 0;

		while (i < MANY && machine.pids[i] != pid)
			i++;
		if (i < AT_ONCE && machine.hangs)
			machine.n_hang++;
		else if (i < MANY)
			machine.n_read++;
		while (i < AT_ONCE && machine.hangs)
			usleep(1000);
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, clock, t);

	t->tv_sec += clock == CLOCK_MONOTONIC ? machine.later_s : 0;
	return r;
}

static void tell(void *arg, const char *text)
{
	(void)arg;
	snprintf(machine.told, sizeof(machine.told), "%s", text);
	machine.n_told++;
}

static struct {
	pid_t parent;
	int n;
} strangers;

static void strange(void *arg, pid_t parent)
{
	(void)arg;
	strangers.parent = parent;
	strangers.n++;
}

/* --- processes --- */

/* Says which it is when its parent's end will be its own. */
static _Noreturn void rest(int told)
{
	pid_t pid = getpid();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(told, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	for (;;)
		pause();
}

/* Processes of another one's, for our own children never fit. Returns their parent. */
static pid_t start(pid_t pids[MANY])
{
	int told[2];
	pid_t parent;

	assert_int_equal(pipe(told), 0);
	parent = fork();
	if (parent == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < MANY; i++)
			if (fork() == 0)
				rest(told[1]);
		for (;;)
			pause();
	}
	for (int i = 0; i < MANY; i++)
		assert_int_equal(read(told[0], &pids[i], sizeof(*pids)), sizeof(*pids));
	close(told[0]);
	close(told[1]);
	return parent;
}

/* The end of a look tells that the next one can begin. */
static void more_than_can_be_looked_at(void **state)
{
	struct scope all = { 0 };
	struct tracker t;
	struct joins *j;
	pid_t pids[MANY], parent = start(pids);

	(void)state;
	assert_int_equal(tracker_init(&t, -1), 0);
	j = joins_create(&t, &all, (struct joins_listener){ strange, NULL });
	assert_non_null(j);
	for (int i = 0; i < MANY; i++)
		assert_true(joins_look(j, pids[i]));
	assert_int_equal(joins_due_ms(j, LONG_MS), 0);
	assert_int_equal(joins_run(j), 0);
	assert_in_range(joins_due_ms(j, LONG_MS), 10, LONG_MS);
	joins_destroy(j);
	tracker_deinit(&t);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
}

static void until(struct tracker *t, struct joins *j, _Atomic int *n, int reaches)
{
	for (int i = 0; i < 10000 && *n < reaches; i++) {
		tracker_run(t);
		assert_int_equal(joins_run(j), 0);
		usleep(1000);
	}
	assert_true(*n >= reaches);
}

/* Those whose looks hang are left out, one is named, and others have their turn. */
static void who_hangs(void **state)
{
	struct scope all = { 0 };
	struct tracker t;
	struct joins *j;
	pid_t pids[MANY], parent = start(pids);

	(void)state;
	memcpy(machine.pids, pids, sizeof(pids));
	machine.hangs = true;
	assert_int_equal(tracker_init(&t, -1), 0);
	t.note = (struct note){ .take = tell };
	j = joins_create(&t, &all, (struct joins_listener){ strange, NULL });
	for (int i = 0; i < MANY; i++)
		assert_true(joins_look(j, pids[i]));
	until(&t, j, &machine.n_hang, AT_ONCE);
	assert_int_equal(machine.n_read, 0);
	assert_int_equal(machine.n_told, 0);
	machine.later_s = 11;
	assert_int_equal(joins_due_ms(j, LONG_MS), 0);
	until(&t, j, &machine.n_read, MANY - AT_ONCE);
	assert_int_equal(machine.n_told, 1);
	assert_non_null(strstr(machine.told, "takes too long to look at"));
	machine.hangs = false;
	joins_destroy(j);
	tracker_deinit(&t);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
}

/* How often maps have been opened when nobody is looked at any more. */
static int reads(struct tracker *t, struct joins *j)
{
	for (int i = 0; i < 10000 && joins_due_ms(j, 99 * LONG_MS) < 99 * LONG_MS; i++) {
		tracker_run(t);
		assert_int_equal(joins_run(j), 0);
		usleep(1000);
	}
	return machine.n_read;
}

/* Who becomes another program during a look is looked at once more: it was asked for. */
static void who_is_asked_for_during_a_look(void **state)
{
	struct scope all = { 0 };
	struct tracker t;
	struct joins *j;
	pid_t pids[MANY], parent = start(pids);
	int one;

	(void)state;
	memcpy(machine.pids, pids, sizeof(pids));
	machine.later_s = 0;
	machine.n_hang = machine.n_read = 0;
	assert_int_equal(tracker_init(&t, -1), 0);
	j = joins_create(&t, &all, (struct joins_listener){ strange, NULL });
	strangers.n = 0;
	assert_true(joins_look(j, pids[MANY - 1]));
	assert_true((one = reads(&t, j)) > 0);
	assert_int_equal(strangers.n, 1); /* it is no Python */
	assert_int_equal(strangers.parent, parent);
	machine.hangs = true;
	assert_true(joins_look(j, pids[0]));
	until(&t, j, &machine.n_hang, 1);
	assert_true(joins_look(j, pids[0]));
	machine.hangs = false;
	assert_int_equal(reads(&t, j) + machine.n_hang, 3 * one);
	joins_destroy(j);
	tracker_deinit(&t);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
}

/* What a look saw is of the program before an exec that is known when it ends. */
static void who_execs_during_a_look(void **state)
{
	struct scope all = { 0 };
	struct tracker t;
	struct joins *j;
	pid_t pids[MANY], parent = start(pids);
	int one;

	(void)state;
	memcpy(machine.pids, pids, sizeof(pids));
	machine.n_hang = machine.n_read = 0;
	assert_int_equal(tracker_init(&t, -1), 0);
	t.births = births_create();
	assert_non_null(t.births);
	j = joins_create(&t, &all, (struct joins_listener){ strange, NULL });
	assert_true(joins_look(j, pids[MANY - 1]));
	assert_true((one = reads(&t, j)) > 0);
	machine.hangs = true;
	assert_true(joins_look(j, pids[0]));
	until(&t, j, &machine.n_hang, 1);
	note_exec(t.births, pids[0], now_ns());
	machine.hangs = false;
	assert_int_equal(reads(&t, j) + machine.n_hang, 3 * one);
	joins_destroy(j);
	tracker_deinit(&t);
	births_destroy(t.births);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
}

/* Those that come after the first list, and before events tell of them, are looked at. */
static void who_comes_before_the_events(void **state)
{
	struct scope these = { 0 };
	struct tracker t;
	struct joins *j;
	pid_t parent, pids[MANY];
	struct err err;

	(void)state;
	assert_int_equal(scope_match(&these, "joins_test", &err), 0);
	machine.n_hang = machine.n_read = 0;
	assert_int_equal(tracker_init(&t, -1), 0);
	j = joins_create(&t, &these, (struct joins_listener){ strange, NULL });
	parent = start(pids);
	memcpy(machine.pids, pids, sizeof(pids));
	joins_begin(j, true);
	until(&t, j, &machine.n_read, MANY);
	joins_destroy(j);
	tracker_deinit(&t);
	regfree(&these.regex);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_than_can_be_looked_at),
		cmocka_unit_test(who_hangs),
		cmocka_unit_test(who_is_asked_for_during_a_look),
		cmocka_unit_test(who_execs_during_a_look),
		cmocka_unit_test(who_comes_before_the_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
