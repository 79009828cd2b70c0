/* SPDX-License-Identifier: MIT
 *
 * ours: any process, and numbers that no process has.
 */
#include <stdio.h>

#include "unit.h"
#include "targets/ours.h"

static int pid_max(void)
{
	FILE *f = fopen("/proc/sys/kernel/pid_max", "re");
	int n = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &n), 1);
	fclose(f);
	return n;
}

static void all_pids(void **state)
{
	struct ours *o = ours_create(NULL);
	pid_t last = pid_max() - 1;

	for (pid_t pid = 1; pid <= last; pid += 7)
		assert_false(ours_has(o, pid));
	ours_set(o, last, true);
	assert_true(ours_has(o, last));
	assert_false(ours_has(o, last - 1));
	ours_set(o, last, false);
	assert_false(ours_has(o, last));
	ours_destroy(o);
}

static void no_pids(void **state)
{
	const pid_t none[] = { INT32_MIN, -1, 0, pid_max(), INT32_MAX };
	struct ours *o = ours_create(NULL);

	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		ours_set(o, none[i], true);
		assert_false(ours_has(o, none[i]));
	}
	ours_destroy(o);
}

static void events_on_threads_see_only_ours(void **state)
{
	ours_set(NULL, 1, false);
	assert_true(ours_has(NULL, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_pids),
		cmocka_unit_test(no_pids),
		cmocka_unit_test(events_on_threads_see_only_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
