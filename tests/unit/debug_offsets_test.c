/* SPDX-License-Identifier: MIT
 *
 * debug_offsets: what builds tell of themselves equals our tables, free-threaded
 * builds differ where their headers do, and nothing implausible gets through.
 */
#include <errno.h>

#include "unit.h"
#include "debug_offsets_fixtures.h"
#include "offsets/debug_offsets.h"

#define RAW(words)                                            \
	(struct bytes)                                        \
	{                                                     \
		(const unsigned char *)(words), sizeof(words) \
	}

static void version_is_told(void **state)
{
	uint32_t version;
	bool ft;

	assert_int_equal(debug_offsets_version(RAW(offsets_3_14_10t), &version, &ft), 0);
	assert_int_equal(version, 0x030e0af0);
	assert_true(ft);
	assert_int_equal(debug_offsets_version(RAW(offsets_3_13_0), &version, &ft), 0);
	assert_int_equal(version, 0x030d00f0);
	assert_false(ft);
}

static void version_wants_cookie(void **state)
{
	uint64_t words[3] = { offsets_3_13_0[0], 0x030d00f0, 0 };
	struct bytes cut = { (unsigned char *)words, 23 };
	uint32_t version;
	bool ft;

	assert_int_equal(debug_offsets_version(cut, &version, &ft), -ENOENT);
	words[0]++;
	assert_int_equal(debug_offsets_version(RAW(words), &version, &ft), -ENOENT);
}

static void equals_table(struct bytes raw, const struct pylayout *table)
{
	struct pylayout l;
	struct err err;

	assert_non_null(table);
	assert_int_equal(debug_offsets_parse(raw, table, &l, &err), 0);
	assert_memory_equal(&l, table, sizeof(l));
}

static void told_equals_table(void **state)
{
	equals_table(RAW(offsets_3_13_0), pylayout_find(0x030d));
	equals_table(RAW(offsets_3_14_10), pylayout_find(0x030e));
	equals_table(RAW(offsets_3_15_2), pylayout_find(0x030f));
	equals_table(RAW(offsets_3_13_0t), pylayout_find_free_threaded(0x030d));
	equals_table(RAW(offsets_3_14_10t), pylayout_find_free_threaded(0x030e));
	equals_table(RAW(offsets_3_15_2t), pylayout_find_free_threaded(0x030f));
}

static void collector_is_told(void **state)
{
	const struct {
		struct bytes raw;
		struct gc_told want;
	} rows[] = {
		{ RAW(offsets_3_13_0), { 7400, 240, 200 } },
		{ RAW(offsets_3_14_10), { 7408, 264, 192 } },
		{ RAW(offsets_3_15_2), { 7400, 176, 112 } },
	};
	struct gc_told told;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bytes cut = rows[i].raw;

		assert_int_equal(debug_offsets_gc(cut, &told), 0);
		assert_memory_equal(&told, &rows[i].want, sizeof(told));
		cut.n = 600;
		assert_int_equal(debug_offsets_gc(cut, &told), i ? -EBADMSG : 0);
		cut.n = 16;
		assert_int_equal(debug_offsets_gc(cut, &told), -ENOENT);
	}
}

/* It lies in the interpreter, to its last byte. */
static void collector_is_inside(void **state)
{
	uint64_t words[ARRAY_SIZE(offsets_3_13_0)];
	struct gc_told told;

	memcpy(words, offsets_3_13_0, sizeof(words));
	words[10] = words[6] - 240;
	assert_int_equal(debug_offsets_gc(RAW(words), &told), 0);
	assert_int_equal(told.at, words[6] - 240);
	words[10] += 8;
	assert_int_equal(debug_offsets_gc(RAW(words), &told), -EBADMSG);
	words[10] = words[6] + 8;
	assert_int_equal(debug_offsets_gc(RAW(words), &told), -EBADMSG);
	words[10] = 7404;
	assert_int_equal(debug_offsets_gc(RAW(words), &told), -EBADMSG);
	words[10] = 7400;
	words[1] = 0x030c0000;
	assert_int_equal(debug_offsets_gc(RAW(words), &told), -EBADMSG);
}

static void another_layout_does_not_agree(void **state)
{
	const struct pylayout *l = pylayout_find(0x030d);
	uint64_t words[ARRAY_SIZE(offsets_3_13_0)];

	assert_true(debug_offsets_agree(RAW(offsets_3_13_0), l));
	assert_false(debug_offsets_agree(RAW(offsets_3_13_0t), l));
	assert_false(debug_offsets_agree(RAW(offsets_3_14_10), l));
	for (size_t i = 0; i < 2; i++) { /* the cookie, the version */
		memcpy(words, offsets_3_13_0, sizeof(words));
		words[i] ^= 1ull << 24;
		assert_false(debug_offsets_agree(RAW(words), l));
	}
	memcpy(words, offsets_3_13_0, sizeof(words));
	words[5] += 8; /* runtime_state.interpreters_head */
	assert_false(debug_offsets_agree(RAW(words), l));
	assert_true(debug_offsets_agree(RAW(words), pylayout_find(0x030c)));
}

struct ft_row {
	struct bytes raw;
	uint16_t version;
	uint32_t owner, bytecode, firsttraceable, kind_shift;
	bool copies; /* of bytecode, one a thread */
};

/* Numbers from offsetof() with the headers and Py_GIL_DISABLED. */
static void free_threaded_differs(void **state)
{
	const struct ft_row rows[] = {
		{ RAW(offsets_3_13_0t), 0x030d, 70, 216, 200, 2, false },
		{ RAW(offsets_3_14_10t), 0x030e, 78, 232, 208, 8, true },
		{ RAW(offsets_3_15_2t), 0x030f, 78, 232, 208, 8, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct ft_row *row = &rows[i];
		struct pylayout l;
		struct err err;

		assert_int_equal(debug_offsets_parse(row->raw,
						     pylayout_find_free_threaded(row->version),
						     &l, &err),
				 0);
		assert_true(l.free_threaded);
		assert_false(pyoff_has(l.interp.gil) || pyoff_has(l.gil.holder) || l.gil.size);
		assert_int_equal(pyoff_get(l.frame.owner), row->owner);
		assert_int_equal(pyoff_get(l.code.bytecode), row->bytecode);
		assert_int_equal(l.code.size, row->bytecode);
		assert_int_equal(pyoff_get(l.code.firsttraceable), row->firsttraceable);
		assert_int_equal(pyoff_get(l.code.version), 108);
		assert_int_equal(pyoff_get(l.code.flags), 64);
		assert_int_equal(pyoff_get(l.object.type), 24);
		assert_int_equal(pyoff_get(l.str.state), 48);
		assert_int_equal(l.str.ascii_data, 56);
		assert_int_equal(l.str.compact_data, 72);
		assert_int_equal(l.str_kind_shift, row->kind_shift);
		assert_int_equal(l.str_compact_bit, row->kind_shift + 3);
		assert_int_equal(l.str_ascii_bit, row->kind_shift + 4);
		assert_int_equal(pyoff_has(l.code.tlbc), row->copies);
		assert_int_equal(pyoff_has(l.frame.tlbc_index), row->copies);
		assert_true(!row->copies || pyoff_get(l.code.tlbc) == 224);
		assert_true(!row->copies || pyoff_get(l.frame.tlbc_index) == 72);
	}
}

/* What is not told is believed of an interpreter state that is as large as the table's. */
static void another_interpreter_state_has_no_count_of_codes(void **state)
{
	uint64_t words[ARRAY_SIZE(offsets_3_13_0t)];
	struct pylayout l;

	memcpy(words, offsets_3_13_0t, sizeof(words));
	words[6] += 8; /* interpreter_state.size */
	assert_int_equal(
		debug_offsets_parse(RAW(words), pylayout_find_free_threaded(0x030d), &l, NULL),
		0);
	assert_false(pyoff_has(l.interp.code_versions));
}

/* The table of one for the other: refused. */
static void other_kind_is_refused(void **state)
{
	struct pylayout l;
	struct err err = { 0 };

	assert_int_equal(
		debug_offsets_parse(RAW(offsets_3_14_10t), pylayout_find(0x030e), &l, &err),
		-EBADMSG);
	assert_string_equal(err.text, "debug offsets: of a build without the GIL");
	assert_int_equal(debug_offsets_parse(RAW(offsets_3_14_10),
					     pylayout_find_free_threaded(0x030e), &l, &err),
			 -EBADMSG);
	assert_string_equal(err.text, "debug offsets: of a build with the GIL");
}

/* A GIL whose fields lie elsewhere: what is not told is not believed of the table. */
static void a_moved_gil_is_as_told(void **state)
{
	const struct pylayout *table = pylayout_find(0x030d);
	uint64_t words[ARRAY_SIZE(offsets_3_13_0)];
	struct pylayout l;

	memcpy(words, offsets_3_13_0, sizeof(words));
	words[15] -= 16; /* gil_runtime_state */
	assert_int_equal(debug_offsets_parse(RAW(words), table, &l, NULL), 0);
	assert_int_equal(pyoff_get(l.gil.holder), pyoff_get(table->gil.holder) + 16);
	assert_int_equal(pyoff_get(l.gil.locked), pyoff_get(table->gil.locked) + 16);
	assert_int_equal(l.gil.size, 0);
	assert_false(pyoff_has(l.gil.switches));
	words[15] += 32; /* behind its fields */
	assert_int_equal(debug_offsets_parse(RAW(words), table, &l, NULL), 0);
	assert_false(pyoff_has(l.interp.gil) || pyoff_has(l.gil.holder));
}

static void other_minor_is_refused(void **state)
{
	struct pylayout l;
	struct err err = { 0 };

	assert_int_equal(
		debug_offsets_parse(RAW(offsets_3_14_10), pylayout_find(0x030d), &l, &err),
		-EBADMSG);
	assert_string_not_equal(err.text, "");
	assert_int_equal(
		debug_offsets_parse(RAW(offsets_3_14_10), pylayout_find(0x030c), &l, &err),
		-EBADMSG);
}

/* Cut anywhere before the last slot that is used: refused, nothing read behind. */
static void cut_is_refused(void **state)
{
	struct bytes whole = RAW(offsets_3_15_2);

	for (size_t n = 0; n < 752; n++) {
		unsigned char *copy = malloc(n + 1); /* for sanitizers */
		struct bytes cut = { copy, n };
		struct pylayout l;

		memcpy(copy, whole.at, n);
		assert_int_not_equal(debug_offsets_parse(cut, pylayout_find(0x030f), &l, NULL),
				     0);
		free(copy);
	}
}

/* Whatever one slot holds, what is accepted is plausible. */
static void hostile_slots(void **state)
{
	const uint64_t values[] = { 0,		1,
				    3,		4,
				    7,		127,
				    4097,	0x10000,
				    0x1fffff,	0x7fffffff,
				    0xffffffff, 1ull << 40,
				    UINT64_MAX, UINT64_MAX - 7 };
	uint64_t words[ARRAY_SIZE(offsets_3_15_2)];
	int refused = 0;

	for (size_t i = 2; i < ARRAY_SIZE(words); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(values); j++) {
			struct err err = { 0 };
			struct pylayout l;
			int r;

			memcpy(words, offsets_3_15_2, sizeof(words));
			words[i] = values[j];
			r = debug_offsets_parse(RAW(words), pylayout_find(0x030f), &l, &err);
			if (r == 0) {
				assert_int_equal(pylayout_check(&l, NULL), 0);
				continue;
			}
			assert_int_equal(r, -EBADMSG);
			assert_string_not_equal(err.text, "");
			refused++;
		}
	}
	assert_in_range(refused, 300, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_is_told),
		cmocka_unit_test(version_wants_cookie),
		cmocka_unit_test(told_equals_table),
		cmocka_unit_test(another_layout_does_not_agree),
		cmocka_unit_test(free_threaded_differs),
		cmocka_unit_test(collector_is_told),
		cmocka_unit_test(collector_is_inside),
		cmocka_unit_test(another_interpreter_state_has_no_count_of_codes),
		cmocka_unit_test(other_kind_is_refused),
		cmocka_unit_test(a_moved_gil_is_as_told),
		cmocka_unit_test(other_minor_is_refused),
		cmocka_unit_test(cut_is_refused),
		cmocka_unit_test(hostile_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
