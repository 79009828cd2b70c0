/* SPDX-License-Identifier: MIT
 *
 * jitted: which stacks hide the innermost Python frame's line. Frames as letters, leaf first, up
 * to the evaluation loop: i its file's, l libc's, x an extension module's, j in no file.
 */
#include "stacks/jitted.h"

#include <string.h>

#include "unit.h"

static bool hides(const char *picture, bool gap)
{
	static const char letters[] = "ilxj";
	enum jitted_code code[16] = { 0 };
	uint32_t n = 0;

	for (; picture[n]; n++)
		code[n] = (enum jitted_code)(strchr(letters, picture[n]) - letters);
	return jitted_hides_line(code, n, gap);
}

static void without_code_in_memory(void **state)
{
	(void)state;
	assert_false(hides("", false));
	assert_false(hides("i", false));
	assert_false(hides("lxi", false));
	assert_true(hides("", true));
	assert_true(hides("lx", true));
}

static void in_the_jits_code(void **state)
{
	(void)state;
	for (int gap = 0; gap < 2; gap++) {
		assert_true(hides("j", gap));
		assert_true(hides("ji", gap)); /* 3.15's _PyJIT_Entry */
		assert_true(hides("ij", gap));
		assert_true(hides("lij", gap));
		assert_true(hides("lj", gap));
		assert_true(hides("jji", gap));
		assert_true(hides("jxj", gap));
		assert_true(hides("xjij", gap));
	}
}

static void in_what_stored_where_it_is(void **state)
{
	(void)state;
	assert_false(hides("xj", false));
	assert_false(hides("lxji", false));
	assert_false(hides("ilxjj", false));
}

static void in_others_code(void **state)
{
	(void)state;
	assert_false(hides("jx", false));
	assert_false(hides("jxi", true));
	assert_false(hides("ljxi", false));
	assert_false(hides("jixl", false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_code_in_memory),
		cmocka_unit_test(in_the_jits_code),
		cmocka_unit_test(in_what_stored_where_it_is),
		cmocka_unit_test(in_others_code),
	};

	return cmocka_run_group_tests_name("jitted", tests, NULL, NULL);
}
