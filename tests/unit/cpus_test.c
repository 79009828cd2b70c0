/* SPDX-License-Identifier: MIT
 *
 * cpus, and where a cgroup's real-time budget is written: both pure.
 */
#include <errno.h>

#include "unit.h"
#include "base/base.h"
#include "sys/cpus.h"
#include "sys/realtime.h"

static void lists(void **state)
{
	static const struct {
		const char *list, *same; /* NULL: no list */
		size_t n;
	} rows[] = {
		{ "0\n", "0", 1 },
		{ "0-3,8,10-11\n", "0-3,8,10-11", 7 },
		{ "1,0", "0-1", 2 },
		{ "62-65", "62-65", 4 },
		{ "0-8191", "0-8191", 8192 },
		{ "8191", "8191", 1 },
		{ "", NULL, 0 },
		{ "\n", NULL, 0 },
		{ "0-8192", NULL, 0 },
		{ "3-1", NULL, 0 },
		{ "-1", NULL, 0 },
		{ "99999999999999999999", NULL, 0 },
	};
	struct cpus c;
	char text[100];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int r = cpus_parse(&c, rows[i].list);

		assert_int_equal(r, rows[i].same ? 0 : -EINVAL);
		if (r < 0)
			continue;
		assert_int_equal(cpus_count(&c), rows[i].n);
		assert_string_equal(cpus_text(&c, text, sizeof(text)), rows[i].same);
	}
}

static void members(void **state)
{
	struct cpus c = { 0 };

	assert_int_equal(cpus_next(&c, 0), -1);
	cpus_add(&c, 3);
	cpus_add(&c, 64);
	cpus_add(&c, CPUS_MAX - 1);
	assert_int_equal(cpus_next(&c, 0), 3);
	assert_int_equal(cpus_next(&c, 4), 64);
	assert_int_equal(cpus_next(&c, 65), CPUS_MAX - 1);
	assert_int_equal(cpus_next(&c, CPUS_MAX), -1);
	assert_true(cpus_has(&c, 64));
	cpus_del(&c, 64);
	assert_false(cpus_has(&c, 64));
}

static void text_is_cut(void **state)
{
	struct cpus c = { 0 };
	char text[8];

	for (int cpu = 0; cpu < 1000; cpu += 2)
		cpus_add(&c, cpu);
	assert_string_equal(cpus_text(&c, text, sizeof(text)), "0,2,4,6");
}

#define V1                                                                              \
	"24 20 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"                             \
	"29 24 0:26 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"    \
	"30 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup " \
	"rw,cpu,"                                                                       \
	"cpuacct\n"

static void budget_files(void **state)
{
	static const struct {
		const char *cgroup, *mounts, *path; /* NULL: none */
	} rows[] = {
		{ "3:cpuset:/a\n1:cpu,cpuacct:/b/c\n0::/\n", V1,
		  "/sys/fs/cgroup/cpu,cpuacct/b/c/cpu.rt_runtime_us" },
		{ "1:cpu:/\n", V1, "/sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us" },
		{ "3:cpuset:/a\n0::/\n", V1, NULL },
		{ "0::/user.slice\n", "30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		  NULL },
		{ "1:cpu:/docker/12/x\n",
		  "30 24 0:27 /docker/12 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
		  "/sys/fs/cgroup/cpu/x/cpu.rt_runtime_us" },
		{ "1:cpu:/b",
		  "30 24 0:27 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct", NULL },
		{ "", V1, NULL },
		{ "nonsense\n", V1, NULL },
		{ "1:cpu:/b\n", "", NULL },
		{ "1:cpu:/b\n", "- cgroup \n - cgroup cpu\n", NULL },
	};
	char path[300];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool is = realtime_budget_file(rows[i].cgroup, rows[i].mounts, path,
					       sizeof(path));

		if (is != (rows[i].path != NULL))
			fail_msg("row %zu: %d", i, is);
		if (is)
			assert_string_equal(path, rows[i].path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test(members),
		cmocka_unit_test(text_is_cut),
		cmocka_unit_test(budget_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
