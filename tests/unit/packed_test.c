/* SPDX-License-Identifier: MIT
 *
 * packed_test - lines of folded stacks come out as they went in, and take few bytes.
 */
#include <string.h>

#include "unit.h"
#include "base/base.h"
#include "packed.h"

static void none(void **state)
{
	struct packed p = { 0 };
	struct packed_at a = { 0 };

	assert_false(packed_next(&p, &a));
	packed_deinit(&p);
}

static void the_same_comes_out(void **state)
{
	static const struct folded_line in[] = {
		{ 1, 0, 100, 0, 7, 0, 1 },
		{ 1, 0, 100, 0, 8, 0, 2 },
		{ UINT32_MAX, 0, 0, 0, 8, 0, UINT64_MAX }, /* unnamed */
		{ UINT32_MAX, UINT32_MAX, INT32_MAX, INT32_MAX, UINT32_MAX, UINT32_MAX, 0 },
		{ 0, 5, 1, 1, 0, 1, 127 },
		{ 0, 5, 1, 1, 0, 1, 127 },
		{ 0, 5, 1, 2, 128, 2, 128 },
	};
	struct packed p = { 0 };
	struct packed_at a = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(in); i++)
		assert_int_equal(0, packed_add(&p, &in[i]));
	assert_int_equal(ARRAY_SIZE(in), p.n);
	for (size_t i = 0; i < ARRAY_SIZE(in); i++) {
		assert_true(packed_next(&p, &a));
		assert_memory_equal(&in[i], &a.line, sizeof(in[i]));
	}
	assert_false(packed_next(&p, &a));
	packed_deinit(&p);
}

/* Processes one after the other, of five stacks each. */
static void they_take_few_bytes(void **state)
{
	enum { N = 10000 };
	struct packed p = { 0 };

	for (int i = 0; i < N; i++)
		assert_int_equal(
			0, packed_add(&p, &(struct folded_line){ .comm = 3,
								 .pid = 1000 + i / 5,
								 .body = (uint32_t)i % 400,
								 .count = 1 }));
	assert_in_range(p.bytes.n, N, 4 * N);
	packed_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none),
		cmocka_unit_test(the_same_comes_out),
		cmocka_unit_test(they_take_few_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
