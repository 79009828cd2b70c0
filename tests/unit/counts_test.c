/* SPDX-License-Identifier: MIT
 *
 * counts: differences by event and thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sample/counts.h"

static uint64_t since(struct counts *c, pid_t tid, uint64_t id, uint64_t value)
{
	struct counts_read r = { .id = id, .value = value };

	return counts_since(c, tid, &r);
}

static void differences(void **state)
{
	struct counts *c = counts_create();

	assert_int_equal(since(c, 1, 7, 100), 100);
	assert_int_equal(since(c, 1, 7, 130), 30);
	assert_int_equal(since(c, 2, 7, 5), 5); /* inherited: the id is the same */
	assert_int_equal(since(c, 1, 8, 1), 1);
	assert_int_equal(since(c, 1, 7, 130), 0);
	assert_int_equal(since(c, 2, 7, 6), 1);
	assert_int_equal(since(c, 2, 7, 4), 4); /* a new thread of this number */
	assert_int_equal(since(c, 2, 0, 4), 0);
	counts_destroy(c);
}

static void many_threads(void **state)
{
	struct counts *c = counts_create();

	for (pid_t tid = 1; tid < 5000; tid++)
		assert_int_equal(since(c, tid, 3, (uint64_t)tid), tid);
	for (pid_t tid = 1; tid < 5000; tid++)
		assert_int_equal(since(c, tid, 3, 2 * (uint64_t)tid), tid);
	counts_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences),
		cmocka_unit_test(many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
