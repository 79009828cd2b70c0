/* SPDX-License-Identifier: MIT
 *
 * symnames_test - names by all that decides how they are written: each UTF-8 character, each room,
 * each suffix, each limit.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"
#include "base/clock.h"
#include "base/stats.h"
#include "names/demangle.h"
#include "names/symnames.h"

/* --- what may stand in an output --- */

/* Bytes of the character that begins at @s and may be printed, by what UTF-8 is; or 0. */
static size_t plain_look(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] < 0x80		  ? 1 :
		   (s[0] & 0xe0) == 0xc0 ? 2 :
		   (s[0] & 0xf0) == 0xe0 ? 3 :
		   (s[0] & 0xf8) == 0xf0 ? 4 :
					    0;
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (!n || c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	if ((c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
		return 0;
	return c >= 0xa0 || (c >= 0x20 && c < 0x7f) ? n : 0;
}

static void check_character(const unsigned char s[5])
{
	size_t n = plain_look(s);
	char clean[8];

	symnames_clean(clean, sizeof(clean), (const char *)s);
	if (s[0] == ';')
		assert_int_equal(':', clean[0]);
	else if (n)
		assert_memory_equal(s, clean, n);
	else
		assert_int_equal('?', clean[0]);
	if (n) /* what follows is another one */
		assert_int_equal(strlen((const char *)s + n) ? 1 : 0, clean[n] != '\0');
}

static void each_character(void **state)
{
	static const unsigned char next[] = { 0,    0x20, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x9f,
					      0xa0, 0xa1, 0xa6, 0xae, 0xbf, 0xc0, 0xff };

	for (unsigned a = 1; a < 256; a++)
		for (size_t b = 0; b < ARRAY_SIZE(next); b++)
			for (size_t c = 0; c < ARRAY_SIZE(next); c++)
				for (size_t d = 0; d < ARRAY_SIZE(next); d++)
					check_character((unsigned char[]){
						(unsigned char)a, next[b], next[c], next[d],
						0 });
}

/* Whole characters, as many as there is room for, and a NUL; nothing behind it. */
static void each_room(void **state)
{
	static const char text[] = "a\xc3\xa4;\xe2\x82\xac\x01\xf0\x9f\x90\x8d\xff" "b";
	static const char *const want[] = { "",
					    "a",
					    "a",
					    "a\xc3\xa4",
					    "a\xc3\xa4:",
					    "a\xc3\xa4:",
					    "a\xc3\xa4:",
					    "a\xc3\xa4:\xe2\x82\xac",
					    "a\xc3\xa4:\xe2\x82\xac?",
					    "a\xc3\xa4:\xe2\x82\xac?",
					    "a\xc3\xa4:\xe2\x82\xac?",
					    "a\xc3\xa4:\xe2\x82\xac?",
					    "a\xc3\xa4:\xe2\x82\xac?\xf0\x9f\x90\x8d",
					    "a\xc3\xa4:\xe2\x82\xac?\xf0\x9f\x90\x8d?",
					    "a\xc3\xa4:\xe2\x82\xac?\xf0\x9f\x90\x8d?b",
					    "a\xc3\xa4:\xe2\x82\xac?\xf0\x9f\x90\x8d?b" };
	char clean[32];

	for (size_t cap = 1; cap <= ARRAY_SIZE(want); cap++) {
		memset(clean, 'x', sizeof(clean));
		symnames_clean(clean, cap, text);
		assert_string_equal(want[cap - 1], clean);
		for (size_t i = cap; i < sizeof(clean); i++)
			assert_int_equal('x', clean[i]);
	}
}

/* --- what compilers append --- */

static void cuts(void **state)
{
	static const char *const rows[][2] = {
		{ "f", "f" },
		{ "", "" },
		{ "f.cold", "f" },
		{ "f.cold.1", "f" },
		{ "f.cold.", "f.cold." },
		{ "f.isra.0.part.12.cold", "f" },
		{ "f.constprop.0", "f" },
		{ "f.lto_priv.3", "f" },
		{ "f.llvm.123456789", "f" },
		{ "f.part", "f" },
		{ "f.isra", "f" },
		{ "f.parts", "f.parts" },
		{ "f.par", "f.par" },
		{ "f.cold.x", "f.cold.x" },
		{ "f.x.cold", "f.x" },
		{ "f.1", "f.1" },
		{ "f.cold1", "f.cold1" },
		{ "f1.cold", "f1" },
		{ ".cold", ".cold" },
		{ ".cold.1", ".cold.1" },
		{ "f..cold", "f." },
		{ ".f.cold", ".f" },
		{ "cold", "cold" },
		{ "123", "123" },
		{ ".123", ".123" },
		{ "f@V1", "f" },
		{ "f@@V1", "f" },
		{ "f.cold@@V1", "f" },
		{ "@V1", "@V1" },
		{ "f@plt", "f@plt" },
		{ "f.cold@plt", "f.cold@plt" },
		{ "f@plt2", "f" },
		{ "f@V1@plt", "f" },
		{ "main.init.0", "main.init.0" },
		{ "x.partial.cold", "x.partial" },
		{ "a.b.cold.5", "a.b" },
		{ "f.12.34", "f.12.34" },
	};
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		strcpy(name, rows[i][0]);
		symnames_cut(name);
		assert_string_equal(rows[i][1], name);
	}
	strcpy(name, "f.cold.7"); /* what stands before the name is none of its business */
	symnames_cut(strchr(name, '7'));
	assert_string_equal("f.cold.7", name);
}

/* --- what functions of CPython do --- */

static void which_function(void **state)
{
	static const struct {
		const char *name;
		bool eval, gc, call;
	} rows[] = {
		{ "_PyEval_EvalFrameDefault", true, false, true },
		{ "_PyEval_EvalFrameDefault.x", true, false, true },
		{ "_PyEval_EvalFrameDefault@V1", true, false, true },
		{ "_PyEval_EvalFrameDefault@plt", false, false, true },
		{ "_PyEval_EvalFrameDefaults", false, false, true },
		{ "_PyEval_EvalFrameDefaul", false, false, true },
		{ "PyEval_EvalFrameEx", true, false, true },
		{ "PyEval_EvalFrameExt", false, false, true },
		{ "_TAIL_CALL_LOAD_FAST", true, false, false },
		{ "_TAIL_CALL_", true, false, false },
		{ "_TAIL_CALL", false, false, false },
		{ "collect", false, true, false },
		{ "collects", false, false, false },
		{ "gc_collect_main", false, true, false },
		{ "gc_collect_internal", false, true, false },
		{ "gc_collect_young", false, true, false },
		{ "gc_collect_increment", false, true, false },
		{ "gc_collect_full", false, true, false },
		{ "gc_collect", false, false, false },
		{ "PyEval_EvalCode", false, false, true },
		{ "PyObject_CallObject", false, false, true },
		{ "_PyObject_Call_Prepend", false, false, true },
		{ "_PyObject_MakeTpCall", false, false, true },
		{ "PyObject_Vectorcall", false, false, true },
		{ "_PyObject_VectorcallTstate", false, false, true },
		{ "PyVectorcall_Call", false, false, true },
		{ "_PyVectorcall_Call", false, false, true },
		{ "_PyFunction_Vectorcall", false, false, true },
		{ "_PyObject_FastCallDict", false, false, true },
		{ "PyCFunction_Call", false, false, true },
		{ "method_vectorcall", false, false, true },
		{ "cfunction_call", false, false, true },
		{ "cfunction_vectorcall_O", false, false, true },
		{ "vectorcall_method", false, false, true },
		{ "object_vacall", false, false, true },
		{ "gen_send_ex2", false, false, true },
		{ "gen_iternext", false, false, true },
		{ "PyGen_am_send", false, false, true },
		{ "slot_tp_call", false, false, true },
		{ "py_trampoline_evaluator", false, false, true },
		{ "_PyEval_Vector", false, false, true },
		{ "gen_send_ex", false, false, true },
		{ "_TAIL_CALL_BINARY_OP.llvm.5", true, false, false },
		{ "x_PyEval_EvalFrameDefault", false, false, false },
		{ "collections_exec", false, false, false },
		{ "PyEval_", false, false, false },
		{ "PyEval_SaveThread", false, false, false },
		{ "_PyEva", false, false, false },
		{ "xPyObject_Call", false, false, false },
		{ "PyObject_GetAttr", false, false, false },
		{ "gen_send", false, false, false },
		{ "vectorcall", false, false, false },
		{ "method_vectorcal", false, false, false },
		{ "PyObject_Cal", false, false, false },
		{ "slot", false, false, false },
		{ "", false, false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (symnames_is_eval(rows[i].name) != rows[i].eval ||
		    symnames_is_gc(rows[i].name) != rows[i].gc ||
		    symnames_is_call(rows[i].name) != rows[i].call)
			fail_msg("%s", rows[i].name);
}

/* --- limits --- */

enum { OVERHEAD = 32 }; /* of each name */

static uint64_t nameless(const struct stats *s)
{
	return atomic_load(&s->nameless);
}

/* A name is taken while those before it are no more than the limit. */
static void as_many_names_as_there_is_room_for(void **state)
{
	for (size_t room = 0; room <= 2 * (OVERHEAD + 2) + 2; room++) {
		struct stats stats = { 0 };
		struct symnames t;
		char name[3] = "n";
		size_t taken = 0;

		assert_int_equal(0, symnames_init(&t));
		symnames_limit(&t, room, &stats);
		for (int i = 0; i < 8; i++) {
			name[1] = (char)('a' + i);
			taken += symnames_intern(&t, name) != symnames_unknown;
		}
		assert_int_equal(1 + room / (OVERHEAD + 2), taken);
		assert_int_equal(8 - taken, nameless(&stats));
		assert_string_equal("na", symnames_intern(&t, "na")); /* it is there */
		assert_ptr_equal(symnames_intern(&t, "na"), symnames_file(&t, "na"));
		assert_null(symnames_file(&t, "/other"));
		assert_int_equal(8 - taken, nameless(&stats)); /* a file's is not counted */
		assert_int_equal(taken * (OVERHEAD + 2), t.bytes);
		symnames_deinit(&t);
	}
}

static void a_limit_has_a_limit(void **state)
{
	struct symnames t;

	assert_int_equal(0, symnames_init(&t));
	assert_int_equal(128 << 20, t.max_bytes);
	symnames_limit(&t, SIZE_MAX, NULL);
	assert_int_equal(128 << 20, t.max_bytes);
	t.bytes = t.max_bytes;
	assert_string_equal("a", symnames_intern(&t, "a"));
	assert_ptr_equal(symnames_unknown, symnames_intern(&t, "b")); /* without stats, too */
	symnames_deinit(&t);
}

/* --- mangled ones --- */

static void need_demangler(void)
{
	if (!demangle_built) {
		print_message("built without libiberty\n");
		skip();
	}
}

/* The @n'th function of C++ that is mangled to @bytes bytes. */
static const char *mangled(unsigned n, size_t bytes)
{
	static char raw[SYMNAMES_RAW];
	size_t k = 0;

	do
		sprintf(raw, "_Z%zuf%0*uv", k + 1, (int)k, n);
	while (strlen(raw) < bytes && ++k);
	assert_int_equal(bytes, strlen(raw));
	return raw;
}

/* Each is demangled once, and costs its own bytes and those of what it means. */
static void each_mangled_name_once(void **state)
{
	enum { MANY = 700 }; /* more than there is room for first */
	const char *first[MANY];
	struct symnames t;
	size_t bytes = 0;

	need_demangler();
	assert_int_equal(0, symnames_init(&t));
	for (unsigned i = 0; i < MANY; i++) {
		const char *raw = mangled(i, 16);

		first[i] = symnames_symbol(&t, raw);
		assert_int_equal('f', first[i][0]);
		assert_string_equal("()", first[i] + strlen(first[i]) - 2);
		bytes += strlen(raw) + strlen(first[i]) + 2 * OVERHEAD;
		assert_int_equal(bytes, t.bytes);
	}
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(first[i], symnames_symbol(&t, mangled(i, 16)));
	assert_int_equal(bytes, t.bytes);
	t.max_bytes = bytes - 1; /* what is known stays, though nothing new is kept */
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(first[i], symnames_symbol(&t, mangled(i, 16)));
	assert_ptr_equal(symnames_unknown, symnames_symbol(&t, mangled(MANY, 16)));
	symnames_deinit(&t);
}

static void what_no_demangler_knows(void **state)
{
	static const char *const rows[][2] = { { "_Zzz", "_Zzz" },
					       { "_Zzz@plt", "_Zzz@plt" },
					       { "f;g", "f:g" },
					       { "f@plt", "f@plt" } };
	struct symnames t;

	assert_int_equal(0, symnames_init(&t));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_string_equal(rows[i][1], symnames_symbol(&t, rows[i][0]));
	assert_string_equal(demangle_built ? "f()@plt" : "_Z1fv@plt",
			    symnames_symbol(&t, "_Z1fv@plt"));
	symnames_deinit(&t);
}

/* Who is asked, and what comes back. */
struct asked {
	unsigned times;
	ssize_t answer; /* 0 or less; else "x" is the name */
	bool fills;	/* the name is "x" as often as there is room for */
	char raw[SYMNAMES_RAW];
};

static ssize_t answer(void *arg, const char *raw, char *buf, size_t cap)
{
	struct asked *a = arg;

	a->times++;
	strcpy(a->raw, raw);
	assert_int_equal(SYMNAMES_MAX, cap);
	if (a->answer > 0)
		strcpy(buf, "x");
	if (a->fills)
		memset(buf, 'x', cap - 1), buf[cap - 1] = '\0';
	return a->answer;
}

static void long_ones_are_asked_for(void **state)
{
	struct asked a = { .answer = 1 };
	struct symnames t;
	char stub[SYMNAMES_RAW];

	need_demangler();
	assert_int_equal(0, symnames_init(&t));
	symnames_ask(&t, answer, &a);
	symnames_symbol(&t, mangled(1, 128));
	assert_int_equal(0, a.times);
	assert_string_equal("x", symnames_symbol(&t, mangled(1, 129)));
	assert_int_equal(1, a.times);
	assert_string_equal(mangled(1, 129), a.raw);
	assert_string_equal("x", symnames_symbol(&t, mangled(1, 129)));
	assert_int_equal(1, a.times); /* it is known */
	sprintf(stub, "%s%s", mangled(2, 129), SYMNAMES_STUB);
	assert_string_equal("x@plt", symnames_symbol(&t, stub));
	assert_string_equal(mangled(2, 129), a.raw);
	symnames_symbol(&t, "plain");
	assert_int_equal(2, a.times);
	/* The longest that is cut from a stub's name. */
	sprintf(stub, "%s%s", mangled(3, SYMNAMES_MAX - 1), SYMNAMES_STUB);
	assert_string_equal("x@plt", symnames_symbol(&t, stub));
	assert_string_equal(mangled(3, SYMNAMES_MAX - 1), a.raw);
	/* Behind the longest answer nothing has room. */
	a.fills = true;
	sprintf(stub, "%s%s", mangled(4, 129), SYMNAMES_STUB);
	assert_int_equal(SYMNAMES_MAX - 1, strlen(symnames_symbol(&t, stub)));
	assert_string_equal("x", symnames_symbol(&t, stub) + SYMNAMES_MAX - 2);
	/* What is not answered is counted, without stats too. */
	a = (struct asked){ .answer = -EIO };
	assert_string_equal(mangled(5, 129), symnames_symbol(&t, mangled(5, 129)));
	assert_int_equal(1, t.n_mangled);
	symnames_deinit(&t);
}

/* After three that could not be answered nobody is asked for a while; "later" is none of them, nor
 * is "it means nothing". What was not asked for is asked for then, what was is not. */
static void who_does_not_answer_is_not_asked(void **state)
{
	static const struct {
		ssize_t answer;
		unsigned times;
	} rows[] = { { 0, 6 }, { -EAGAIN, 6 }, { -EIO, 3 }, { -1, 3 } };

	need_demangler();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct asked a = { .answer = rows[i].answer };
		bool answered = rows[i].times == 6;
		struct stats stats = { 0 };
		struct symnames t;

		assert_int_equal(0, symnames_init(&t));
		symnames_limit(&t, 1 << 20, &stats);
		symnames_ask(&t, answer, &a);
		for (unsigned k = 0; k < 6; k++)
			assert_string_equal(mangled(k, 140),
					    symnames_symbol(&t, mangled(k, 140)));
		assert_int_equal(rows[i].times, a.times);
		a.answer = 1;
		assert_string_equal(answered ? "x" : mangled(9, 140),
				    symnames_symbol(&t, mangled(9, 140)));
		assert_int_equal(answered ? 0 : 7, STATS_GET(&stats, mangled));
		assert_int_equal(answered ? 0 : 7, t.n_mangled);
		t.ask_again_ns = MIN(t.ask_again_ns, (int64_t)now_ns()); /* minutes later */
		assert_string_equal("x", symnames_symbol(&t, mangled(9, 140)));
		assert_string_equal(answered ? mangled(5, 140) : "x",
				    symnames_symbol(&t, mangled(5, 140)));
		assert_string_equal(mangled(2, 140), symnames_symbol(&t, mangled(2, 140)));
		a.answer = -EIO; /* one more, and then none again */
		symnames_symbol(&t, mangled(10, 140));
		a.answer = 1;
		assert_string_equal(answered ? "x" : mangled(11, 140),
				    symnames_symbol(&t, mangled(11, 140)));
		symnames_deinit(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_character),
		cmocka_unit_test(each_room),
		cmocka_unit_test(cuts),
		cmocka_unit_test(which_function),
		cmocka_unit_test(as_many_names_as_there_is_room_for),
		cmocka_unit_test(a_limit_has_a_limit),
		cmocka_unit_test(each_mangled_name_once),
		cmocka_unit_test(what_no_demangler_knows),
		cmocka_unit_test(long_ones_are_asked_for),
		cmocka_unit_test(who_does_not_answer_is_not_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
