/* SPDX-License-Identifier: MIT
 *
 * pace: however strongly holds change who runs next, a process ends with as many samples as
 * its CPU time asks for; and what can't be is not made up for.
 */
#include "unit.h"
#include "targets/pace.h"

enum { PERIOD_NS = 2000000, SECOND = 1000000000 };

/* A process that has @share of a CPU for With periods as asked for it has
 * @factor times as many samples as its time asks for. How many it has, of those asked for. */
static double run(double share, double factor)
{
	enum { LOOKS = 400 };
	double used = share * PACE_MS * 1e6, samples = 0, pace = PACE_ONE;
	struct pace p = { 0 };

	for (int i = 0; i < LOOKS; i++) {
		pace = pace_next(&p, (uint64_t)(i * used), (uint32_t)samples, PERIOD_NS);
		samples += used / PERIOD_NS * factor * PACE_ONE / pace;
	}
	return samples / (LOOKS * used / PERIOD_NS);
}

static void it_has_as_many_as_its_time_asks_for(void **state)
{
	static const double share[] = { 0.1, 0.3, 1, 2, 8 }, factor[] = { 0.95, 1, 1.1, 1.3, 2 };

	for (size_t s = 0; s < sizeof(share) / sizeof(*share); s++) {
		for (size_t f = 0; f < sizeof(factor) / sizeof(*factor); f++) {
			assert_true(run(share[s], factor[f]) < 1.03);
			assert_true(run(share[s], factor[f]) > 0.97);
		}
	}
}

/* Half of its time can't be sampled: periods get little shorter, and long ones can't follow. */
static void what_is_missing_stays_missing(void **state)
{
	struct pace p = { 0 };

	assert_in_range(run(1, 0.5) * 100, 55, 60);
	assert_int_equal(pace_next(&p, 0, 0, PERIOD_NS), PACE_ONE);
	assert_in_range(pace_next(&p, 100ull * SECOND, 0, PERIOD_NS), PACE_ONE / 2, PACE_ONE);
	/* Even for some seconds: all is as it was. */
	for (uint32_t i = 1; i < 100; i++)
		pace_next(&p, 100ull * SECOND + i * 100ull * 1000000, i * 50, PERIOD_NS);
	assert_in_range(pace_next(&p, 110ull * SECOND, 5000, PERIOD_NS), PACE_ONE * 7 / 8,
			PACE_ONE);
}

/* A look before any time went by, and numbers that begin anew. */
static void nothing_is_known_of_it_yet(void **state)
{
	struct pace p = { 0 };

	assert_int_equal(pace_next(&p, 5, UINT32_MAX, PERIOD_NS), PACE_ONE);
	assert_int_equal(pace_next(&p, 5, UINT32_MAX, PERIOD_NS), PACE_ONE);
	assert_in_range(pace_next(&p, 5 + 2 * PERIOD_NS, 1, PERIOD_NS), PACE_ONE - 8,
			PACE_ONE + 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_as_many_as_its_time_asks_for),
		cmocka_unit_test(what_is_missing_stays_missing),
		cmocka_unit_test(nothing_is_known_of_it_yet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
