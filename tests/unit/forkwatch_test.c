/* SPDX-License-Identifier: MIT
 *
 * forkwatch_test - which threads are taken for asleep outside fork(), and how long.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "attach/forkwatch.h"
#include "base/base.h"
#include "sys/proc.h"

enum how { SLEEPS, RUNS, FORKS };

/* A thread of ours, which sleeps until a byte comes and tells by one that it has. */
struct one {
	enum how how;
	int go[2], gone[2];
	_Atomic pid_t tid;
	_Atomic bool end;
	pthread_t thread;
};

static char take(int fd)
{
	char c = 0;

	while (read(fd, &c, 1) < 0)
		;
	return c;
}

static void give(int fd)
{
	assert_int_equal(write(fd, "x", 1), 1);
}

/* The parent sleeps in its system call until the child ends. */
static void fork_and_wait(struct one *o)
{
	pid_t pid = vfork();

	if (!pid) {
		take(o->go[0]);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void *run(void *arg)
{
	struct one *o = arg;

	atomic_store(&o->tid, gettid());
	while (!atomic_load(&o->end)) {
		if (o->how == FORKS)
			fork_and_wait(o);
		else if (o->how == SLEEPS)
			take(o->go[0]);
		if (o->how != RUNS)
			give(o->gone[1]);
	}
	return NULL;
}

static void begin(struct one *o, enum how how)
{
	*o = (struct one){ .how = how };
	assert_int_equal(pipe(o->go), 0);
	assert_int_equal(pipe(o->gone), 0);
	assert_int_equal(pthread_create(&o->thread, NULL, run, o), 0);
	while (!atomic_load(&o->tid))
		;
}

static void end(struct one *o)
{
	atomic_store(&o->end, true);
	give(o->go[1]);
	pthread_join(o->thread, NULL);
	for (int i = 0; i < 2; i++) {
		close(o->go[i]);
		close(o->gone[i]);
	}
}

/* True: @nr is the call that @how says. */
static bool is_call(enum how how, int nr)
{
#ifdef SYS_vfork
	if (how == FORKS && nr == SYS_vfork)
		return true;
#endif
	return nr == (how == FORKS ? SYS_clone : SYS_read);
}

static void await_sleep(const struct one *o)
{
	struct proc_wait at;

	while (proc_syscall(o->tid, o->tid, &at) < 0 || !is_call(o->how, at.syscall))
		usleep(100);
}

static uint64_t turns_of(const struct one *o)
{
	uint64_t turns = 1;

	forkwatch_sleepers((const pid_t[]){ o->tid }, 1, &turns);
	return turns;
}

static void test_who_sleeps(void **state)
{
	struct one o;
	uint64_t turns;

	begin(&o, SLEEPS);
	if (!proc_turns(o.tid, o.tid)) {
		end(&o);
		skip(); /* this kernel does not count them */
	}
	await_sleep(&o);
	turns = turns_of(&o);
	assert_int_not_equal(turns, 0);
	assert_true(forkwatch_sleeps(o.tid, turns));
	give(o.go[1]);
	take(o.gone[0]);
	assert_false(forkwatch_sleeps(o.tid, turns));
	await_sleep(&o);
	assert_false(forkwatch_sleeps(o.tid, turns));
	end(&o);
	assert_false(forkwatch_sleeps(o.tid, turns));
}

static void test_who_runs(void **state)
{
	struct one o;

	begin(&o, RUNS);
	for (int i = 0; i < 100; i++)
		assert_int_equal(turns_of(&o), 0);
	end(&o);
	assert_int_equal(turns_of(&o), 0); /* gone */
}

static void test_who_forks(void **state)
{
	struct one o;

	begin(&o, FORKS);
	await_sleep(&o);
	assert_int_equal(turns_of(&o), 0);
	end(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_sleeps),
		cmocka_unit_test(test_who_runs),
		cmocka_unit_test(test_who_forks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
