/* SPDX-License-Identifier: MIT
 *
 * ask: what is told of looks that hang.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "sys/ask.h"

enum { MOST = 64 };

static struct {
	unsigned of_one, of_all;
} told;

static sem_t never;

static void take(void *arg, const char *text)
{
	(void)arg;
	told.of_one += strstr(text, "can't be looked at") != NULL;
	told.of_all += strstr(text, "nothing new of any other") != NULL;
}

static ssize_t hangs(struct ask *a)
{
	(void)a;
	return sem_wait(&never);
}

static ssize_t answers(struct ask *a)
{
	(void)a;
	return 5;
}

static ssize_t look_at(int pid, ssize_t (*look)(struct ask *))
{
	struct ask a = { .look = look };

	snprintf(a.path, sizeof(a.path), "/proc/%d/stat", pid);
	return ask_look(&a);
}

/* Who hangs is left behind also where no descriptor is left to tell by that it does. */
static void one_hangs_without_descriptors(void **state)
{
	const struct note note = { .take = take };
	int status;
	pid_t pid;

	(void)state;
	sem_init(&never, 0, 0);
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0 });
		ask_begin(&note);
		_exit(look_at(1, hangs) == -ETIMEDOUT ? 7 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, W_EXITCODE(7, 0));
}

/* A thread that gets no CPU for some time. */
static struct late {
	void *(*run)(void *);
	void *arg;
} late;

static bool busy;

static void *begin_late(void *arg)
{
	const struct late *l = arg;

	usleep(1500000);
	return l->run(l->arg);
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
	int (*f)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");

	late = (struct late){ run, arg };
	return busy ? f(t, a, begin_late, &late) : f(t, a, run, arg);
}

/* Who was not let run does not hang. */
static void one_begins_late(void **state)
{
	const struct note note = { .take = take };

	(void)state;
	busy = true;
	ask_begin(&note);
	assert_int_equal(look_at(1, answers), 5);
	ask_end();
	busy = false;
}

/* Each that hangs is named, and that nobody is looked at any more is told once. */
static void no_more_may_hang(void **state)
{
	const struct note note = { .take = take };
	const int first = 10000000;

	(void)state;
	sem_init(&never, 0, 0);
	ask_begin(&note);
	for (int i = 0; i < MOST; i++)
		assert_int_equal(look_at(first + i, hangs), -ETIMEDOUT);
	assert_int_equal(told.of_one, MOST);
	assert_int_equal(told.of_all, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(look_at(first + MOST + i, answers), -ETIMEDOUT);
	assert_int_equal(told.of_all, 1);
	ask_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_hangs_without_descriptors),
		cmocka_unit_test(one_begins_late),
		cmocka_unit_test(no_more_may_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
