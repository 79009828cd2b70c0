/* SPDX-License-Identifier: MIT
 *
 * comms_test - names, forks and ends in, who is called what out.
 */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "../../output/comms.h"

static void is(const struct comms *c, pid_t tid, uint32_t name, uint32_t title)
{
	assert_int_equal(comms_name(c, tid), name);
	assert_int_equal(comms_title(c, tid), title);
}

static void named(struct comms *c, pid_t pid, pid_t tid, uint32_t name, bool by_program)
{
	struct side side = { .kind = SIDE_COMM, .pid = pid, .tid = tid };

	side.u.comm.thread = by_program;
	assert_int_equal(comms_side(c, &side, name), 0);
}

static void forked(struct comms *c, pid_t pid, pid_t tid, pid_t by)
{
	const struct side side = {
		.kind = SIDE_FORK, .pid = pid, .tid = tid, .u.fork = { by, by }
	};

	assert_int_equal(comms_side(c, &side, IDMAP_NONE), 0);
}

static void ended(struct comms *c, pid_t pid, pid_t tid)
{
	const struct side side = { .kind = SIDE_EXIT, .pid = pid, .tid = tid };

	assert_int_equal(comms_side(c, &side, IDMAP_NONE), 0);
}

static void others_end(struct comms *c, int n)
{
	for (pid_t pid = 100000; pid < 100000 + n; pid++) {
		forked(c, pid, pid, 1);
		ended(c, pid, pid);
	}
}

static void names_follow_forks_and_execs(void **state)
{
	struct comms c = { .n_ended = 0 };
	struct side exec = { .kind = SIDE_COMM, .pid = 20, .tid = 20 };

	(void)state;
	exec.u.comm.exec = true;
	is(&c, 10, IDMAP_NONE, IDMAP_NONE);
	named(&c, 10, 10, 1, false);
	named(&c, 10, 10, 2, true);
	is(&c, 10, 1, 2);
	forked(&c, 10, 11, 10);
	forked(&c, 20, 20, 10);
	is(&c, 11, 1, 1);
	is(&c, 20, 1, 1);
	named(&c, 20, 20, 3, true);
	assert_int_equal(comms_side(&c, &exec, 4), 0);
	is(&c, 20, 4, 4);
	forked(&c, 30, 30, 99); /* nobody knows who that is */
	is(&c, 30, IDMAP_NONE, IDMAP_NONE);
	comms_deinit(&c);
}

/* Samples may be younger than the record of the end, by a little. */
static void a_process_keeps_its_name_for_a_while(void **state)
{
	struct comms c = { .n_ended = 0 };

	(void)state;
	named(&c, 1, 1, 7, false);
	named(&c, 10, 10, 1, false);
	named(&c, 10, 10, 2, true);
	ended(&c, 10, 10);
	is(&c, 10, 1, 2);
	others_end(&c, COMMS_ENDED - 1);
	is(&c, 10, 1, 2);
	others_end(&c, 1);
	is(&c, 10, IDMAP_NONE, IDMAP_NONE);
	is(&c, 1, 7, 7);
	comms_deinit(&c);
}

/* What it is called may be told behind its end, too. */
static void a_thread_keeps_its_names_for_a_while(void **state)
{
	struct comms c = { .n_ended = 0 };

	(void)state;
	named(&c, 10, 10, 1, false);
	forked(&c, 10, 11, 10);
	named(&c, 10, 11, 2, true);
	ended(&c, 10, 11);
	named(&c, 10, 11, 3, false);
	ended(&c, 10, 11);
	is(&c, 11, 3, 2);
	others_end(&c, COMMS_ENDED - 1);
	is(&c, 11, 3, 2);
	others_end(&c, 1);
	is(&c, 11, IDMAP_NONE, IDMAP_NONE);
	is(&c, 10, 1, 1);
	ended(&c, 10, 10); /* no thread is left */
	others_end(&c, COMMS_ENDED);
	is(&c, 10, IDMAP_NONE, IDMAP_NONE);
	comms_deinit(&c);
}

static void a_thread_with_the_number_of_one_that_ended_keeps_its_name(void **state)
{
	struct comms c = { .n_ended = 0 };

	(void)state;
	named(&c, 10, 10, 1, false);
	named(&c, 30, 30, 6, false);
	for (pid_t tid = 11; tid < 14; tid++) {
		forked(&c, 10, tid, 10);
		named(&c, 10, tid, 2, true);
		ended(&c, 10, tid);
	}
	forked(&c, 10, 11, 10);
	named(&c, 30, 12, 5, false); /* nobody has told its fork */
	others_end(&c, 2 * COMMS_ENDED);
	is(&c, 11, 1, 1);
	is(&c, 12, 5, 5);
	is(&c, 13, IDMAP_NONE, IDMAP_NONE);
	ended(&c, 30, 30);
	ended(&c, 10, 10);
	others_end(&c, COMMS_ENDED);
	is(&c, 10, 1, 1);
	is(&c, 30, 6, 6);
	comms_deinit(&c);
}

/* A thread that calls exec goes on as its process's first. */
static void who_execs_runs_on(void **state)
{
	struct comms c = { .n_ended = 0 };
	struct side exec = { .kind = SIDE_COMM, .pid = 10, .tid = 10 };

	(void)state;
	exec.u.comm.exec = true;
	named(&c, 10, 10, 1, false);
	ended(&c, 10, 10);
	assert_int_equal(comms_side(&c, &exec, 4), 0);
	others_end(&c, 2 * COMMS_ENDED);
	is(&c, 10, 4, 4);
	ended(&c, 10, 10);
	others_end(&c, COMMS_ENDED);
	is(&c, 10, IDMAP_NONE, IDMAP_NONE);
	comms_deinit(&c);
}

static void a_process_has_its_name_as_long_as_a_thread_runs(void **state)
{
	struct comms c = { .n_ended = 0 };

	(void)state;
	named(&c, 1, 1, 7, false);
	named(&c, 10, 10, 1, false);
	named(&c, 10, 11, 2, false);
	forked(&c, 10, 12, 11);
	ended(&c, 10, 13); /* not known */
	ended(&c, 10, 11);
	ended(&c, 10, 10);
	others_end(&c, 2 * COMMS_ENDED);
	is(&c, 11, IDMAP_NONE, IDMAP_NONE);
	is(&c, 10, 1, 1);
	ended(&c, 10, 12);
	is(&c, 10, 1, 1);
	others_end(&c, COMMS_ENDED);
	is(&c, 10, IDMAP_NONE, IDMAP_NONE);
	comms_deinit(&c);
}

static void who_has_the_number_anew_keeps_its_name(void **state)
{
	struct comms c = { .n_ended = 0 };

	(void)state;
	named(&c, 1, 1, 7, false);
	named(&c, 10, 10, 1, false);
	ended(&c, 10, 10);
	forked(&c, 10, 10, 1);
	others_end(&c, 2 * COMMS_ENDED);
	is(&c, 10, 7, 7);
	comms_deinit(&c);
}

static void who_ended_takes_no_memory(void **state)
{
	enum { MANY = 300000, ROOM = 256 << 10 };
	struct comms c = { .n_ended = 0 };

	(void)state;
	named(&c, 1, 1, 7, false);
	for (pid_t pid = 1000; pid < MANY; pid += 2) {
		forked(&c, pid, pid, 1);
		forked(&c, pid, pid + 1, pid);
		named(&c, pid, pid + 1, 8, true);
		ended(&c, pid, pid);
		ended(&c, pid, pid + 1);
	}
	assert_true(comms_bytes(&c) < ROOM);
	comms_clear(&c);
	assert_int_equal(comms_bytes(&c), 0);
	is(&c, 1, IDMAP_NONE, IDMAP_NONE);
}

/* Whether it has other mounts than we; it tells so, and waits for its end. */
static void be_elsewhere(int to)
{
	const char apart = !unshare(CLONE_NEWNS) || !unshare(CLONE_NEWUSER | CLONE_NEWNS);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(to, &apart, 1) == 1)
		pause();
	_exit(0);
}

static void who_only_renames_itself_is_not_looked_at(void **state)
{
	struct session session = { .start_ns = 1 };
	struct side side = { .kind = SIDE_COMM };
	char apart = 0;
	int to[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(to), 0);
	pid = fork();
	if (!pid)
		be_elsewhere(to[1]);
	assert_int_equal(read(to[0], &apart, 1), 1);
	side.pid = side.tid = pid;
	assert_false(comms_elsewhere(&session, &side));
	side.u.comm.exec = true;
	assert_int_equal(comms_elsewhere(&session, &side), apart);
	side.u.comm.exec = false;
	side.announced = true;
	assert_int_equal(comms_elsewhere(&session, &side), apart);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(to[0]);
	close(to[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_follow_forks_and_execs),
		cmocka_unit_test(a_process_keeps_its_name_for_a_while),
		cmocka_unit_test(a_thread_keeps_its_names_for_a_while),
		cmocka_unit_test(a_thread_with_the_number_of_one_that_ended_keeps_its_name),
		cmocka_unit_test(who_execs_runs_on),
		cmocka_unit_test(a_process_has_its_name_as_long_as_a_thread_runs),
		cmocka_unit_test(who_has_the_number_anew_keeps_its_name),
		cmocka_unit_test(who_ended_takes_no_memory),
		cmocka_unit_test(who_only_renames_itself_is_not_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
