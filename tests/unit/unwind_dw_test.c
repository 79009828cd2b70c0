/* SPDX-License-Identifier: MIT
 *
 * unwind_dw_test - every row of our tables against libdw's reading of the same file.
 *
 * Files: what is found here of the C library, libcrypto and interpreters, and those named
 * in PYSAMPLED_TEST_ELFS (colons between).
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <glob.h>

#include "unit.h"
#include "base/clock.h"
#include "../unwind_function.h"

enum { X86_64_RBX = 3 };

static const struct arch *arch; /* of the file */

struct checked {
	size_t all;
	size_t rows, popped, exprs, none;
};

static const struct unwind_slot *find_slot(const struct unwind_rule *r, unsigned reg)
{
	for (unsigned i = 0; i < r->n; i++)
		if (r->slot[i].reg == reg)
			return &r->slot[i];
	return NULL;
}

static void check_cfa(const struct unwind_rule *r, Dwarf_Frame *frame, struct checked *n)
{
	size_t n_ops = 0;
	Dwarf_Op *ops;

	assert_int_equal(0, dwarf_frame_cfa(frame, &ops, &n_ops));
	if (r->flags & RULE_EXPR) {
		assert_true(n_ops > 1 || ops[0].atom != DW_OP_bregx);
		n->exprs++;
		return;
	}
	assert_int_equal(1, n_ops);
	assert_int_equal(DW_OP_bregx, ops[0].atom);
	assert_int_equal(ops[0].number, r->cfa_reg);
	assert_int_equal((int64_t)ops[0].number2, r->cfa_off);
}

/* What lies below the stack pointer we take from the register (table.c). */
static bool is_popped(const struct unwind_rule *r, int64_t off)
{
	return !(r->flags & RULE_EXPR) && r->cfa_reg == arch->dwarf_sp && r->cfa_off + off < 0;
}

static void check_register(const struct unwind_rule *r, Dwarf_Frame *frame, unsigned reg,
			   struct checked *n)
{
	const struct unwind_slot *s = find_slot(r, reg);
	Dwarf_Op mem[3], *ops;
	size_t n_ops;
	int64_t off;

	assert_int_equal(0, dwarf_frame_register(frame, (int)reg, mem, &ops, &n_ops));
	if (n_ops == 0 && ops == NULL) { /* same value */
		assert_null(s);
	} else if (n_ops == 0) { /* undefined */
		if (arch == &arch_x86_64 && reg == X86_64_RBX && !s)
			return; /* where nothing is said libdw keeps rax, meaning rbx */
		assert_true(s ? s->how == HOW_LOST : r->flags & RULE_BOTTOM);
	} else if (ops[0].atom == DW_OP_call_frame_cfa &&
		   (n_ops == 1 || (n_ops == 2 && ops[1].atom == DW_OP_plus_uconst))) {
		off = n_ops == 2 ? (int64_t)ops[1].number : 0;
		if (!s && is_popped(r, off)) {
			n->popped++;
			return;
		}
		assert_non_null(s);
		assert_int_equal(HOW_AT, s->how);
		assert_int_equal(off, s->off);
	} else {
		assert_non_null(s);
		assert_int_not_equal(HOW_AT, s->how);
		n->exprs++;
	}
}

/* @padding: @pc may lie behind its function, whose rule padding takes over, or among stubs of
 * .plt that have none. */
static void check_address(struct rows *rows, Dwarf_CFI *cfi, uint64_t pc, bool padding,
			  struct checked *n)
{
	const struct unwind_table *t;
	const struct unwind_row *row = row_at(rows, pc, &t);
	const struct unwind_rule *r = unwind_row_rule(t, row);
	Dwarf_Frame *frame = NULL;
	Dwarf_Op mem[3], *ops;
	size_t n_ops;

	if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0) {
		assert_true(padding);
		n->none++;
		return;
	}
	assert_false(r->flags & RULE_NONE);
	n->rows++;
	if (r->flags & RULE_BOTTOM) {
		assert_int_equal(
			0, dwarf_frame_register(frame, arch->dwarf_ra, mem, &ops, &n_ops));
		assert_true(n_ops == 0 && ops != NULL);
	} else {
		check_cfa(r, frame, n);
		check_register(r, frame, arch->dwarf_ra, n);
		for (unsigned reg = 0; reg < arch->n_dwarf; reg++)
			if (arch->dwarf_saved >> reg & 1 && reg != arch->dwarf_sp)
				check_register(r, frame, reg, n);
	}
	free(frame);
}

/* Every function of .eh_frame_hdr begins a row. */
static void check_functions(struct rows *rows, int fd)
{
	struct module e;
	uint64_t start = 0, end = 0;

	assert_int_equal(0, module_read(&e, fd, (struct bytes){ 0 }, NULL, false));
	assert_true(e.n_funcs > 0);
	for (size_t i = 0; i < e.n_funcs; i++) {
		assert_true(rows_function(rows, e.base + e.func[i].start, &start, &end));
		assert_int_equal(e.base + e.func[i].start, start);
		assert_true(end - start >= e.func[i].size);
	}
	module_deinit(&e);
}

/* Each row of a function, and that there is nothing behind it where we have nothing. */
static void check_function(struct rows *rows, const struct rows_function *f, Dwarf_CFI *cfi,
			   struct checked *n)
{
	const struct unwind_table *t = rows_at(rows, rows->source.base + f->lo);
	uint64_t base = rows->source.base, end = base + f->hi;
	Dwarf_Frame *frame;

	assert_non_null(t);
	for (size_t i = 0; i < t->n_rows; i++) {
		uint64_t from = base + t->row[i].pc,
			 to = i + 1 < t->n_rows ? base + t->row[i + 1].pc : end;

		if (unwind_row_rule(t, &t->row[i])->flags & RULE_NONE) {
			assert_int_not_equal(0, dwarf_cfi_addrframe(cfi, from, &frame));
			continue;
		}
		check_address(rows, cfi, from, f->from == ROWS_PLT, n);
		check_address(rows, cfi, to - 1, true, n);
	}
	n->all += t->n_rows;
	if (rows_at(rows, end))
		check_address(rows, cfi, end, true, n);
	else
		assert_int_not_equal(0, dwarf_cfi_addrframe(cfi, end, &frame));
}

static void check_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct checked n = { 0 };
	struct unwind_source s;
	struct rows *rows;
	uint64_t start, built, theirs;
	Dwarf_CFI *cfi;
	GElf_Ehdr ehdr;
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	arch = arch_of(gelf_getehdr(elf, &ehdr)->e_machine);
	assert_int_equal(0, source_of_elf(&s, arch, fd, (struct bytes){ 0 }));
	start = now_ns();
	assert_int_equal(0, rows_make(&rows, arch, &s));
	built = now_ns() - start;
	cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	check_functions(rows, fd);
	start = now_ns();
	for (size_t i = 0; i < rows->n; i++)
		check_function(rows, &rows->function[i], cfi, &n);
	assert_true(n.all > 10);
	theirs = now_ns() - start;
	print_message(
		"%s: %zu rows, %zu addresses equal (%zu expressions, %zu popped), %zu in "
		"padding; functions found in %.1f ms, rows made and checked in %.0f\n",
		path, n.all, n.rows, n.exprs, n.popped, n.none, (double)built / 1e6,
		(double)theirs / 1e6);
	assert_true(n.rows > n.none);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	rows_put(rows);
}

static size_t check_glob(const char *pattern)
{
	glob_t g;
	size_t n = 0;

	if (glob(pattern, GLOB_TILDE, NULL, &g) == 0) {
		for (n = 0; n < g.gl_pathc; n++)
			check_file(g.gl_pathv[n]);
		globfree(&g);
	}
	return n;
}

static void check_named(const char *list)
{
	char copy[65536], *rest = NULL;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *p = strtok_r(copy, ":", &rest); p; p = strtok_r(NULL, ":", &rest))
		check_file(p);
}

static void test_files(void **state)
{
	const char *named = getenv("PYSAMPLED_TEST_ELFS"), *root = getenv("PYENV_ROOT");
	char pyenv[512];
	size_t n = 0;

	elf_version(EV_CURRENT);
	check_named(named ? named : "");
	n += check_glob("/proc/self/exe");
	n += check_glob("/lib/*-linux-gnu/libc.so.6");
	n += check_glob("/lib64/libc.so.6");
	n += check_glob("/usr/lib/*-linux-gnu/libcrypto.so.3");
	n += check_glob("/usr/bin/python3.1[1-9]");
	snprintf(pyenv, sizeof(pyenv), "%s/versions/3.1[1-3].*/lib/libpython3.1?.so.1.0",
		 root ? root : "~/.pyenv");
	n += check_glob(pyenv);
	assert_true(n >= 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_files) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
