/* SPDX-License-Identifier: MIT
 *
 * pylayout: every table is found, in order and plausible; damage is noticed.
 */
#include <errno.h>

#include "unit.h"
#include "offsets/pylayout.h"

static void every_table_is_found(void **state)
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);

	assert_true(n >= 5);
	for (size_t i = 0; i < n; i++) {
		assert_ptr_equal(pylayout_find(all[i]->version), all[i]);
		assert_true(all[i]->micro_min <= all[i]->micro_max);
		assert_true(i == 0 || all[i - 1]->version < all[i]->version);
	}
	for (unsigned v = 0x030b; v <= 0x030f; v++)
		assert_non_null(pylayout_find((uint16_t)v));
}

/* Those without the GIL have the same versions, and are no others' tables. */
static void free_threaded_tables(void **state)
{
	for (unsigned v = 0x0300; v <= 0x0310; v++) {
		const struct pylayout *l = pylayout_find_free_threaded((uint16_t)v);
		struct err err = { 0 };

		assert_int_equal(l != NULL, v >= 0x030d && v <= 0x030f);
		if (!l)
			continue;
		assert_int_equal(l->version, v);
		assert_true(l->free_threaded && !pylayout_find((uint16_t)v)->free_threaded);
		if (pylayout_check(l, &err) < 0)
			fail_msg("%x: %s", v, err.text);
	}
}

/* An index without a list, or a list without an index. */
static void half_of_a_copy(void **state)
{
	struct pylayout l = *pylayout_find_free_threaded(0x030e);
	pyoff tlbc = l.code.tlbc;

	l.code.tlbc = (pyoff){ 0 };
	assert_int_equal(pylayout_check(&l, NULL), -EBADMSG);
	l.code.tlbc = tlbc;
	l.frame.tlbc_index = (pyoff){ 0 };
	assert_int_equal(pylayout_check(&l, NULL), -EBADMSG);
}

static void no_guess(void **state)
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);

	assert_null(pylayout_find((uint16_t)(all[n - 1]->version + 1)));
	assert_null(pylayout_find((uint16_t)(all[0]->version - 1)));
	assert_null(pylayout_find(0));
}

static void every_table_is_plausible(void **state)
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);

	for (size_t i = 0; i < n; i++) {
		struct err err = { 0 };

		if (pylayout_check(all[i], &err) < 0)
			fail_msg("%x: %s", all[i]->version, err.text);
	}
}

/* Offset 0 is a field, "absent" is not. */
static void zero_is_not_absent(void **state)
{
	const struct pylayout *l = pylayout_find(0x030c);

	assert_true(pyoff_has(l->frame.code));
	assert_int_equal(pyoff_get(l->frame.code), 0);
	assert_false(pyoff_has(l->frame.is_entry));
	assert_false(pyoff_has(pylayout_find(0x030b)->code.version));
	assert_false(pyoff_has(pylayout_find(0x030e)->tstate.base_frame));
	assert_true(pyoff_has(pylayout_find(0x030f)->tstate.base_frame));
}

static void refuses(const struct pylayout *l, const char *why)
{
	struct err err = { 0 };

	assert_int_equal(pylayout_check(l, &err), -EBADMSG);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

#define REFUSES(member, value, why)                         \
	do {                                                \
		struct pylayout l = *pylayout_find(0x030c); \
		l.member = (value);                         \
		refuses(&l, why);                           \
	} while (0)

#define OFF(v) ((pyoff)AT(v))
#define ABSENT ((pyoff){ 0 })

static void damage_is_noticed(void **state)
{
	REFUSES(code.filename, OFF(113), "not aligned");
	REFUSES(code.filename, OFF(120), "overlap");
	REFUSES(code.filename, OFF(192), "outside");
	REFUSES(code.filename, OFF(UINT32_MAX - 8), "outside");
	REFUSES(code.filename, ABSENT, "missing");
	REFUSES(code.bytecode, OFF(200), "bytecode");
	REFUSES(code.size, 264, "code.size");
	REFUSES(code.size, 0, "code.size");
	REFUSES(frame.size, 136, "frame.size");
	REFUSES(frame.owner, OFF(80), "outside");
	REFUSES(frame.owner, OFF(56), "overlap");
	REFUSES(frame.localsplus, OFF(81), "localsplus");
	REFUSES(interp.next, ABSENT, "missing");
	REFUSES(interp.next, OFF(64u << 20), "outside");
	REFUSES(interp.threads_unique, OFF(72), "overlap");
	REFUSES(tstate.frame, OFF(72), "not both");
	REFUSES(tstate.cframe, ABSENT, "not both");
	REFUSES(cframe.current_frame, ABSENT, "current_frame");
	REFUSES(tstate.size, 1u << 20, "tstate.size");
	REFUSES(tstate.status, ABSENT, "status");
	REFUSES(str.compact_data, 32, "compact_data");
	REFUSES(str.compact_data, 136, "compact_data");
	REFUSES(str.ascii_data, 136, "ascii_data");
	REFUSES(object.type, OFF(1000), "object.type");
	REFUSES(object.type, OFF(192 - 8), "object.type");
	REFUSES(bytes.size, OFF(40), "behind");
	REFUSES(bytes.data, OFF(23), "bytes.data");
	REFUSES(cframe.previous, OFF(24), "outside");
	REFUSES(cframe.previous, ABSENT, "previous");
	REFUSES(code.firsttraceable, ABSENT, "firsttraceable");
	REFUSES(str_kind_shift, 30, "bits");
	REFUSES(owner_shim, 0, "entry");
	REFUSES(lasti_unit, 1, "PyFrameObject");
	REFUSES(str.state, ABSENT, "str.state is missing");
	REFUSES(frame.owner, ABSENT, "frame.owner is missing");
}

/* Heads that end where what is loaded out of them does. */
static void no_more_is_asked_than_is_loaded(void **state)
{
	struct pylayout l = *pylayout_find(0x030c);

	l.object.type = (pyoff)OFF(192 - 16);
	l.bytes.data = (pyoff)OFF(24);
	l.cframe.previous = (pyoff)OFF(16);
	assert_int_equal(pylayout_check(&l, NULL), 0);
}

static void move(pyoff *field, uint32_t by)
{
	if (pyoff_has(*field))
		field->plus1 += by;
}

/* A build whose objects know their neighbours (Py_TRACE_REFS, up to 3.12): two pointers before all
 * else of each. */
static void larger_heads(void **state)
{
	enum { BY = 16 };
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);

	for (size_t i = 0; i < n && all[i]->version <= 0x030c; i++) {
		struct pylayout l = *all[i];
		pyoff *const fields[] = { &l.object.type,      &l.code.filename,
					  &l.code.name,	       &l.code.qualname,
					  &l.code.linetable,   &l.code.firstlineno,
					  &l.code.flags,       &l.code.version,
					  &l.code.stacksize,   &l.code.firsttraceable,
					  &l.code.nlocalsplus, &l.code.bytecode,
					  &l.code.instructions, &l.str.length,
					  &l.str.hash,	       &l.str.state,
					  &l.bytes.size,       &l.bytes.data };
		struct err err = { 0 };

		for (size_t k = 0; k < ARRAY_SIZE(fields); k++)
			move(fields[k], BY);
		l.code.size += BY;
		l.str.ascii_data += BY;
		l.str.compact_data += BY;
		if (pylayout_check(&l, &err) < 0)
			fail_msg("%x: %s", l.version, err.text);
	}
}

/* Up to 3.10 a frame is an object, and of 2.7 a str is bytes. */
static void damage_of_old_ones_is_noticed(void **state)
{
	struct pylayout l = *pylayout_find(0x030a);

	l.code.stacksize = l.code.flags;
	l.code.flags = (pyoff)OFF(0);
	refuses(&l, "firsttraceable");
	l = *pylayout_find(0x0207);
	l.str.length = (pyoff)OFF(24);
	refuses(&l, "bytes of another kind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_table_is_found),
		cmocka_unit_test(free_threaded_tables),
		cmocka_unit_test(half_of_a_copy),
		cmocka_unit_test(no_guess),
		cmocka_unit_test(every_table_is_plausible),
		cmocka_unit_test(zero_is_not_absent),
		cmocka_unit_test(damage_is_noticed),
		cmocka_unit_test(larger_heads),
		cmocka_unit_test(damage_of_old_ones_is_noticed),
		cmocka_unit_test(no_more_is_asked_than_is_loaded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
