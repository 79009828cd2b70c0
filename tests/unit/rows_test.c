/* SPDX-License-Identifier: MIT
 *
 * rows_test - unwind information drawn at random, as any compiler might write it, and damaged:
 * the rows of each address are what a plain reading of the instructions says.
 */
#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>

#include "unit.h"
#include "elf/cfi.h"

#include "rows_records.inc.h"

enum { ROUNDS = 400 };

/* ---- What must come of it ---- */

static bool is_better(const struct function *a, const struct function *b)
{
	return a->from != b->from ? a->from < b->from : a->order < b->order;
}

/* The function whose rules hold at @pc, or NULL. */
static const struct function *function_of(const struct world *w, uint64_t pc)
{
	const struct function *f = NULL;
	uint64_t next = UINT64_MAX, hi;

	for (unsigned i = 0; i < w->n; i++) {
		const struct function *g = &w->f[i];

		if (g->lo > pc)
			next = MIN(next, g->lo);
		else if (!f || g->lo > f->lo || (g->lo == f->lo && is_better(g, f)))
			f = g;
	}
	if (!f)
		return NULL;
	hi = MIN(f->hi, next);
	return pc < hi || (next != UINT64_MAX && next - hi <= MAX_PADDING) ? f : NULL;
}

static const struct rule *rule_of(const struct world *w, const struct function *f, uint64_t pc)
{
	const struct rule *r = NULL;
	uint64_t end = f->hi;

	for (unsigned i = 0; i < w->n; i++) /* what lies behind the next one's begin is its */
		if (w->f[i].lo > f->lo)
			end = MIN(end, w->f[i].lo);
	for (unsigned i = 0; i < f->n; i++)
		if (f->said[i].at <= pc && (i == 0 || f->said[i].at < end))
			r = &f->said[i].rule;
	return r;
}

static bool fits(int64_t v)
{
	return v >= INT32_MIN && v <= INT32_MAX;
}

static bool is_kept(struct bytes expr)
{
	return expr.n > 0 && expr.n <= MAX_EXPR;
}

/* Is a register's place one that a caller may want? What lies below the stack pointer is gone,
 * and what callees may change is of interest only where a signal came. */
static bool is_wanted(const struct arch *a, const struct rule *r, unsigned reg)
{
	const struct place *p = &r->reg[reg];
	bool first = reg == a->dwarf_ra || reg == a->dwarf_fp;

	if (p->how == HOW_SAME)
		return false;
	if (p->how == HOW_AT && !r->cfa_expr.at && r->cfa_reg == a->dwarf_sp &&
	    reg != a->dwarf_ra && r->cfa_off + p->off < 0)
		return false;
	return first || r->signal || a->dwarf_saved >> reg & 1;
}

static void check_expr(const struct unwind_table *t, int32_t at, size_t n, struct bytes want)
{
	assert_int_equal(want.n, n);
	assert_true(at >= 0 && (size_t)at + n <= t->n_exprs);
	assert_memory_equal(want.at, t->exprs + at, want.n);
}

static void check_slot(const struct unwind_table *t, const struct unwind_slot *s,
		       const struct place *want)
{
	bool expr = want->how == HOW_AT_EXPR || want->how == HOW_EXPR;

	if (expr ? !is_kept(want->expr) : !fits(want->off)) {
		assert_int_equal(HOW_LOST, s->how);
		return;
	}
	assert_int_equal(want->how, s->how);
	if (expr)
		check_expr(t, s->off, s->n, want->expr);
	else
		assert_int_equal(want->off, s->off);
}

static void check_slots(const struct arch *a, const struct unwind_table *t,
			const struct unwind_rule *r, const struct rule *want)
{
	unsigned n = 0, first = 0;
	bool slow = false;

	for (unsigned reg = 0; reg < ARRAY_SIZE(want->reg); reg++) {
		unsigned i = 0;

		if (!is_wanted(a, want, reg))
			continue;
		while (i < r->n && r->slot[i].reg != reg)
			i++;
		assert_true(i < r->n);
		check_slot(t, &r->slot[i], &want->reg[reg]);
		slow |= r->slot[i].how != HOW_AT;
		n++;
		if (reg == a->dwarf_ra || reg == a->dwarf_fp) {
			assert_true(i < r->n_first);
			first++;
		}
	}
	assert_int_equal(n, r->n);
	assert_int_equal(first, r->n_first);
	if (is_wanted(a, want, a->dwarf_ra))
		assert_int_equal(a->dwarf_ra, r->slot[0].reg);
	assert_int_equal((slow ? RULE_SLOW : 0) | (want->signal ? RULE_SIGNAL : 0) |
				 (want->cfa_expr.at ? RULE_EXPR : 0),
			 r->flags);
}

static void check_rule(const struct arch *a, const struct unwind_table *t,
		       const struct unwind_rule *r, const struct rule *want)
{
	if (!want->gap && want->reg[a->dwarf_ra].how == HOW_LOST) {
		assert_int_equal(RULE_BOTTOM, r->flags);
		assert_int_equal(0, r->n);
		return;
	}
	if (want->gap || (want->cfa_expr.at ? !is_kept(want->cfa_expr) :
					      !fits(want->cfa_off) ||
						      want->cfa_reg >= a->n_dwarf)) {
		assert_int_equal(RULE_NONE, r->flags);
		return;
	}
	if (want->cfa_expr.at) {
		check_expr(t, r->cfa_off, r->n_expr, want->cfa_expr);
	} else {
		assert_int_equal(want->cfa_reg, r->cfa_reg);
		assert_int_equal(want->cfa_off, r->cfa_off);
	}
	check_slots(a, t, r, want);
}

static size_t words_of(const struct unwind_rule *r)
{
	return (sizeof(*r) + r->n * sizeof(r->slot[0])) / 8;
}

/* Rows rise, and none says again what holds; rules that do not differ are kept once. */
static void check_table(const struct unwind_table *t)
{
	size_t words = 2;

	for (size_t i = 0; i < t->n_rows; i++) {
		const struct unwind_rule *r = unwind_row_rule(t, &t->row[i]);
		size_t before = 0, n = words_of(r);

		assert_true(i == 0 || t->row[i - 1].pc < t->row[i].pc);
		assert_true(i == 0 || t->row[i - 1].rule != t->row[i].rule);
		while (before < i && t->row[before].rule != t->row[i].rule)
			before++;
		if (before == i && !(r->flags & RULE_NONE))
			words += n;
		for (size_t j = 0; j < i; j++) {
			const struct unwind_rule *other = unwind_row_rule(t, &t->row[j]);

			assert_true(t->row[i].rule == t->row[j].rule ||
				    words_of(other) != n || memcmp(other, r, 8 * n));
		}
	}
	assert_int_equal(words, t->n_words);
	assert_int_equal(t->bytes, sizeof(*t) + t->n_rows * sizeof(*t->row) +
					   t->n_words * sizeof(*t->rules) + t->n_exprs);
}

static void check_world(const struct world *w, struct rows *rows)
{
	const struct unwind_table *last = NULL;

	for (uint64_t pc = w->base - 32; pc < w->base + SPAN + SPAN / 4; pc++) {
		const struct function *f = pc >= w->base ? function_of(w, pc) : NULL;
		size_t before = rows->bytes;
		const struct unwind_table *t = rows_at(rows, pc);
		const struct unwind_row *row = t ? unwind_table_row(t, pc) : NULL;

		assert_true(!f == !t);
		if (!f)
			continue;
		if (t != last) {
			check_table(t);
			assert_int_equal(before + t->bytes, rows->bytes);
		} else {
			assert_int_equal(before, rows->bytes);
		}
		if (t != last)
			assert_null(unwind_table_row(t, t->base + t->row->pc - 1));
		assert_null(unwind_table_row(t, pc + UINT32_MAX + 1ull));
		last = t;
		assert_non_null(row);
		check_rule(w->arch, t, unwind_row_rule(t, row), rule_of(w, f, pc));
	}
}

static struct bytes bytes_of(const struct text *t)
{
	unsigned char *p = malloc(MAX(t->n, 1));

	assert_non_null(p);
	memcpy(p, t->b, t->n);
	return (struct bytes){ t->n ? p : (free(p), NULL), t->n };
}

static void one_round(const struct arch *arch, struct world *w, struct text *eh,
		      struct text *debug)
{
	struct unwind_source s = { .debug.debug = true };
	struct rows *rows;

	memset(w, 0, sizeof(*w));
	w->arch = arch;
	w->base = any(4) ? 0x1000 : 0x7000;
	s.base = w->base;
	eh->n = debug->n = 0;
	eh->at = s.eh.at = any(2) ? 0x100 : 0x40000;
	debug->at = s.debug.at = 0;
	debug->debug = true;
	draw_section(w, eh, any(MAX_FUNCTIONS));
	if (any(2))
		draw_section(w, debug, any(MAX_FUNCTIONS));
	if (any(2))
		draw_known(w, &s);
	/* What stands behind a section's end, or behind damage, counts for nothing. */
	if (any(2)) {
		unsigned n = w->n;

		put_number(eh, any(2) ? 0 : 0x7fffff00, 4);
		draw_section(w, eh, 2);
		w->n = n;
	}
	s.eh.b = bytes_of(eh);
	s.debug.b = bytes_of(debug);
	assert_int_equal(0, rows_make(&rows, arch, &s));
	check_world(w, rows);
	rows_put(rows);
}

static void any_rows(void **state)
{
	static const struct arch *const archs[] = { &arch_x86_64, &arch_aarch64,
						    &arch_riscv64 };
	struct world *w = malloc(sizeof(*w));
	struct text *eh = calloc(2, sizeof(*eh));

	for (int round = 0; round < ROUNDS; round++)
		one_round(archs[round % 3], w, &eh[0], &eh[1]);
	free(eh);
	free(w);
}

/* ---- Sections by hand ---- */

/* As many functions as there are sizes, of cfa = rsp + 8 and what @op says. */
static struct bytes plain_section(const uint64_t (*function)[2], unsigned n, char op)
{
	static const char cie[] = "\x14\0\0\0\0\0\0\0\x01\0\x01\x78\x10\x0c\x07\x08\x90\x01\0\0\0\0\0";
	struct text *t = calloc(1, sizeof(*t));
	struct bytes ret;

	put(t, cie, 24);
	for (unsigned i = 0; i < n; i++) {
		put_number(t, 4 + 16 + 4, 4);
		put_number(t, t->n, 4);
		put(t, function[i], 16);
		put_number(t, 0x0e | (unsigned)op << 8, 4);
	}
	ret = bytes_of(t);
	free(t);
	return ret;
}

static const uint64_t two[][2] = { { 0x2000, 0x10 }, { 0x2010, 0x30 } };

static struct rows *plain_rows(unsigned n, char op)
{
	struct unwind_source s = { .debug.debug = true, .base = 0x1000 };
	struct rows *rows;

	s.eh.b = plain_section(two, n, op);
	s.debug.b = plain_section(two, 1, 32);
	assert_int_equal(0, rows_make(&rows, &arch_x86_64, &s));
	assert_null(s.eh.b.at);
	assert_null(s.debug.b.at);
	return rows;
}

/* Of two rows at an address the last one counts, and is the only one. */
static void rows_of_one_address(void **state)
{
	struct unwind_table *t;
	struct unwind_maker m;

	assert_int_equal(0, unwind_maker_init(&m, &arch_aarch64, 0x1000));
	unwind_maker_plt(&m, 0x2000, 0x3000, false);
	unwind_maker_plt(&m, 0x2000, 0x3000, false);
	assert_int_equal(1, m.t->n_rows);
	unwind_maker_gap(&m, 0x2000);
	unwind_maker_plt(&m, 0x2010, 0x3000, false);
	unwind_maker_plt(&m, 0x2020, 0x3000, false); /* what holds already */
	unwind_maker_plt(&m, 0x1fff, 0x3000, false); /* what lies before is no row */
	assert_int_equal(0, unwind_maker_done(&m, &t));
	assert_int_equal(2, t->n_rows);
	assert_int_equal(RULE_NONE, unwind_row_rule(t, &t->row[0])->flags);
	assert_int_equal(0x1010, t->row[1].pc);
	unwind_table_free(t);
}

/* A stub of x86-64 pushes a word before its last jump. */
static void rows_of_stubs_that_push(void **state)
{
	static const uint32_t at[] = { 0x1000, 0x100b, 0x1010, 0x101b, 0x1020, 0x102b };
	struct unwind_table *t;
	struct unwind_maker m;

	assert_int_equal(0, unwind_maker_init(&m, &arch_x86_64, 0x1000));
	unwind_maker_plt(&m, 0x2000, 0x2030, false);
	assert_int_equal(0, unwind_maker_done(&m, &t));
	assert_int_equal(ARRAY_SIZE(at), t->n_rows);
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct unwind_rule *r = unwind_row_rule(t, &t->row[i]);

		assert_int_equal(at[i], t->row[i].pc);
		assert_int_equal(arch_x86_64.dwarf_sp, r->cfa_reg);
		assert_int_equal(i % 2 ? 16 : 8, r->cfa_off);
		assert_int_equal(1, r->n);
		assert_int_equal(arch_x86_64.dwarf_ra, r->slot[0].reg);
		assert_int_equal(HOW_AT, r->slot[0].how);
		assert_int_equal(-8, r->slot[0].off);
	}
	unwind_table_free(t);
}

/* Others leave the stack as it is from their first byte to their last. */
static void rows_of_plain_stubs(void **state)
{
	const struct unwind_rule *r;
	struct unwind_table *t;
	struct unwind_maker m;

	assert_int_equal(0, unwind_maker_init(&m, &arch_x86_64, 0x1000));
	unwind_maker_plt(&m, 0x2000, 0x2030, true);
	assert_int_equal(0, unwind_maker_done(&m, &t));
	assert_int_equal(1, t->n_rows);
	assert_int_equal(0x1000, t->row[0].pc);
	r = unwind_row_rule(t, &t->row[0]);
	assert_int_equal(8, r->cfa_off);
	assert_int_equal(-8, r->slot[0].off);
	unwind_table_free(t);
}

/* However many rules there are, one that was there already takes no room. */
static void rules_are_kept_once(void **state)
{
	enum { RULES = 200 };
	struct unwind_state rule = { .cfa_reg = 7 };
	struct unwind_maker m;
	uint64_t at = 0x2000;
	size_t words = 0;

	assert_int_equal(0, unwind_maker_init(&m, &arch_x86_64, 0x1000));
	for (int again = 0; again < 2; again++) {
		for (int i = 1; i <= RULES; i++, at += 4) {
			rule.cfa_off = 8 * i;
			unwind_maker_row(&m, at, &rule);
		}
		words = again ? words : m.t->n_words;
		assert_int_equal(words, m.t->n_words);
	}
	assert_int_equal(2 * RULES, m.t->n_rows);
	unwind_maker_abort(&m);
}

/* A table that would take too much memory is not made. */
static void too_many_rows(void **state)
{
	struct unwind_state rule = { .cfa_reg = 7 };
	struct unwind_table *t = NULL;
	struct unwind_maker m;

	assert_int_equal(0, unwind_maker_init(&m, &arch_x86_64, 0x1000));
	for (uint64_t at = 0x2000; !m.error && at < 0x2000 + (4 << 20); at++) {
		rule.cfa_off = 8 + 8 * (at & 1);
		unwind_maker_row(&m, at, &rule);
	}
	assert_int_equal(-E2BIG, unwind_maker_done(&m, &t));
	assert_null(t);
}

/* What the instructions of one function do over and over. */
enum over { ADVANCE, ADVANCE_EXPRS, ADVANCE_BYTES, REMEMBER, N_OVER };

enum { OVER_LO = 0x2000, OVER_HI = 0x1000000, OVER_OPS = 200000 };

static void put_over(struct text *t, enum over what)
{
	size_t bytes = what == ADVANCE_EXPRS ? 1000 : what == ADVANCE_BYTES ? 1 : 0;

	for (unsigned reg = 0; bytes && reg < arch_x86_64.n_dwarf; reg++) {
		put_number(t, 0x16 | reg << 8, 2); /* DW_CFA_val_expression */
		put_uleb(t, bytes);
		for (size_t i = 1; i < bytes; i++)
			put_byte(t, 7);
		put_byte(t, 1 + reg);
	}
	for (unsigned i = 0; i < OVER_OPS; i++)
		put_byte(t, what == REMEMBER ? 0x0a + i % 2 : 0x41);
}

/* Two functions whose callers were interrupted: one that does so, and a plain one. */
static struct rows *over_rows(enum over what)
{
	static const char cie[] = "\x14\0\0\0\0\0\0\0\x01zRS\0\x01\x78\x10\x01\0\x0c\x07\x08\0\0";
	struct unwind_source s = { .base = 0x1000 };
	struct text *t = calloc(1, sizeof(*t));
	struct rows *rows;

	put(t, cie, 24);
	for (unsigned i = 0; i < 2; i++) {
		size_t begin = begin_record(t, false);

		put_number(t, t->n, 4);
		put_number(t, i ? OVER_HI : OVER_LO, 8);
		put_number(t, OVER_HI - OVER_LO, 8);
		put_byte(t, 0);
		if (i == 0)
			put_over(t, what);
		end_record(t, begin, false);
	}
	s.eh.b = bytes_of(t);
	free(t);
	assert_int_equal(0, rows_make(&rows, &arch_x86_64, &s));
	assert_int_equal(2, rows->n);
	return rows;
}

/* Rows are made while a recording waits: all that a file may take for them is a few looks at its
 * sections. Who takes more has no rows, nor have others of that file then. */
static void too_much_work(void **state)
{
	for (enum over what = 0; what < N_OVER; what++) {
		struct rows *r = over_rows(what);
		const struct unwind_table *t = rows_at(r, OVER_LO);
		bool is_dear = what != ADVANCE;

		assert_int_equal(is_dear, t == NULL);
		assert_int_equal(is_dear, r->left == 0);
		assert_int_equal(is_dear, rows_at(r, OVER_HI) == NULL);
		assert_true(is_dear || t->n_rows == 1);
		rows_put(r);
	}
}

/* No stubs of .plt take more, however many a file says it has. */
static void too_many_stubs(void **state)
{
	for (unsigned large = 0; large < 2; large++) {
		struct unwind_source s = { .base = 0x1000, .plt_lo = 0x2000 };
		struct rows *r;

		s.plt_hi = s.plt_lo + (large ? 8 << 20 : 1 << 20);
		assert_int_equal(0, rows_make(&r, &arch_x86_64, &s));
		assert_int_equal(large, rows_at(r, 0x2000) == NULL);
		rows_put(r);
	}
}

/* A function's table that can't be made is missing, and is not tried again. */
static void failures(void **state)
{
	struct rows *r = plain_rows(2, 16);
	struct unwind_table *t = NULL;
	struct unwind_maker m;

	assert_int_equal(0, unwind_maker_init(&m, &arch_x86_64, 0x1000));
	m.error = -E2BIG;
	assert_int_equal(-E2BIG, unwind_maker_done(&m, &t));
	assert_null(t);
	r->made[0] = &r->none;
	assert_null(rows_at(r, 0x2008));
	assert_non_null(rows_at(r, 0x2018));
	assert_ptr_equal(&r->none, r->made[0]);
	rows_put(r);
}

/* What is further from the file's begin than 32 bits tell is not known. */
static void far_functions(void **state)
{
	enum { AT = 0x1000 };
	static const struct {
		uint64_t lo, size;
		bool is;
	} rows[] = {
		{ AT + (uint64_t)UINT32_MAX - 1, 0x10, true },
		{ AT + (uint64_t)UINT32_MAX, 0x10, false },
		{ AT + 8, UINT64_MAX, false },
		{ AT + 8, UINT64_MAX - AT - 8, true },
		{ AT, 1, true },
		{ AT - 1, 0x10, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const uint64_t f[][2] = { { rows[i].lo, rows[i].size } };
		struct unwind_source s = { .base = AT, .eh.b = plain_section(f, 1, 16) };
		struct rows *r;

		assert_int_equal(0, rows_make(&r, &arch_x86_64, &s));
		assert_int_equal(rows[i].is, r->n);
		assert_int_equal(rows[i].is, rows_at(r, rows[i].lo) != NULL);
		assert_null(rows_at(r, rows[i].lo - 1));
		if (rows[i].is)
			assert_int_equal(MIN(rows[i].lo + rows[i].size - AT, UINT32_MAX),
					 r->function[0].hi);
		rows_put(r);
	}
}

/* What an FDE names as its CIE is believed only if it is one: this one names the FDE before it,
 * whose bytes could be read as a CIE's. */
static void an_fde_is_no_cie(void **state)
{
	/* version 1, no augmentation, alignments 1 and -8, return address in 16; nops */
	const uint64_t lo = 0x1078010001, f[][2] = { { lo, 0x10 }, { lo + 0x100, 0x10 } };
	enum { FIRST = 24, SECOND = FIRST + 28 };

	for (int damaged = 0; damaged < 2; damaged++) {
		struct unwind_source s = { .base = lo, .eh.b = plain_section(f, 2, 16) };
		unsigned char *cie = (unsigned char *)(uintptr_t)s.eh.b.at + SECOND + 4;
		struct rows *r;

		if (damaged)
			*cie = 4 + SECOND - FIRST;
		assert_int_equal(0, rows_make(&r, &arch_x86_64, &s));
		assert_non_null(rows_at(r, lo));
		assert_int_equal(damaged ? 1 : 2, r->n);
		rows_put(r);
	}
}

static void large_sections(void **state)
{
	static const unsigned char end[8];
	enum { MOST = 128 << 20 };
	struct rows *r;

	for (int debug = 0; debug < 2; debug++)
		for (unsigned more = 0; more < 2; more++) {
			struct unwind_source s = { .debug.debug = true };
			struct frames_section *large = debug ? &s.debug : &s.eh;

			large->b = (struct bytes){ end, MOST + more };
			assert_int_equal(more ? -E2BIG : 0, rows_make(&r, &arch_x86_64, &s));
			if (more)
				continue;
			assert_int_equal(0, r->n);
			assert_null(rows_at(r, 0));
			r->source = (struct unwind_source){ 0 }; /* nothing to free */
			rows_put(r);
		}
}

static void equal_rows(void **state)
{
	struct rows *a = plain_rows(2, 16), *b = plain_rows(2, 16);
	struct rows *fewer = plain_rows(1, 16), *other = plain_rows(2, 24);
	unsigned char *debug = (void *)(uintptr_t)b->source.debug.b.at;

	assert_true(rows_equal(a, b) && rows_equal(a, a));
	assert_false(rows_equal(a, fewer) || rows_equal(fewer, a) || rows_equal(a, other));
	assert_non_null(rows_at(a, 0x2000)); /* what was asked for is no difference */
	assert_true(rows_equal(a, b));
	b->source.base++;
	assert_false(rows_equal(a, b));
	b->source.base--, b->source.id[ROWS_ID - 1]++;
	assert_false(rows_equal(a, b));
	b->source.id[ROWS_ID - 1]--, b->function[1].hi++;
	assert_false(rows_equal(a, b));
	b->function[1].hi--, b->source.eh.at++;
	assert_false(rows_equal(a, b));
	b->source.eh.at--, b->source.debug.at++;
	assert_false(rows_equal(a, b));
	b->source.debug.at--, debug[b->source.debug.b.n - 1]++;
	assert_false(rows_equal(a, b));
	debug[b->source.debug.b.n - 1]--, b->source.debug.b.n--;
	assert_false(rows_equal(a, b));
	b->source.debug.b.n++;
	assert_true(rows_equal(a, b));
	for (size_t i = 0; i < 4; i++)
		rows_put(((struct rows *[]){ a, b, fewer, other })[i]);
}

static void put_by_all(void)
{
	struct rows *r = plain_rows(2, 16);
	const struct unwind_table *t;

	assert_int_equal(1, r->refs);
	r->refs = 3;
	rows_put(r);
	t = rows_at(r, 0x2010);
	assert_non_null(t);
	rows_put(r);
	assert_ptr_equal(t, rows_at(r, 0x203f));
	assert_int_equal(1, r->refs);
	rows_put(r);
	rows_put(NULL);
}

/* The last one who has them frees them, and all that was made of them. */
static void references(void **state)
{
	size_t before = 0, after = 1;

	for (int i = 0; i < 4; i++) { /* until what malloc() keeps for itself is the same */
		before = after;
		put_by_all();
		after = mallinfo2().uordblks;
	}
	assert_int_equal(before, after);
}

/* Of another process's making. */
static void mapped_rows(void **state)
{
	enum { BYTES = 8192 };
	struct bytes eh = plain_section(two, 2, 16);
	unsigned char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rows_function *f = (void *)(map + 4096);
	struct unwind_source s = { .base = 0x1000, .eh.b = { map, eh.n } };
	const struct unwind_table *t;
	struct rows *r;

	memcpy(map, eh.at, eh.n);
	free((void *)(uintptr_t)eh.at);
	f[0] = (struct rows_function){ .lo = 0x1000, .hi = 0x1010, .record = 24 };
	f[1] = (struct rows_function){ .lo = 0x1010, .hi = 0x1040, .record = 24 + 28 };
	r = rows_of_map(&arch_x86_64, &s, f, 2, (struct bytes){ map, BYTES });
	assert_int_equal(sizeof(*r) + 2 * (sizeof(*f) + sizeof(t)) + eh.n, r->bytes);
	t = rows_at(r, 0x2010);
	assert_non_null(t);
	assert_int_equal(16, unwind_row_rule(t, t->row)->cfa_off);
	assert_ptr_equal(t, rows_at(r, 0x2010));
	assert_ptr_not_equal(t, rows_at(r, 0x200f));
	rows_put(r);
	assert_int_equal(-1, msync(map, BYTES, MS_ASYNC));
	assert_int_equal(-1, msync(map + 4096, BYTES - 4096, MS_ASYNC));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_rows),
		cmocka_unit_test(rows_of_one_address),
		cmocka_unit_test(rows_of_stubs_that_push),
		cmocka_unit_test(rows_of_plain_stubs),
		cmocka_unit_test(rules_are_kept_once),
		cmocka_unit_test(too_many_rows),
		cmocka_unit_test(too_much_work),
		cmocka_unit_test(too_many_stubs),
		cmocka_unit_test(failures),
		cmocka_unit_test(far_functions),
		cmocka_unit_test(an_fde_is_no_cie),
		cmocka_unit_test(large_sections),
		cmocka_unit_test(equal_rows),
		cmocka_unit_test(references),
		cmocka_unit_test(mapped_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
