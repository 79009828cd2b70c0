/* SPDX-License-Identifier: MIT
 *
 * books: what is counted equals what is sampled, lost and uncounted.
 */
#include "unit.h"
#include "base/base.h"
#include "record/books.h"

static void test_one_event(void **state)
{
	/* Counted, seen, stands for, period; lost; uncounted. */
	static const struct {
		struct book book;
		uint64_t lost, want;
	} rows[] = {
		{ { 1000, 10, 1000, 100 }, 0, 0 },
		{ { 2000, 10, 1000, 100 }, 0, 10 },
		{ { 2000, 10, 1000, 100 }, 4, 6 },
		{ { 2000, 10, 1000, 100 }, 12, 0 }, /* lost records are not all samples */
		{ { 900, 10, 1000, 100 }, 0, 0 },   /* more than was counted is no debt */
		{ { 1000, 0, 0, 100 }, 0, 10 },	    /* nothing seen: the period tells */
		{ { 1000, 0, 0, 0 }, 0, 0 },	    /* nothing tells */
		{ { 3000, 4, 2000, 7 }, 0, 2 },	    /* periods that the kernel adapted: 500 */
		{ { 1049, 10, 1000, 100 }, 0, 0 },  /* less than half a sample */
		{ { 1050, 10, 1000, 100 }, 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(books_uncounted(&rows[i].book, 1, rows[i].lost),
				 rows[i].want);
}

/* One event's surplus does not pay for another's lack, but noise of both evens out. */
static void test_several_events(void **state)
{
	const struct book books[] = { { 2000, 10, 1000, 100 }, { 500, 5, 10, 2 } };

	(void)state;
	assert_int_equal(books_uncounted(books, 2, 0), 10 + 245);
	assert_int_equal(books_uncounted(books, 2, 55), 200);
	assert_true(book_expected(&books[1]) > 249.9 && book_expected(&books[1]) < 250.1);
}

/* Of 200 samples on a CPU that others use too, 34 may be missing by chance. */
static void chance_is_no_shortage(void **state)
{
	assert_false(books_are_short(4, 200, false));
	assert_true(books_are_short(20, 200, false));
	assert_false(books_are_short(34, 200, true));
	assert_true(books_are_short(60, 200, true));
	assert_false(books_are_short(100, 10000, true));
	assert_true(books_are_short(1000, 10000, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_event),
		cmocka_unit_test(test_several_events),
		cmocka_unit_test(chance_is_no_shortage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
