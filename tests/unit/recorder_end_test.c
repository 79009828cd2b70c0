/* SPDX-License-Identifier: MIT
 *
 * recorder_end: a recording is over when all have ended, whoever forked whom; and whoever goes
 * on forking keeps nobody from Ctrl-C.
 */
#include <sys/eventfd.h>
#include <unistd.h>

#include "unit.h"
#include "record/recorder_int.h"

enum { NOBODY = 999999999, HOPS = 300 };

/* What the rings tell. */
static struct {
	int hops;  /* forks by processes that have ended, which are found one after the other */
	int rests; /* how often messages are left when it took long enough */
	int lates; /* how often a reader is late */
	int turns; /* how often they were asked */
} rings;

bool recorder_catch_up(struct recorder *r)
{
	return rings.lates-- <= 0;
}

bool recorder_take_messages(struct recorder *r)
{
	struct target *t;

	rings.turns++;
	if (rings.hops-- > 0) {
		t = target_create(NOBODY + rings.hops);
		assert_non_null(t);
		assert_int_equal(targets_publish(&r->tracker.targets, &t, 1), 0);
	}
	return rings.rests-- <= 0;
}

static void begin(struct recorder *r)
{
	rings.hops = rings.rests = rings.lates = rings.turns = 0;
	*r = (struct recorder){ .o.follow = true, .last = -1 };
	r->config.kick = eventfd(0, EFD_NONBLOCK);
	assert_true(r->config.kick >= 0);
	assert_int_equal(targets_init(&r->tracker.targets), 0);
}

static void end(struct recorder *r)
{
	targets_deinit(&r->tracker.targets);
	close(r->config.kick);
}

/* It is not over, and is asked again at once, after one look at what else there is. */
static void goes_on(struct recorder *r)
{
	eventfd_t kicked = 0;

	rings.turns = 0;
	assert_false(recorder_over(r, NULL));
	assert_int_equal(rings.turns, 1);
	assert_int_equal(eventfd_read(r->config.kick, &kicked), 0);
	assert_int_equal(kicked, 1);
}

static void is_over(struct recorder *r)
{
	eventfd_t kicked;

	assert_true(recorder_over(r, NULL));
	assert_int_equal(eventfd_read(r->config.kick, &kicked), -1);
}

static void nobody_is_left(void **state)
{
	struct recorder r;

	begin(&r);
	is_over(&r);
	end(&r);
}

/* Each has forked the next one and ended. */
static void a_chain_of_forks(void **state)
{
	struct recorder r;

	begin(&r);
	rings.hops = HOPS;
	for (int i = 0; i < HOPS; i++)
		goes_on(&r);
	is_over(&r);
	end(&r);
}

static void messages_are_left(void **state)
{
	struct recorder r;

	begin(&r);
	rings.rests = 2;
	goes_on(&r);
	goes_on(&r);
	is_over(&r);
	end(&r);
}

static void a_reader_is_late(void **state)
{
	struct recorder r;

	begin(&r);
	rings.lates = 1;
	goes_on(&r);
	is_over(&r);
	end(&r);
}

/* Its end is waited for. */
static void one_runs(void **state)
{
	struct target *t = target_create(getpid());
	struct recorder r;

	begin(&r);
	assert_non_null(t);
	assert_int_equal(targets_publish(&r.tracker.targets, &t, 1), 0);
	assert_false(recorder_over(&r, NULL));
	assert_true(r.last >= 0);
	assert_int_equal(rings.turns, 0);
	close(r.last);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_left),    cmocka_unit_test(a_chain_of_forks),
		cmocka_unit_test(messages_are_left), cmocka_unit_test(a_reader_is_late),
		cmocka_unit_test(one_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
