/* SPDX-License-Identifier: MIT
 *
 * tracker: forks that are told late, in any order, leave no child out.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "another_user.h"
#include "nobody_opens.h"
#include "noted.h"
#include "base/base.h"
#include "sys/proc.h"
#include "targets/births.h"
#include "targets/lookup.h"
#include "targets/tracker_int.h"

enum { NOBODY = 999999999, THREAD = 77 };

/* A process that waits until it is killed. */
static pid_t start_as(uid_t user)
{
	pid_t pid = fork();

	if (pid == 0) {
		alarm(60);
		assert_int_equal(setresuid(user, user, user), 0);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

static pid_t start(void)
{
	return start_as(getuid());
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static char told[300]; /* to a person, at last */

static void tell(void *arg, const char *text)
{
	snprintf(told, sizeof(told), "%s", text);
}

static void end_unseen(pid_t pid)
{
	kill(pid, SIGKILL);
	while (proc_state(pid, pid) != 'Z') /* not waited for yet */
		poll(NULL, 0, 10);
}

/* Another CPU's ring told before that the child has ended, or is at it: nobody tells it again.
 */
static void child_ends(bool when_known)
{
	pid_t parent = start(), pid = start();
	struct tracker t;
	pid_t left = 0;

	assert_int_equal(tracker_init(&t, -1), 0);
	assert_int_equal(tracker_new(&t, parent, 0), 0);
	atomic_store(&targets_find(&t.targets, parent)->state, TARGET_NOPYTHON);
	assert_int_equal(tracker_left(&t), 0);
	if (!when_known)
		end_unseen(pid);
	tracker_gone(&t, pid);
	tracker_forked(&t, pid, parent, THREAD, 1);
	assert_non_null(targets_find(&t.targets, pid));
	if (when_known)
		end_unseen(pid);
	for (int i = 0; i < 1000 && !left; i++) {
		poll(NULL, 0, 10);
		left = tracker_left(&t);
	}
	assert_int_equal(left, pid);
	assert_null(targets_find(&t.targets, pid));
	assert_non_null(targets_find(&t.targets, parent));
	assert_int_equal(tracker_left(&t), 0);
	tracker_deinit(&t);
	end(pid);
	end(parent);
}

static void child_has_ended(void **state)
{
	child_ends(false);
}

static void child_that_ends(void **state)
{
	child_ends(true);
}

/* Its other threads end later, and the record of a thread's end tells of no process. */
static void leader_has_ended(void **state)
{
	pid_t pid = start();
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	assert_int_equal(tracker_new(&t, pid, 0), 0);
	tracker_leader_ended(&t, pid);
	assert_int_equal(tracker_left(&t), 0);
	end(pid);
	for (int i = 0; i < 1000 && targets_find(&t.targets, pid); i++) {
		poll(NULL, 0, 10);
		tracker_left(&t);
	}
	assert_null(targets_find(&t.targets, pid));
	tracker_deinit(&t);
}

/* Another CPU's ring told before that the forker has ended. */
static void forker_has_ended(void **state)
{
	pid_t parent = start(), pid = start();
	struct target *child;
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	assert_int_equal(tracker_new(&t, parent, 0), 0);
	atomic_store(&targets_find(&t.targets, parent)->state, TARGET_NOPYTHON);
	tracker_gone(&t, parent);
	assert_null(targets_find(&t.targets, parent));
	tracker_forked(&t, pid, parent, THREAD, 1);
	child = targets_find(&t.targets, pid);
	assert_non_null(child);
	assert_int_equal(atomic_load(&child->state), TARGET_NOPYTHON);
	assert_int_equal(atomic_load(&child->forker), THREAD);
	tracker_deinit(&t);
	end(pid);
	end(parent);
}

/* A program of @pid since @begun_ns: a Python with that runtime. */
static struct target *add_python(struct tracker *t, pid_t pid, uint64_t begun_ns, raddr runtime)
{
	struct target *target = tracker_add(t, pid, begun_ns);

	assert_non_null(target);
	target->runtime = runtime;
	atomic_store(&target->state, TARGET_PYTHON);
	return target;
}

/* What becomes of a child that was forked at 50 by a process whose exec at @execed is known, and
 * which is a program of its own since 100, and was one from 0 on, too, with @before. */
static void forked_late(uint64_t execed, bool before, int state, raddr runtime)
{
	pid_t parent = start(), pid = start();
	const struct target *child;
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	t.births = births_create();
	assert_non_null(t.births);
	note_exec(t.births, parent, execed);
	if (before)
		add_python(&t, parent, 0, 0x1000);
	add_python(&t, parent, 100, 0x2000);
	tracker_forked(&t, pid, parent, THREAD, 50);
	child = targets_find(&t.targets, pid);
	assert_non_null(child);
	assert_int_equal(child->begun_ns, 50);
	assert_int_equal(atomic_load(&child->state), state);
	assert_int_equal(atomic_load(&child->forker), THREAD);
	assert_int_equal(child->runtime, runtime);
	assert_int_equal(t.n_searches, state == TARGET_PENDING);
	births_destroy(t.births);
	tracker_deinit(&t);
	end(pid);
	end(parent);
}

/* Another CPU's ring told before that the forker has become another program: the child is a copy of
 * the one before, or looked at where nobody knows which that was. */
static void forker_has_execed(void **state)
{
	forked_late(100, true, TARGET_PYTHON, 0x1000);
	forked_late(100, false, TARGET_PENDING, 0);
	forked_late(40, true, TARGET_PENDING, 0);
}

/* In a PID namespace of its own the forker numbers its threads differently; of one that is gone
 * nobody can tell. */
static void forker_in_a_namespace(void **state)
{
	enum { INNER = 5 };
	pid_t parent = start(), pid[] = { start(), start() };
	struct target *target;
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	assert_int_equal(tracker_new(&t, parent, 0), 0);
	target = targets_find(&t.targets, parent);
	atomic_store(&target->state, TARGET_PYTHON);
	target->inner_tids = true;
	target->inner = INNER;
	tracker_forked(&t, pid[0], parent, parent, 1);
	target = targets_find(&t.targets, pid[0]);
	assert_int_equal(atomic_load(&target->forker), INNER);
	assert_false(atomic_load(&target->unborn));
	tracker_forked(&t, pid[1], parent, THREAD, 1);
	target = targets_find(&t.targets, pid[1]);
	assert_int_equal(atomic_load(&target->forker), 0);
	assert_true(atomic_load(&target->unborn));
	tracker_deinit(&t);
	for (int i = 0; i < 2; i++)
		end(pid[i]);
	end(parent);
}

/* Its own fork is told later. */
static void forker_is_not_known_yet(void **state)
{
	pid_t parent = start(), pid = start();
	struct target *child;
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	tracker_forked(&t, pid, parent, THREAD, 1);
	child = targets_find(&t.targets, pid);
	assert_non_null(child);
	assert_int_equal(atomic_load(&child->state), TARGET_PENDING);
	assert_int_equal(atomic_load(&child->forker), THREAD);
	/* One that has ended meanwhile is not looked at. */
	tracker_forked(&t, NOBODY, parent, THREAD, 1);
	assert_null(targets_find(&t.targets, NOBODY));
	tracker_deinit(&t);
	end(pid);
	end(parent);
}

/* Look until somebody was told, or the search is over. False: it takes too long. */
static bool run_until_told(struct tracker *t)
{
	for (int i = 0; i < 2000 && t->n_searches && !told[0]; i++) {
		poll(NULL, 0, 5);
		tracker_run(t);
	}
	return told[0] || !t->n_searches;
}

/* A look that lacked a descriptor is taken again, and one line says so. */
static void short_of_descriptors(void **state)
{
	pid_t pid = start();
	struct target *target;
	struct rlimit was, none;
	struct tracker t;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(tracker_init(&t, -1), 0);
	t.note = (struct note){ .take = tell };
	assert_int_equal(tracker_new(&t, pid, 0), 0);
	target = targets_find(&t.targets, pid);
	none = was;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_true(run_until_told(&t));
	assert_non_null(strstr(told, "no descriptors left"));
	assert_int_equal(atomic_load(&target->state), TARGET_PENDING);
	assert_int_equal(t.n_searches, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	told[0] = '\0';
	for (int i = 0; i < 2000 && t.n_searches; i++) {
		poll(NULL, 0, 5);
		tracker_run(&t);
	}
	assert_int_equal(t.n_searches, 0);
	assert_int_equal(atomic_load(&target->state), TARGET_NOPYTHON);
	assert_string_equal(told, "");
	tracker_deinit(&t);
	end(pid);
}

/* So is one for which nobody could be had who opens files. */
static void short_of_openers(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	pid_t pid = start();
	struct target *target;
	struct tracker t;
	int hang;

	assert_non_null(h);
	hang = nobody_opens(h);
	assert_true(hang >= 0);
	told[0] = '\0';
	assert_int_equal(tracker_init(&t, -1), 0);
	t.note = (struct note){ .take = tell };
	t.files = h;
	assert_int_equal(tracker_new(&t, pid, 0), 0);
	target = targets_find(&t.targets, pid);
	assert_true(run_until_told(&t));
	assert_non_null(strstr(told, "(ulimit -u); it is tried again"));
	assert_int_equal(atomic_load(&target->state), TARGET_PENDING);
	assert_int_equal(t.n_searches, 1);
	close(hang);
	for (int i = 0; i < 2000 && t.n_searches; i++) {
		poll(NULL, 0, 5);
		tracker_run(&t);
	}
	assert_int_equal(t.n_searches, 0);
	assert_int_equal(atomic_load(&target->state), TARGET_NOPYTHON);
	tracker_deinit(&t);
	file_helper_end(h);
	end(pid);
}

/* A child of a process whose own files are known; it is another program. */
static pid_t start_parent(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			execl("/bin/sleep", "sleep", "60", NULL);
			_exit(1);
		}
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

/* A child that could not be looked at is not said to be none with Python. */
static void child_short_of_openers(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	struct lookup l = { .kick = -1, .wait_ms = 10000 };
	pid_t pid = start_parent();
	struct tracker t;
	struct err err;
	int hang;

	assert_int_equal(tracker_init(&t, -1), 0);
	l.crew = t.crew;
	assert_int_equal(lookup(&l, pid, &err), -ENOEXEC);
	hang = nobody_opens(h);
	assert_true(hang >= 0);
	l.files = h;
	l.children = true;
	assert_int_equal(lookup(&l, pid, &err), -ENOBUFS);
	assert_non_null(strstr(err.text, "of its children: process "));
	close(hang);
	tracker_deinit(&t);
	file_helper_end(h);
	end(pid);
}

/* True: a descendant that was looked at once, and is to be again, waits until it runs. @state: what
 * that look told. */
static bool sleeps_on(int state)
{
	pid_t pid = start();
	struct target *target;
	struct tracker t;
	bool asleep;

	assert_int_equal(tracker_init(&t, -1), 0);
	target = tracker_add(&t, pid, 0);
	assert_non_null(target);
	atomic_store(&target->state, state);
	assert_int_equal(tracker_search(&t, target, false), 0);
	t.searches[0].tries = 1;
	t.searches[0].next_ns = UINT64_MAX;
	tracker_settle(&t);
	asleep = target->asleep;
	tracker_run(&t);
	assert_int_equal(t.n_searches, !asleep);
	tracker_deinit(&t);
	end(pid);
	return asleep;
}

/* An interpreter may be mapped in it that never begins: nobody asks for another look then, so it is
 * told now what it has mapped. */
static void settled_and_known(void **state)
{
	assert_true(sleeps_on(TARGET_PENDING));
	assert_false(sleeps_on(TARGET_STARTING));
	assert_false(sleeps_on(TARGET_NOPYTHON));
	assert_false(sleeps_on(TARGET_PYTHON));
}

/* Where no thread can be made to look, it is tried again, but not at once. */
static void short_of_threads(void **state)
{
	enum { LONG_MS = 1000 };
	pid_t pid;
	struct rlimit was, none;
	struct tracker t;

	if (SANITIZED)
		skip(); /* its own memory is under that limit */
	pid = start();
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	assert_int_equal(tracker_init(&t, -1), 0);
	assert_int_equal(tracker_new(&t, pid, 0), 0);
	none = was;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	for (int i = 0; i < 3; i++) {
		tracker_run(&t);
		assert_in_range(tracker_due_ms(&t, LONG_MS), 2, LONG_MS);
	}
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	for (int i = 0; i < 2000 && t.n_searches; i++) {
		poll(NULL, 0, 5);
		tracker_run(&t);
	}
	assert_int_equal(t.n_searches, 0);
	tracker_deinit(&t);
	end(pid);
}

/* True: a Python that was looked at, and whose stack began at @root then, is looked at anew. */
static bool is_looked_at_again(uint64_t root)
{
	pid_t pid = start();
	struct births *births = births_create();
	struct target *target;
	struct tracker t;
	bool again;

	assert_int_equal(tracker_init(&t, -1), 0);
	assert_int_equal(tracker_new(&t, pid, 0), 0);
	target = targets_find(&t.targets, pid);
	atomic_store(&target->state, TARGET_PYTHON);
	target->py.root = root ? root : proc_stack_root(pid);
	tracker_teach(&t, births);
	again = targets_find(&t.targets, pid) != target;
	tracker_deinit(&t);
	births_destroy(births);
	end(pid);
	return again;
}

/* No event tells of an exec before there are events. */
static void exec_before_the_events(void **state)
{
	(void)state;
	assert_false(is_looked_at_again(0));
	assert_true(is_looked_at_again(4096));
}

enum { OTHER_USER = 65534, HALF = TRACKER_HANGING / 2, MORE = 3, ALL = HALF + MORE };

static int state_of(struct tracker *t, pid_t pid)
{
	return atomic_load(&targets_find(&t->targets, pid)->state);
}

/* As if it had been looked at. */
static void add(struct tracker *t, pid_t pid, int state)
{
	assert_int_equal(tracker_new(t, pid, 0), 0);
	atomic_store(&targets_find(&t->targets, pid)->state, state);
}

static void hang(struct tracker *t, pid_t pid)
{
	tracker_hangs(t, pid, true);
}

/* Of ALL processes of our user HALF hang who reads them: the others are not read, nor is a new one,
 * until one of the reads returns. Another user's is read on. */
static void one_users_processes_hang(void **state)
{
	pid_t pid[ALL], other = 0, child = start();
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	t.note.take = tell;
	for (int i = 0; i < ALL; i++) {
		pid[i] = start();
		add(&t, pid[i], i % 2 ? TARGET_NOPYTHON : TARGET_PYTHON);
		targets_find(&t.targets, pid[i])->runtime = 4096;
	}
	if (geteuid() == 0) {
		other = start_as(OTHER_USER);
		while (proc_user(other) != OTHER_USER)
			poll(NULL, 0, 1);
		add(&t, other, TARGET_NOPYTHON);
	}
	for (int i = 0; i < HALF - 1; i++)
		hang(&t, pid[i]);
	assert_int_equal(state_of(&t, pid[HALF - 1]), TARGET_NOPYTHON);
	assert_null(strstr(told, "too many of them"));
	hang(&t, pid[HALF - 1]);
	assert_non_null(strstr(told, "too many of them"));
	for (int i = 0; i < ALL; i++)
		assert_int_equal(state_of(&t, pid[i]), TARGET_QUARANTINED);
	tracker_forked(&t, child, pid[HALF], THREAD, 1);
	assert_int_equal(state_of(&t, child), TARGET_QUARANTINED);
	if (other)
		assert_int_equal(state_of(&t, other), TARGET_NOPYTHON);
	tracker_returned(&t, pid[0], true);
	assert_int_equal(state_of(&t, pid[0]), TARGET_PYTHON);
	assert_int_equal(state_of(&t, pid[1]), TARGET_QUARANTINED);
	for (int i = HALF; i < ALL; i++)
		assert_int_equal(state_of(&t, pid[i]), i % 2 ? TARGET_NOPYTHON : TARGET_PYTHON);
	told[0] = '\0';
	tracker_deinit(&t);
	for (int i = 0; i < ALL; i++)
		end(pid[i]);
	end(child);
	if (other)
		end(other);
}

static void run_until_looked_at(struct tracker *t)
{
	for (int i = 0; i < 2000 && t->n_searches; i++) {
		poll(NULL, 0, 5);
		tracker_run(t);
	}
	assert_int_equal(t->n_searches, 0);
}

/* What a look tells of a process does not have it read while a read of it hangs. */
static void a_look_ends_while_a_read_hangs(void **state)
{
	pid_t pid = start();
	struct target *target;
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	assert_int_equal(tracker_new(&t, pid, 0), 0);
	target = targets_find(&t.targets, pid);
	hang(&t, pid);
	run_until_looked_at(&t);
	assert_int_equal(state_of(&t, pid), TARGET_QUARANTINED);
	assert_true(target->nopython);
	tracker_returned(&t, pid, true);
	assert_int_equal(state_of(&t, pid), TARGET_NOPYTHON);
	/* Nor does an interpreter that is found, or begins. */
	hang(&t, pid);
	tracker_note_none(&t, target, -EAGAIN, &(struct pyproc){ .version = 1 }, 0);
	assert_int_equal(state_of(&t, pid), TARGET_QUARANTINED);
	assert_false(target->nopython);
	tracker_found(&t, target, &(struct pyproc){ .version = 1, .runtime = 4096 });
	assert_int_equal(state_of(&t, pid), TARGET_QUARANTINED);
	tracker_returned(&t, pid, true);
	assert_int_equal(state_of(&t, pid), TARGET_PYTHON);
	tracker_deinit(&t);
	end(pid);
}

/* The look itself hung: when it has ended the process is read. */
static void a_look_that_hung_ends(void **state)
{
	pid_t pid = start();
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	assert_int_equal(tracker_new(&t, pid, 0), 0);
	tracker_quarantine(&t, pid);
	run_until_looked_at(&t);
	assert_int_equal(state_of(&t, pid), TARGET_NOPYTHON);
	tracker_deinit(&t);
	end(pid);
}

/* Two readers may be in reads of one process, and who reads names in a third. */
static void two_reads_of_one_hang(void **state)
{
	pid_t pid = start();
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	add(&t, pid, TARGET_PYTHON);
	tracker_hangs(&t, pid, false);
	assert_int_equal(state_of(&t, pid), TARGET_PYTHON);
	hang(&t, pid);
	hang(&t, pid);
	tracker_returned(&t, pid, true);
	assert_int_equal(state_of(&t, pid), TARGET_QUARANTINED);
	tracker_returned(&t, pid, true);
	assert_int_equal(state_of(&t, pid), TARGET_PYTHON);
	tracker_returned(&t, pid, false);
	assert_int_equal(t.n_hanging, 0);
	tracker_deinit(&t);
	end(pid);
}

/* A read of a process that is left alone for others of its user hangs, too: it is not read when
 * theirs end. */
static void one_of_a_crowd_hangs(void **state)
{
	pid_t pid[ALL];
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	for (int i = 0; i < ALL; i++) {
		pid[i] = start();
		add(&t, pid[i], TARGET_PYTHON);
	}
	for (int i = 0; i < HALF; i++)
		hang(&t, pid[i]);
	assert_int_equal(state_of(&t, pid[HALF]), TARGET_QUARANTINED);
	hang(&t, pid[HALF]);
	tracker_returned(&t, pid[0], true);
	tracker_returned(&t, pid[1], true);
	assert_int_equal(state_of(&t, pid[HALF + 1]), TARGET_PYTHON);
	assert_int_equal(state_of(&t, pid[HALF]), TARGET_QUARANTINED);
	tracker_returned(&t, pid[HALF], true);
	assert_int_equal(state_of(&t, pid[HALF]), TARGET_PYTHON);
	tracker_deinit(&t);
	for (int i = 0; i < ALL; i++)
		end(pid[i]);
}

/* A new process of a user who has too many that hang is not read from the moment on when readers
 * can see it, nor one that is not known well, nor one that was asleep. */
static void a_crowd_gets_more(void **state)
{
	static const int states[] = { TARGET_PENDING, TARGET_STARTING, TARGET_REFUSED };
	enum { N = ARRAY_SIZE(states), ASLEEP = N, LATE, ALL_OF };
	pid_t pid[ALL_OF], hostile = start();
	struct target *asleep;
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	for (int i = 0; i < ALL_OF; i++)
		pid[i] = start();
	for (int i = 0; i < N; i++)
		add(&t, pid[i], states[i]);
	add(&t, pid[ASLEEP], TARGET_PENDING);
	asleep = targets_find(&t.targets, pid[ASLEEP]);
	asleep->asleep = true;
	for (int i = 0; i < HALF; i++) {
		assert_false(tracker_crowds(&t));
		tracker_hangs(&t, hostile, true);
	}
	assert_true(tracker_crowds(&t));
	assert_int_equal(tracker_new(&t, pid[LATE], 0), 0);
	assert_int_equal(state_of(&t, pid[LATE]), TARGET_QUARANTINED);
	assert_int_equal(state_of(&t, pid[0]), TARGET_QUARANTINED);
	assert_int_equal(state_of(&t, pid[1]), TARGET_QUARANTINED);
	assert_int_equal(state_of(&t, pid[2]), TARGET_REFUSED);
	assert_int_equal(state_of(&t, pid[ASLEEP]), TARGET_PENDING);
	assert_int_equal(tracker_wake(&t, asleep), 0);
	assert_int_equal(state_of(&t, pid[ASLEEP]), TARGET_QUARANTINED);
	tracker_returned(&t, hostile, true);
	assert_false(tracker_crowds(&t));
	for (int i = 0; i < N; i++)
		assert_int_equal(state_of(&t, pid[i]), states[i]);
	assert_int_equal(state_of(&t, pid[ASLEEP]), TARGET_PENDING);
	assert_int_equal(state_of(&t, pid[LATE]), TARGET_PENDING);
	tracker_deinit(&t);
	for (int i = 0; i < ALL_OF; i++)
		end(pid[i]);
	end(hostile);
}

/* How @i of the processes ends before anybody sees that a read of it hangs: unheard, known to have
 * ended, or unknown but for who forked it. */
static void hang_and_end(struct tracker *t, int i, pid_t parent)
{
	pid_t pid = another_user_start(ANOTHER_USER);

	if (i % 3 < 2)
		add(t, pid, TARGET_PYTHON);
	else
		note_fork(t->births, pid, parent, 1);
	if (i % 3 == 1)
		tracker_gone(t, pid);
	another_user_end(pid);
	tracker_hangs(t, pid, true);
}

/* Reads of processes that have ended are their user's, however many: others are read on. */
static void those_that_hang_have_ended(void **state)
{
	pid_t own, other, third;
	struct tracker t;

	if (geteuid() != 0)
		skip();
	assert_int_equal(tracker_init(&t, -1), 0);
	t.births = births_create();
	own = another_user_start(ANOTHER_USER);
	other = another_user_start(ANOTHER_USER + 1);
	third = another_user_start(ANOTHER_USER + 2);
	add(&t, own, TARGET_PYTHON);
	add(&t, other, TARGET_PYTHON);
	add(&t, third, TARGET_PYTHON);
	for (int i = 0; i < 2 * TRACKER_HANGING; i++) {
		assert_int_equal(state_of(&t, own), i < HALF ? TARGET_PYTHON : TARGET_QUARANTINED);
		hang_and_end(&t, i, own);
		assert_int_equal(state_of(&t, other), TARGET_PYTHON);
	}
	assert_int_equal(t.n_hanging, TRACKER_HANGING);
	/* There is no room for more of anybody's. */
	tracker_hangs(&t, other, false);
	assert_int_equal(state_of(&t, other), TARGET_QUARANTINED);
	assert_int_equal(state_of(&t, third), TARGET_PYTHON);
	tracker_returned(&t, other, false);
	assert_int_equal(state_of(&t, other), TARGET_PYTHON);
	assert_int_equal(state_of(&t, own), TARGET_QUARANTINED);
	births_destroy(t.births);
	tracker_deinit(&t);
	another_user_end(own);
	another_user_end(other);
	another_user_end(third);
}

/* A process that becomes one program after another may leave a read behind in each. */
static void one_process_hangs_many_times(void **state)
{
	pid_t pid = start();
	struct tracker t;

	assert_int_equal(tracker_init(&t, -1), 0);
	for (int i = 0; i < 3 * TRACKER_HANGING; i++)
		tracker_hangs(&t, pid, true);
	assert_int_equal(t.n_hanging, TRACKER_HANGING);
	add(&t, pid, TARGET_PYTHON);
	tracker_consider(&t, targets_find(&t.targets, pid));
	assert_int_equal(state_of(&t, pid), TARGET_QUARANTINED);
	for (int i = 0; i < 3 * TRACKER_HANGING; i++)
		tracker_returned(&t, pid, true);
	assert_int_equal(t.n_hanging, 0);
	tracker_deinit(&t);
	end(pid);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_of_openers), /* first: others have the same files read */
		cmocka_unit_test(short_of_threads), /* libc keeps stacks of threads that ended */
		cmocka_unit_test(child_has_ended),
		cmocka_unit_test(child_that_ends),
		cmocka_unit_test(leader_has_ended),
		cmocka_unit_test(forker_has_ended),
		cmocka_unit_test(forker_has_execed),
		cmocka_unit_test(forker_in_a_namespace),
		cmocka_unit_test(forker_is_not_known_yet),
		cmocka_unit_test(settled_and_known),
		cmocka_unit_test(exec_before_the_events),
		cmocka_unit_test(one_users_processes_hang),
		cmocka_unit_test(one_process_hangs_many_times),
		cmocka_unit_test(a_look_ends_while_a_read_hangs),
		cmocka_unit_test(a_look_that_hung_ends),
		cmocka_unit_test(two_reads_of_one_hang),
		cmocka_unit_test(a_crowd_gets_more),
		cmocka_unit_test(those_that_hang_have_ended),
		cmocka_unit_test(one_of_a_crowd_hangs),
		cmocka_unit_test(short_of_descriptors),
		cmocka_unit_test(child_short_of_openers),
	};

	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
