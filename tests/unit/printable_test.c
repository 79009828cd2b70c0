/* SPDX-License-Identifier: MIT
 *
 * printable_test - no control character and no invalid UTF-8 gets through.
 */
#include <string.h>

#include "unit.h"
#include "base/printable.h"

static void gives(const char *from, const char *want)
{
	char to[100];

	assert_int_equal(printable(to, sizeof(to), from), strlen(want));
	assert_string_equal(to, want);
}

static void controls_become_question_marks(void **state)
{
	gives("", "");
	gives("\x1b]0;PWNED\a", "?]0;PWNED?");
	gives("a\nb\tc\rd\x7f", "a?b?c?d?");
	gives("\x9b"
	      "31m",
	      "?31m");
	gives("\xc2\x9b"
	      "31m\xc2\x80\xc2\x9f\xc2\xa0",
	      "?31m??\xc2\xa0");
}

static void separators_become_question_marks(void **state)
{
	gives("a\xe2\x80\xa8z\xe2\x80\xa9", "a?z?");
	gives("\xe2\x80\xa7\xe2\x80\xaf", "\xe2\x80\xa7\xe2\x80\xaf");
}

static void what_turns_the_direction_becomes_question_marks(void **state)
{
	gives("a\xe2\x80\xaaz\xe2\x80\xae", "a?z?");
	gives("a\xe2\x81\xa6z\xe2\x81\xa9", "a?z?");
	gives("\xe2\x81\xa5\xe2\x81\xaa", "\xe2\x81\xa5\xe2\x81\xaa");
}

static void controls_may_stay(void **state)
{
	char to[16];

	assert_int_equal(printable_utf8(to, sizeof(to), "a\nb\xc2\x9b\xff\xe2\x80\xa8"), 9);
	assert_string_equal(to, "a\nb\xc2\x9b?\xe2\x80\xa8");
}

static void valid_text_stays(void **state)
{
	static const char text[] = "a~ \xc3\xa9 \xe2\x82\xac \xed\x9f\xbf \xee\x80\x80 "
				   "\xf0\x9f\x90\x8d \xf4\x8f\xbf\xbf";

	gives(text, text);
}

static void invalid_bytes_become_question_marks(void **state)
{
	gives("\xc0\xaf", "??");	   /* longer than need be */
	gives("\xe0\x82\x9b", "???");	   /* the same, and C1 */
	gives("\xed\xa0\x80", "???");	   /* a surrogate */
	gives("\xf4\x90\x80\x80", "????"); /* beyond the last */
	gives("\xf8\x88\x80\x80", "????");
	gives("\xe2\x82", "??"); /* cut */
	gives("\xe2z", "?z");
}

static void what_does_not_fit_is_cut_between_characters(void **state)
{
	char to[8];

	assert_int_equal(printable(to, 4, "ab\xe2\x82\xac"), 2);
	assert_string_equal(to, "ab");
	assert_int_equal(printable(to, 6, "ab\xe2\x82\xac"), 5);
	assert_int_equal(printable(to, 1, "ab"), 0);
	assert_string_equal(to, "");
}

static void text_may_stay_where_it_is(void **state)
{
	char text[] = "\xc2\x9b\xc3\xa9\x1b";

	assert_int_equal(printable(text, sizeof(text), text), 4);
	assert_string_equal(text, "?\xc3\xa9?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(controls_become_question_marks),
		cmocka_unit_test(separators_become_question_marks),
		cmocka_unit_test(what_turns_the_direction_becomes_question_marks),
		cmocka_unit_test(controls_may_stay),
		cmocka_unit_test(valid_text_stays),
		cmocka_unit_test(invalid_bytes_become_question_marks),
		cmocka_unit_test(what_does_not_fit_is_cut_between_characters),
		cmocka_unit_test(text_may_stay_where_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
