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
#include "another_user.h"
#include "base/base.h"
#include "base/clock.h"
#include "elf/pool.h"
#include "nobody_opens.h"
#include "noted.h"
#include "targets/joins.h"
#include "targets/probe.h"

enum { MANY = 20, HANG = 16, AT_ONCE = 8, LONG_MS = 1000 };

/* --- this machine --- */

static struct {
	pid_t pids[MANY]; /* opening the first ones' maps hangs; 0: not known */
	_Atomic bool hangs;
	_Atomic int n_hang, n_read; /* who does, and the others whose maps were opened */
	_Atomic time_t later_s;	    /* so much later it is */
	_Atomic uid_t asked_for;    /* whose the last of those was, for who opens its files */
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
		if (i < HANG && machine.hangs) {
			machine.n_hang++;
		} else if (i < MANY) {
			machine.asked_for = pool_user;
			machine.n_read++;
		}
		while (i < HANG && machine.hangs)
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
static _Noreturn void rest(int told, uid_t user)
{
	pid_t pid = getpid();

	if (setresuid(user, user, user) < 0)
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(told, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	for (;;)
		pause();
}

/* Processes of another one's, for our own children never fit, the last one another user's if that
 * can be. Returns their parent. */
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
				rest(told[1], i < MANY - 1 || geteuid() ? getuid() : ANOTHER_USER);
		for (;;)
			pause();
	}
	for (int i = 0; i < MANY; i++)
		assert_int_equal(read(told[0], &pids[i], sizeof(*pids)), sizeof(*pids));
	for (int i = 0; i < MANY - 1; i++) /* they tell in any order */
		if (proc_user(pids[i]) == ANOTHER_USER) {
			pid_t pid = pids[i];

			pids[i] = pids[MANY - 1];
			pids[MANY - 1] = pid;
		}
	close(told[0]);
	close(told[1]);
	return parent;
}

/* What a test looks at: all processes, or those that @these fits. */
struct fix {
	struct scope these;
	struct tracker t;
	struct joins *j;
	pid_t parent, pids[MANY];
};

static void start_all(struct fix *f)
{
	f->parent = start(f->pids);
	memcpy(machine.pids, f->pids, sizeof(f->pids));
}

static void create(struct fix *f)
{
	machine.n_hang = machine.n_read = 0;
	assert_int_equal(tracker_init(&f->t, -1), 0);
	f->j = joins_create(&f->t, &f->these, (struct joins_listener){ strange, NULL });
	assert_non_null(f->j);
}

static void end(struct fix *f)
{
	joins_destroy(f->j);
	tracker_deinit(&f->t);
	kill(f->parent, SIGKILL);
	waitpid(f->parent, NULL, 0);
}

/* The end of a look tells that the next one can begin. */
static void more_than_can_be_looked_at(void **state)
{
	struct fix f = { 0 };

	(void)state;
	f.parent = start(f.pids);
	create(&f);
	for (int i = 0; i < MANY; i++)
		assert_true(joins_look(f.j, f.pids[i]));
	assert_int_equal(joins_due_ms(f.j, LONG_MS), 0);
	assert_int_equal(joins_run(f.j), 0);
	assert_in_range(joins_due_ms(f.j, LONG_MS), 10, LONG_MS);
	end(&f);
}

static void until(struct fix *f, _Atomic int *n, int reaches)
{
	for (int i = 0; i < 10000 && *n < reaches; i++) {
		tracker_run(&f->t);
		assert_int_equal(joins_run(f->j), 0);
		usleep(1000);
	}
	assert_true(*n >= reaches);
}

/* Those whose looks hang are left out, one is named, and others have their turn, another user's at
 * once. */
static void who_hangs(void **state)
{
	const int others = geteuid() == 0;
	struct fix f = { 0 };

	(void)state;
	start_all(&f);
	machine.hangs = true;
	create(&f);
	f.t.note = (struct note){ .take = tell };
	for (int i = 0; i < MANY; i++)
		assert_true(joins_look(f.j, f.pids[i]));
	until(&f, &machine.n_hang, AT_ONCE);
	until(&f, &machine.n_read, others);
	assert_true(!others || machine.asked_for == ANOTHER_USER);
	assert_int_equal(machine.n_hang, AT_ONCE);
	assert_int_equal(machine.n_told, 0);
	machine.later_s = 11;
	assert_int_equal(joins_due_ms(f.j, LONG_MS), 0);
	until(&f, &machine.n_hang, HANG);
	assert_int_equal(machine.n_told, 1);
	assert_non_null(strstr(machine.told, "takes too long to look at"));
	machine.later_s = 22;
	until(&f, &machine.n_read, MANY - HANG);
	assert_int_equal(machine.n_told, 1);
	machine.hangs = false;
	end(&f);
	machine.later_s = 0;
}

/* A look at @pid that had not ended may be given up when it is later. */
static void read_another(struct fix *f, pid_t pid)
{
	int n_read = machine.n_read;

	for (int i = 0; i < 10000 && machine.n_read == n_read; i++) {
		joins_look(f->j, pid);
		tracker_run(&f->t);
		assert_int_equal(joins_run(f->j), 0);
		usleep(1000);
	}
	assert_true(machine.n_read > n_read);
}

/* Looks that hang keep their threads when they are given up: of one user there are half of what
 * may be, and another user's processes are looked at. */
static void many_waves_hang(void **state)
{
	enum { MOST = PROBERS_BOUND / 2 };
	struct fix f = { 0 };

	(void)state;
	if (geteuid() != 0)
		skip();
	start_all(&f);
	machine.hangs = true;
	machine.n_told = 0;
	create(&f);
	f.t.note = (struct note){ .take = tell };
	for (int wave = 1; wave <= 2 * MOST / AT_ONCE; wave++) {
		for (int i = 0; i < HANG; i++)
			joins_look(f.j, f.pids[i]);
		until(&f, &machine.n_hang, MIN(wave * AT_ONCE, (int)MOST));
		read_another(&f, f.pids[MANY - 1]);
		assert_true(machine.n_hang <= MOST);
		machine.later_s += 11;
	}
	assert_non_null(strstr(machine.told, "no other process of that user is looked at"));
	machine.hangs = false;
	end(&f);
	machine.later_s = 0;
}

/* A look at a target hangs, also when that has ended: it is given up. */
static void who_ends_during_a_look(void **state)
{
	struct fix f = { 0 };

	(void)state;
	start_all(&f);
	machine.hangs = true;
	create(&f);
	assert_int_equal(tracker_new(&f.t, f.pids[0], 0), 0);
	until(&f, &machine.n_hang, 1);
	machine.later_s = 11;
	tracker_run(&f.t);
	assert_int_equal(f.t.n_searches, 1);
	tracker_gone(&f.t, f.pids[0]);
	machine.later_s = 0;
	tracker_run(&f.t);
	assert_int_equal(f.t.n_searches, 1);
	machine.later_s = 11;
	tracker_run(&f.t);
	assert_int_equal(f.t.n_searches, 0);
	machine.hangs = false;
	end(&f);
	machine.later_s = 0;
}

/* How often maps have been opened when nobody is looked at any more. */
static int reads(struct fix *f)
{
	for (int i = 0; i < 10000 && joins_due_ms(f->j, 99 * LONG_MS) < 99 * LONG_MS; i++) {
		tracker_run(&f->t);
		assert_int_equal(joins_run(f->j), 0);
		usleep(1000);
	}
	return machine.n_read;
}

static void asks_again(struct fix *f)
{
	assert_true(joins_look(f->j, f->pids[0]));
}

static void execs(struct fix *f)
{
	note_exec(f->t.births, f->pids[0], now_ns());
}

/* A process is looked at once more because of what happens during a look at it. */
static void looked_at_once_more(void (*happens)(struct fix *f))
{
	struct fix f = { 0 };
	int one;

	start_all(&f);
	machine.later_s = 0;
	create(&f);
	f.t.births = births_create();
	assert_non_null(f.t.births);
	strangers.n = 0;
	assert_true(joins_look(f.j, f.pids[MANY - 1]));
	assert_true((one = reads(&f)) > 0);
	assert_int_equal(strangers.n, 1); /* it is no Python */
	assert_int_equal(strangers.parent, f.parent);
	machine.hangs = true;
	assert_true(joins_look(f.j, f.pids[0]));
	until(&f, &machine.n_hang, 1);
	happens(&f);
	machine.hangs = false;
	assert_int_equal(reads(&f) + machine.n_hang, 3 * one);
	births_destroy(f.t.births);
	end(&f);
}

/* It may become another program during a look, which was asked for then. */
static void who_is_asked_for_during_a_look(void **state)
{
	(void)state;
	looked_at_once_more(asks_again);
}

/* What a look saw is of the program before an exec that is known when it ends. */
static void who_execs_during_a_look(void **state)
{
	(void)state;
	looked_at_once_more(execs);
}

/* Those that come after the first list, and before events tell of them, are looked at. */
static void who_comes_before_the_events(void **state)
{
	struct fix f = { 0 };
	struct err err;

	(void)state;
	assert_int_equal(scope_match(&f.these, "joins_test", &err), 0);
	create(&f);
	start_all(&f);
	joins_begin(f.j, true);
	until(&f, &machine.n_read, MANY);
	end(&f);
	regfree(&f.these.regex);
}

/* Nobody can be had who opens its files: it is looked at again, and told if that stays so. */
static void who_lacks_openers(void **state)
{
	enum { LOOKS = 9 };
	struct fix f = { 0 };
	int hang, one;

	(void)state;
	start_all(&f);
	create(&f);
	f.t.files = file_helper_start(NULL);
	f.t.note = (struct note){ .take = tell };
	machine.n_told = 0;
	hang = nobody_opens(f.t.files);
	assert_true(hang >= 0);
	assert_true(joins_look(f.j, f.pids[HANG]));
	until(&f, &machine.n_read, 1);
	one = machine.n_read; /* a look may open the maps more than once */
	assert_int_equal(reads(&f), LOOKS * one);
	assert_int_equal(machine.n_told, 1);
	assert_non_null(strstr(machine.told, "can't be looked at: whoever reads its files"));
	machine.n_told = 0;
	close(hang);
	file_helper_end(f.t.files);
	end(&f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_lacks_openers), /* first: others have the same files read */
		cmocka_unit_test(more_than_can_be_looked_at),
		cmocka_unit_test(who_hangs),
		cmocka_unit_test(many_waves_hang),
		cmocka_unit_test(who_ends_during_a_look),
		cmocka_unit_test(who_is_asked_for_during_a_look),
		cmocka_unit_test(who_execs_during_a_look),
		cmocka_unit_test(who_comes_before_the_events),
	};

	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
