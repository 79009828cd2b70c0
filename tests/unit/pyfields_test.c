/* SPDX-License-Identifier: MIT
 *
 * pyfields: what debug info says of a table's fields makes that table; what is missing is not made up.
 */
#include <errno.h>

#include "unit.h"
#include "offsets/pyfields.h"

/* What the debug info of a build would say that is as the table @l. */
static struct pyfield_values say(const struct pylayout *l)
{
	struct pyfield_values v = { 0 };
	size_t n;
	const struct pyfield *row = pyfield_all(&n);

	for (size_t i = 0; i < n; i++) {
		const char *at = (const char *)l + row[i].at;

		if (!pyfield_is_of(&row[i], l->version, l->free_threaded))
			continue;
		if (row[i].size == 1)
			v.plus1[i] = *(const uint8_t *)at + 1u;
		else
			memcpy(&v.plus1[i], at, 4), v.plus1[i] += !row[i].offset;
	}
	return v;
}

static void forget(struct pyfield_values *v, const char *name)
{
	size_t n;
	const struct pyfield *row = pyfield_all(&n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(row[i].name, name))
			v->plus1[i] = 0;
}

static void same(const struct pylayout *table)
{
	struct pyfield_values v = say(table);
	struct pylayout meanings = *table, got;
	struct err err;

	/* They are taken from what is said. */
	meanings.frame.previous = (pyoff)AT(8000);
	meanings.str.ascii_data = 1;
	assert_int_equal(0, pyfield_layout(&v, table->version, &meanings, &got, &err));
	assert_memory_equal(table, &got, sizeof(got));
}

static void each_table_is_made(void **state)
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);

	for (size_t i = 0; i < n; i++)
		same(all[i]);
	for (uint16_t v = 0x030d; v <= 0x030f; v++)
		same(pylayout_find_free_threaded(v));
}

static void of_a_newer_one_what_nothing_proves_is_absent(void **state)
{
	const struct pylayout *newest = pylayout_find(0x030f);
	struct pyfield_values v = say(newest);
	struct pylayout got;
	struct err err;

	assert_int_equal(0, pyfield_layout(&v, 0x0310, newest, &got, &err));
	assert_int_equal(0x0310, got.version);
	assert_int_equal(pyoff_get(newest->frame.instr), pyoff_get(got.frame.instr));
	assert_true(pyoff_has(newest->interp.code_versions));
	assert_false(pyoff_has(got.interp.code_versions));
	assert_false(pyoff_has(got.interp.gil));
}

static void what_is_missing_is_refused(void **state)
{
	static const char *const names[] = { "frame.code",	"code.qualname", "str.length",
					     "str.ascii_data",	"owner_shim",	 "active_bit",
					     "str_compact_bit", "tstate.size" };
	const struct pylayout *newest = pylayout_find(0x030f);
	struct pylayout got;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct pyfield_values v = say(newest);

		forget(&v, names[i]);
		assert_int_equal(-EBADMSG, pyfield_layout(&v, 0x0310, newest, &got, &err));
		assert_non_null(strstr(err.text, names[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_table_is_made),
		cmocka_unit_test(of_a_newer_one_what_nothing_proves_is_absent),
		cmocka_unit_test(what_is_missing_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
