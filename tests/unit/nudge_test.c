/* SPDX-License-Identifier: MIT
 *
 * nudge: many at once, and calls that are abandoned.
 */
#include "unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/nudge.h"

enum { STACK = 32 << 10, NUDGES = 300000 };

static _Atomic pid_t nudged;
static _Atomic bool over;

static void *be_nudged(void *arg)
{
	(void)arg;
	nudged = gettid();
	while (!over)
		;
	return NULL;
}

/* However fast they come: each is dealt with before the next one is. */
static void many(void **state)
{
	pthread_attr_t attr;
	pthread_t t;

	(void)state;
	nudge_init();
	pthread_attr_init(&attr);
	assert_int_equal(0, pthread_attr_setstacksize(&attr, STACK));
	assert_int_equal(0, pthread_create(&t, &attr, be_nudged, NULL));
	pthread_attr_destroy(&attr);
	while (!nudged)
		;
	for (int i = 0; i < NUDGES; i++)
		nudge_tid(nudged);
	over = true;
	pthread_join(t, NULL);
}

static void wait_for_ever(void *arg)
{
	int *pipes = arg;
	char c;

	while (read(pipes[0], &c, 1) < 0 && errno == EINTR)
		;
}

static void nothing(void *arg)
{
	(void)arg;
}

/* Also the second one. */
static void abandoned(void **state)
{
	struct nudge_limit l;
	int pipes[2];

	(void)state;
	nudge_init();
	assert_int_equal(0, pipe(pipes));
	assert_int_equal(0, nudge_limit_init(&l));
	for (int i = 0; i < 3; i++) {
		assert_false(nudge_limited(&l, 1, wait_for_ever, pipes));
		assert_true(nudge_limited(&l, 1000000, nothing, NULL));
	}
	nudge_limit_deinit(&l);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many),
		cmocka_unit_test(abandoned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
