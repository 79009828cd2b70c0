/* SPDX-License-Identifier: MIT
 *
 * work: what a thread counts in its own struct is nowhere else, and its own words are not
 * foreign.
 */

#include "unit.h"
#include "base/clock.h"
#include "base/work.h"

/* What is counted by a thread with a struct of its own is there and nowhere else. */
static void own_and_others(void **state)
{
	struct work own = { 0 }, shared = { 0 };
	struct work_moment m = { 0 };

	work_add(WORK_opens, 7); /* for nobody */
	work_shared = &shared;
	work_add(WORK_opens, 2);
	work_own = &own;
	work_add(WORK_opens, 3);
	work_add(WORK_samples, 1);
	work_own = NULL;
	assert_int_equal(shared.n[WORK_opens], 2);
	assert_int_equal(shared.n[WORK_samples], 0);
	assert_int_equal(own.n[WORK_opens], 3);
	work_add_to(&m, &shared);
	work_add_to(&m, &own);
	assert_int_equal(m.n[WORK_opens], 5);
	assert_int_equal(m.n[WORK_samples], 1);
	work_take(&own); /* its thread's answer was taken */
	work_shared = NULL;
	assert_int_equal(shared.n[WORK_opens], 5);
	assert_int_equal(shared.n[WORK_samples], 1);
}

static void what_is_foreign(void **state)
{
	struct work own = { 0 }, other = { 0 };

	work_own = &own;
	work_foreign(&own, 4);
	assert_int_equal(own.n[WORK_foreign], 0);
	work_foreign(&other, 4);
	work_own = NULL;
	assert_int_equal(own.n[WORK_foreign], 4);
	assert_int_equal(other.n[WORK_foreign], 0);
}

static void moments(void **state)
{
	const struct work_origin origin = { .ns = now_ns() };
	struct work_moment a, b;

	work_look(&origin, &a);
	work_look(&origin, &b);
	assert_true(a.ns <= b.ns && b.ns < 60 * UINT64_C(1000000000));
	assert_true(a.cpu_ns <= b.cpu_ns);
	assert_true(a.syscalls == UINT64_MAX); /* nobody asked for them */
}

static void names(void **state)
{
	assert_string_equal(work_name(WORK_opens), "opens");
	assert_string_equal(work_name(WORK_N - 1), "samples");
	assert_null(work_name(WORK_N));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_and_others),
		cmocka_unit_test(what_is_foreign),
		cmocka_unit_test(moments),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
