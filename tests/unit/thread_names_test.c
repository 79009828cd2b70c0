/* SPDX-License-Identifier: MIT
 *
 * Which names of threads outputs get, from records in time order.
 */
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "stacks/thread_names.h"

enum { PID = 10, TID = 11 };

static struct side comm(pid_t tid, uint64_t time, const char *name)
{
	return (struct side){
		.kind = SIDE_COMM, .time = time, .pid = PID, .tid = tid, .u.comm.name = name
	};
}

static struct side called(pid_t tid, uint64_t from, uint64_t until, const char *name)
{
	struct side s = comm(tid, from, name);

	s.u.comm.thread = true;
	s.u.comm.until = until;
	return s;
}

static struct side task(enum side_kind kind, pid_t tid, uint64_t time)
{
	return (struct side){ .kind = kind, .time = time, .pid = PID, .tid = tid };
}

/* Is @s given, and which name behind it? "": none. */
static bool give(struct thread_names *t, struct side s, const char *behind)
{
	struct side then;
	bool more, given = thread_names_side(t, &s, &then, &more);

	assert_int_equal(more, *behind != '\0');
	if (more) {
		assert_string_equal(then.u.comm.name, behind);
		assert_true(then.u.comm.thread && then.tid == s.tid && then.time == s.time);
	}
	return given;
}

static void kernel_name_gives_way(void **state)
{
	struct thread_names t = { 0 };

	(void)state;
	assert_true(give(&t, comm(TID, 1, "python"), ""));
	assert_true(give(&t, called(TID, 2, 3, "worker"), ""));
	assert_false(give(&t, comm(TID, 4, "python"), ""));
	assert_true(give(&t, called(PID, 2, 3, "MainThread"), ""));
	assert_true(give(&t, comm(PID, 4, "title"), ""));
	assert_true(give(&t, task(SIDE_EXIT, TID, 5), ""));
	assert_true(give(&t, comm(TID, 6, "python"), ""));
	thread_names_deinit(&t);
}

static void name_is_given_again_behind_the_fork(void **state)
{
	struct thread_names t = { 0 };

	(void)state;
	give(&t, called(TID, 10, 20, "worker"), "");
	assert_true(give(&t, task(SIDE_FORK, TID, 15), "worker"));
	assert_false(give(&t, comm(TID, 16, "python"), ""));
	/* Another thread with the number, and one of another process. */
	assert_true(give(&t, task(SIDE_FORK, TID, 21), ""));
	assert_true(give(&t, comm(TID, 22, "python"), ""));
	assert_true(give(&t, task(SIDE_FORK, TID, 9), ""));
	struct side other = task(SIDE_FORK, TID, 15);
	other.pid = 99;
	assert_true(give(&t, other, ""));
	thread_names_deinit(&t);
}

static void newest_name_is_the_one(void **state)
{
	struct thread_names t = { 0 };

	(void)state;
	give(&t, called(TID, 10, 20, "first"), "");
	give(&t, called(TID, 11, 21, "second"), "");
	assert_true(give(&t, task(SIDE_FORK, TID, 15), "second"));
	for (pid_t i = 0; i < THREAD_NAMES_RECENT; i++)
		give(&t, called(1000 + i, 10, 20, "other"), "");
	assert_true(give(&t, task(SIDE_FORK, TID, 15), ""));
	thread_names_deinit(&t);
}

static pid_t parent_of(struct thread_names *t, pid_t ptid)
{
	struct side then, fork = { .kind = SIDE_FORK, .pid = 20, .tid = 20 };
	bool more;

	fork.u.fork.ppid = PID;
	fork.u.fork.ptid = ptid;
	assert_true(thread_names_side(t, &fork, &then, &more));
	assert_int_equal(fork.u.fork.ppid, PID);
	return fork.u.fork.ptid;
}

static void name_is_not_inherited(void **state)
{
	struct thread_names t = { 0 };

	(void)state;
	give(&t, called(TID, 2, 3, "worker"), "");
	assert_int_equal(parent_of(&t, TID), PID);
	assert_int_equal(parent_of(&t, 12), 12);
	give(&t, task(SIDE_EXIT, TID, 4), "");
	assert_int_equal(parent_of(&t, TID), TID);
	thread_names_deinit(&t);
}

static void exec_forgets(void **state)
{
	struct thread_names t = { 0 };
	struct side exec = comm(PID, 5, "sh");

	(void)state;
	exec.u.comm.exec = true;
	give(&t, called(PID, 2, 3, "MainThread"), "");
	assert_true(give(&t, exec, ""));
	assert_int_equal(idmap_get(&t.named, PID), IDMAP_NONE);
	thread_names_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_name_gives_way),
		cmocka_unit_test(name_is_given_again_behind_the_fork),
		cmocka_unit_test(newest_name_is_the_one),
		cmocka_unit_test(name_is_not_inherited),
		cmocka_unit_test(exec_forgets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
