/* SPDX-License-Identifier: MIT
 *
 * books - what is counted against what is sampled.
 */
#include "record/books.h"

double book_expected(const struct book *b)
{
	if (b->seen && b->stands_for)
		return (double)b->counted * (double)b->seen / (double)b->stands_for;
	return b->period ? (double)b->counted / (double)b->period : 0;
}

uint64_t books_uncounted(const struct book *b, uint64_t n, uint64_t lost)
{
	double missing = -(double)lost;

	for (uint64_t i = 0; i < n; i++)
		missing += book_expected(&b[i]) - (double)b[i].seen;
	return missing > 0 ? (uint64_t)(missing + 0.5) : 0;
}

bool books_are_short(double uncounted, double expected, bool drawn)
{
	enum { SIGMAS = 3 };
	double more = uncounted - 0.02 * expected;
	double variance = drawn ? expected : expected / 12;

	return more > 0 && more * more > SIGMAS * SIGMAS * (variance + 1);
}
