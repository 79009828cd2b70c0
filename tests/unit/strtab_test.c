/* SPDX-License-Identifier: MIT
 *
 * strtab_test - equal text is one id, pointers stay.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "base/strtab.h"

static uint32_t add(struct strtab *t, const char *s)
{
	return strtab_add(t, s, strlen(s));
}

static void equal_text_is_one_id(void **state)
{
	struct strtab *t = strtab_create();

	assert_int_equal(add(t, "spin"), 0);
	assert_int_equal(add(t, "spi"), 1);
	assert_int_equal(add(t, ""), 2);
	assert_int_equal(strtab_add(t, "spinning", 4), 0);
	assert_int_equal(add(t, ""), 2);
	assert_int_equal(strtab_count(t), 3);
	assert_string_equal(strtab_get(t, 1), "spi");
	assert_string_equal(strtab_get(t, 2), "");
	assert_int_equal(strtab_len(t, 0), 4);
	strtab_destroy(t);
}

static void pointers_stay_while_it_grows(void **state)
{
	enum { N = 100000 };
	struct strtab *t = strtab_create();
	const char **at = calloc(N, sizeof(*at));
	char name[32];

	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "name%d", i);
		assert_int_equal(add(t, name), i);
		at[i] = strtab_get(t, (uint32_t)i);
	}
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "name%d", i);
		assert_int_equal(add(t, name), i);
		assert_ptr_equal(strtab_get(t, (uint32_t)i), at[i]);
		assert_string_equal(at[i], name);
	}
	free(at);
	strtab_destroy(t);
}

static void text_longer_than_a_chunk(void **state)
{
	enum { LONG = 300000 };
	struct strtab *t = strtab_create();
	char *s = malloc(LONG + 1);

	memset(s, 'x', LONG);
	s[LONG] = '\0';
	assert_int_equal(add(t, "before"), 0);
	assert_int_equal(strtab_add(t, s, LONG), 1);
	assert_int_equal(add(t, "after"), 2);
	assert_int_equal(strtab_add(t, s, LONG), 1);
	assert_int_equal(strtab_add(t, s, LONG - 1), 3);
	assert_string_equal(strtab_get(t, 1), s);
	free(s);
	strtab_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_text_is_one_id),
		cmocka_unit_test(pointers_stay_while_it_grows),
		cmocka_unit_test(text_longer_than_a_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
