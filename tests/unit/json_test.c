/* SPDX-License-Identifier: MIT
 *
 * json_test - any bytes become a string that JSON and scripts in pages can hold.
 */
#include <stdlib.h>

#include "unit.h"
#include "../../output/json.h"

static void is(const char *text, const char *expect)
{
	char *made;
	size_t n;
	FILE *out = open_memstream(&made, &n);

	json_string(out, text);
	fclose(out);
	assert_string_equal(made, expect);
	free(made);
}

static void ascii(void **state)
{
	is(NULL, "null");
	is("", "\"\"");
	is("a ~/>", "\"a ~/>\"");
	is("\"\\", "\"\\\"\\\\\"");
	is("\x01\n\x1f\x7f", "\"\\u0001\\u000a\\u001f\\u007f\"");
	is("</script>", "\"\\u003c/script>\"");
	(void)state;
}

static void valid_characters_stay(void **state)
{
	is("\xc3\xa4z", "\"\xc3\xa4z\"");
	is("\xc2\xa0", "\"\xc2\xa0\"");
	is("\xe2\x82\xac!", "\"\xe2\x82\xac!\"");
	is("\xf0\x9f\x98\x80.", "\"\xf0\x9f\x98\x80.\"");
	(void)state;
}

/* C1, what ends a line in a script, and what turns the direction of text. */
static void some_are_escaped(void **state)
{
	is("\xc2\x80\xc2\x9f", "\"\\u0080\\u009f\"");
	is("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa7", "\"\\u2028\\u2029\xe2\x80\xa7\"");
	is("\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa5", "\"\\u202a\\u202e\xe2\x81\xa5\"");
	is("\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa", "\"\\u2066\\u2069\xe2\x81\xaa\"");
	(void)state;
}

/* Each byte that is no part of a character; the text's end is never passed. */
static void what_is_no_utf8(void **state)
{
	is("\x80z", "\"\\ufffdz\"");
	is("\xffz", "\"\\ufffdz\"");
	is("\xc3", "\"\\ufffd\"");
	is("\xe2\x82", "\"\\ufffd\\ufffd\"");
	is("\xf0\x9f\x98z", "\"\\ufffd\\ufffd\\ufffdz\"");
	is("\xc0\xaf", "\"\\ufffd\\ufffd\"");
	is("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
	is("\xc3\"", "\"\\ufffd\\\"\"");
	(void)state;
}

static void number_is(int64_t v, const char *expect)
{
	char *made;
	size_t n;
	FILE *out = open_memstream(&made, &n);

	json_number(out, v);
	fclose(out);
	assert_string_equal(made, expect);
	free(made);
}

static void numbers(void **state)
{
	number_is(0, "0");
	number_is(7, "7");
	number_is(10, "10");
	number_is(-90, "-90");
	number_is(INT64_MAX, "9223372036854775807");
	number_is(INT64_MIN, "-9223372036854775808");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ascii),
		cmocka_unit_test(valid_characters_stay),
		cmocka_unit_test(some_are_escaped),
		cmocka_unit_test(what_is_no_utf8),
		cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
