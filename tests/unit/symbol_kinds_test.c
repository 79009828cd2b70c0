/* SPDX-License-Identifier: MIT
 *
 * symbol_kinds_test - what addresses are called and belong to, by modules made up: no file is
 * read.
 */
#include <sys/mman.h>

#include "unit.h"
#include "../own_spaces.h"
#include "base/stats.h"
#include "elf/module.h"
#include "lines/places.h"
#include "names/symnames.h"

enum {
	PID = 7,
	LO = 0x70000000,
	LEN = 0x4000,
	PGOFF = 0x2000,
	VADDR = 0x401000,
	BASE = 0x400000
};

/* One function from VADDR + 0x100 on, of 0x40 bytes; named by @name, if that is not NULL. */
struct made {
	const char *name;
	bool exports, stripped, memory;
	bool rest; /* it is the loop's nameless part */
};

static struct module *module_of(struct made how)
{
	struct module *m = calloc(1, sizeof(*m));

	m->base = BASE;
	m->load[0] = (struct module_load){ PGOFF, VADDR, LEN };
	m->n_loads = 1;
	m->exports_python = how.exports;
	m->stripped = how.stripped;
	m->memory = how.memory;
	m->func = malloc(sizeof(*m->func));
	m->func[0] = (struct module_func){ VADDR + 0x100 - BASE, 0x40 };
	m->n_funcs = 1;
	if (how.rest)
		m->eval_rest = m->func[0];
	if (how.name) {
		m->names = strdup(how.name);
		m->sym = malloc(sizeof(*m->sym));
		m->sym[0] = (struct module_sym){ VADDR + 0x100 - BASE, 0x40, 0 };
		m->n_syms = 1;
	}
	return m;
}

static void map_in(struct symbolizer *s, pid_t pid, uint64_t lo, uint64_t len,
		   const char *path)
{
	struct side side = { .kind = SIDE_MMAP, .pid = pid, .tid = pid };

	side.u.mmap.addr = lo, side.u.mmap.len = len, side.u.mmap.pgoff = PGOFF;
	side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = path;
	spaces_side(symbolizer_spaces(s), &side);
}

static struct elfcache_elf *elf_at(struct symbolizer *s, pid_t pid, uint64_t at)
{
	return space_at(spaces_find(symbolizer_spaces(s), pid), at)->elf;
}

static struct symbolizer *with(const char *path, struct made how)
{
	struct symbolizer *s = own_symbolizer(0);

	map_in(s, PID, LO, LEN, path);
	elfcache_give_module(symbolizer_spaces(s)->elfs, elf_at(s, PID, LO), module_of(how));
	return s;
}

static void kinds(void **state)
{
	static const struct {
		const char *path;
		struct made how;
		enum symbol_kind kind;
		const char *name; /* of the function; NULL: as it is */
	} rows[] = {
		{ "/lib/a.so", { "f" }, SYMBOL_OTHER, NULL },
		{ "/lib/a.so", { "f", .exports = true }, SYMBOL_OTHER, NULL },
		{ "/lib/a.so", { "PyObject_Call" }, SYMBOL_OTHER, NULL },
		{ "/lib/a.so", { "PyObject_Call", .exports = true }, SYMBOL_CALL, NULL },
		{ "/lib/a.so", { "_PyEval_EvalFrameDefault" }, SYMBOL_EVAL, NULL },
		{ "/lib/a.so",
		  { "_PyEval_EvalFrameDefault.cold", .exports = true },
		  SYMBOL_EVAL,
		  "_PyEval_EvalFrameDefault" },
		{ "/lib/a.so", { "f.isra.0@@V1" }, SYMBOL_OTHER, "f" },
		{ "/lib/_greenlet.so", { "f" }, SYMBOL_COROUTINE, NULL },
		{ "/lib/_greenlet.so", { NULL }, SYMBOL_COROUTINE, "_greenlet.so+0x401100" },
		{ "/lib/x_greenlet.so", { "f" }, SYMBOL_OTHER, NULL },
		{ "/lib/_greenlet.so",
		  { "PyObject_Call", .exports = true },
		  SYMBOL_CALL,
		  NULL },
		{ "/lib/a.so", { NULL, .stripped = true }, SYMBOL_OTHER, "a.so+0x401100" },
		{ "/lib/a.so", { NULL, .exports = true }, SYMBOL_OTHER, "a.so+0x401100" },
		{ "/lib/a.so",
		  { NULL, .exports = true, .stripped = true },
		  SYMBOL_CALL,
		  "a.so+0x401100" },
		{ "/lib/_greenlet.so",
		  { NULL, .exports = true, .stripped = true },
		  SYMBOL_COROUTINE,
		  "_greenlet.so+0x401100" },
		{ "/lib/a.so", { NULL, .rest = true }, SYMBOL_EVAL, "a.so+0x401100" },
		{ "/lib/a.so",
		  { NULL, .exports = true, .stripped = true, .rest = true },
		  SYMBOL_EVAL,
		  "a.so+0x401100" },
		{ "/lib/a.so", { "f", .rest = true }, SYMBOL_EVAL, NULL },
		{ "//anon", { "f", .memory = true }, SYMBOL_OTHER, "[anon]" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct symbolizer *s = with(rows[i].path, rows[i].how);
		bool eval = rows[i].kind == SYMBOL_EVAL;

		for (uint64_t at = LO + 0x100; at < LO + 0x140; at += 0x3f) {
			struct symbol got = symbolize(s, PID, at);

			assert_int_equal(rows[i].kind, got.kind);
			assert_string_equal(rows[i].name ? rows[i].name : rows[i].how.name,
					    got.name);
			assert_ptr_equal(got.name, symbolize(s, PID, at).name);
			assert_ptr_equal(got.name, symbolize_user(s, PID, at));
			assert_int_equal(got.kind, symbolize_kind(s, PID, at));
			assert_int_equal(eval, symbolize_is_eval(s, PID, at));
		}
		/* Outside of the function. */
		assert_false(symbolize_is_eval(s, PID, LO + 0xff));
		assert_false(symbolize_is_eval(s, PID, LO + 0x140));
		assert_false(symbolize_kind(s, PID, LO + 0x140) == SYMBOL_EVAL);
		own_symbolizer_destroy(s);
	}
}

#define LONG                                                                             \
	"a_file_name_as_long_as_a_file_system_has_them_which_is_of_255_bytes_for_builds_" \
	"that_put_a_sum_of_all_that_went_into_a_library_into_what_it_is_called_by_5d4140" \
	"2abc4b2a76b9719d911017c592_0123456789_0123456789_0123456789_0123456789.so"

/* Code in no function and no symbol is told by its offset in the file, or in memory. */
static void offsets(void **state)
{
	static const struct {
		const char *path, *name;
	} rows[] = {
		{ "/usr/lib/a;b.so", "a:b.so+0x2010" },
		{ "/a", "a+0x2010" },
		{ "/" LONG, LONG "+0x2010" },
		{ "[vdso]", "[vdso]+0x2010" },
		{ "[heap]", "[heap]" },
		{ "[stack;x]", "[stack:x]" },
		{ "//anon", "[anon]" },
		{ "//anonymous", "[anon]" },
		{ "/dev/zero", "[anon]" },
		{ "/dev/zero (deleted)", "[anon]" },
		{ "", "[anon]" },
		{ "memfd", "[anon]" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct symbolizer *s = own_symbolizer(0);

		spaces_elsewhere(symbolizer_spaces(s), "/nowhere");
		map_in(s, PID, LO, LEN, rows[i].path);
		assert_string_equal(rows[i].name, symbolize_user(s, PID, LO + 0x10));
		assert_int_equal(SYMBOL_OTHER, symbolize_kind(s, PID, LO + 0x10));
		assert_string_equal(symnames_unknown, symbolize_user(s, PID, LO - 1));
		assert_string_equal(symnames_unknown, symbolize_user(s, PID, LO + LEN));
		own_symbolizer_destroy(s);
	}
}

/* One file in several places and processes. */
static void shared_files(void **state)
{
	struct symbolizer *s = with("/lib/a.so", (struct made){ "f" });
	const char *name = symbolize_user(s, PID, LO + 0x110);

	map_in(s, PID, 3 * (uint64_t)LO, LEN, "/lib/a.so");
	map_in(s, PID + 1, 2 * (uint64_t)LO, LEN, "/lib/a.so");
	assert_string_equal("f", name);
	assert_ptr_equal(name, symbolize_user(s, PID, 3 * (uint64_t)LO + 0x110));
	assert_ptr_equal(name, symbolize_user(s, PID + 1, 2 * (uint64_t)LO + 0x110));
	assert_string_equal("a.so+0x401200", symbolize_user(s, PID, LO + 0x200));
	assert_string_equal(symnames_unknown, symbolize_user(s, PID + 1, LO + 0x110));
	assert_string_equal(symnames_unknown, symbolize_user(s, PID + 2, LO + 0x110));
	own_symbolizer_destroy(s);
}

/* What a process maps now is what counts, however often it was asked before. */
static void maps_change(void **state)
{
	struct symbolizer *s = with("/lib/a.so", (struct made){ "f" });
	struct side fork = { .kind = SIDE_FORK, .pid = PID + 1, .tid = PID + 1 };

	fork.u.fork.ppid = PID;
	spaces_side(symbolizer_spaces(s), &fork);
	for (int i = 0; i < 2; i++) {
		assert_string_equal("f", symbolize_user(s, PID, LO + 0x110));
		assert_string_equal("f", symbolize_user(s, PID + 1, LO + 0x110));
	}
	map_in(s, PID, LO + 0x100, 0x20, "//anon");
	assert_string_equal("[anon]", symbolize_user(s, PID, LO + 0x110));
	assert_string_equal("a.so+0x4010ff", symbolize_user(s, PID, LO + 0xff));
	assert_string_equal("f", symbolize_user(s, PID, LO + 0x120));
	assert_string_equal("f", symbolize_user(s, PID + 1, LO + 0x110));
	map_in(s, PID, LO + 0x100, 0x20, "[heap]");
	assert_string_equal("[heap]", symbolize_user(s, PID, LO + 0x110));
	own_symbolizer_destroy(s);
}

/* A name that may be a better one soon is not kept. */
static void names_that_come_later(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct spaces *spaces = symbolizer_spaces(s);
	struct elfcache_elf *e;

	map_in(s, PID, LO, LEN, "/lib/a.so");
	e = elf_at(s, PID, LO);
	elfcache_slow(spaces->elfs, e, true);
	assert_string_equal("a.so+0x2110", symbolize_user(s, PID, LO + 0x110));
	elfcache_slow(spaces->elfs, e, false);
	elfcache_give_module(spaces->elfs, e, module_of((struct made){ "f" }));
	assert_string_equal("f", symbolize_user(s, PID, LO + 0x110));
	own_symbolizer_destroy(s);

	s = own_symbolizer(0);
	spaces = symbolizer_spaces(s);
	map_in(s, PID, LO, LEN, "/lib/a.so");
	spaces->retry_ns = UINT64_MAX; /* descriptors have run out */
	assert_string_equal("a.so+0x2110", symbolize_user(s, PID, LO + 0x110));
	spaces->retry_ns = 0;
	e = elf_at(s, PID, LO);
	elfcache_give_module(spaces->elfs, e, module_of((struct made){ "f" }));
	assert_string_equal("f", symbolize_user(s, PID, LO + 0x110));
	own_symbolizer_destroy(s);
}

/* Once some file was opened, all that was answered is asked again. */
static void names_of_files_opened_later(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct spaces *spaces = symbolizer_spaces(s);

	map_in(s, PID, LO, LEN, "/lib/a.so");
	assert_string_equal("a.so+0x2110", symbolize_user(s, PID, LO + 0x110));
	elfcache_give_module(spaces->elfs, elf_at(s, PID, LO),
			     module_of((struct made){ "f" }));
	assert_string_equal("a.so+0x2110", symbolize_user(s, PID, LO + 0x110)); /* kept */
	spaces->n_opened++;
	assert_string_equal("f", symbolize_user(s, PID, LO + 0x110));
	assert_string_equal("f", symbolize_user(s, PID, LO + 0x110));
	own_symbolizer_destroy(s);
}

/* Code that nobody named lacks no room. */
static void no_names_of_jits(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct stats stats = { 0 };

	map_in(s, PID, LO, LEN, "//anon");
	symbolizer_limit(s, 1 << 20, 0, &stats);
	assert_string_equal("[anon]", symbolize_user(s, PID, LO));
	assert_int_equal(0, STATS_GET(&stats, nameless));
	symbolizer_limit(s, 1 << 20, 0, NULL);
	assert_string_equal("[anon]", symbolize_user(s, PID, LO));
	own_symbolizer_destroy(s);
}

/* Beyond the bound names are not told, but kinds are. */
static void no_room_for_names(void **state)
{
	struct symbolizer *s = with("/lib/a.so", (struct made){ "_PyEval_EvalFrameDefault" });
	struct stats stats = { 0 };

	symbolizer_limit(s, 0, 0, &stats);
	symbolize_user(s, PID, LO); /* the first one passes */
	assert_string_equal(symnames_unknown, symbolize_user(s, PID, LO + 0x100));
	assert_int_equal(SYMBOL_EVAL, symbolize_kind(s, PID, LO + 0x100));
	assert_int_equal(1, STATS_GET(&stats, nameless));
	own_symbolizer_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),
		cmocka_unit_test(offsets),
		cmocka_unit_test(shared_files),
		cmocka_unit_test(maps_change),
		cmocka_unit_test(names_that_come_later),
		cmocka_unit_test(names_of_files_opened_later),
		cmocka_unit_test(no_room_for_names),
		cmocka_unit_test(no_names_of_jits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
