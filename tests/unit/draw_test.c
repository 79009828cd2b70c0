/* SPDX-License-Identifier: MIT
 *
 * draw: distances are those of the generator that its authors published, and lie around the mean.
 */
#include <stdio.h>

#include "unit.h"
#include "base/base.h"
#include "base/draw.h"

/* S. Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled": another
 * one may repeat itself after a few draws. */
static void the_published_generator(void **state)
{
	static const uint64_t first[] = { 0x47e4ce4b896cdd1d, 0xabcfa6a8e079651d,
					  0xb9d10d8feb731f57, 0x4db418a0bb1b019d };
	const uint64_t mean = (uint64_t)1 << 32;
	uint64_t s = 1;

	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		assert_int_equal(draw_around(&s, mean), mean / 2 + (first[i] >> 32));
}

/* Half of the distances are below the mean, none is outside of its half to one and a half. */
static void around_the_mean(void **state)
{
	static const uint64_t means[] = { 0, 1, 1000, 1000000, (uint64_t)1 << 62 };
	enum { DRAWS = 10000 };
	uint64_t s = 12345;

	for (size_t m = 0; m < ARRAY_SIZE(means); m++) {
		uint64_t mean = means[m], below = 0;

		for (int i = 0; i < DRAWS; i++) {
			uint64_t d = draw_around(&s, mean);

			assert_true(d >= mean / 2 && d - mean / 2 <= mean);
			below += d < mean;
		}
		if (mean > 1)
			assert_in_range(below, DRAWS * 48 / 100, DRAWS * 52 / 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_generator),
		cmocka_unit_test(around_the_mean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
