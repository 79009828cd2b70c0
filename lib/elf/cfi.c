/* SPDX-License-Identifier: MIT
 *
 * cfi - runs call frame instructions, which become rows of unwind tables.
 *
 * Instructions: DWARF 5, 6.4.2; GNU's and the processors' own: binutils include/dwarf2.def.
 */
#include "elf/cfi.h"

#include <errno.h>

#include "base/array.h"
#include "base/base.h"

enum {
	MAX_REMEMBERED = 8,
	MAX_CIE_OPS = 1024, /* run for each function that is compiled */
	MAX_SECTION = 128 << 20,
	STATE_COSTS = 64, /* to copy a state takes as long as to look at so many bytes */
	NO_REG = 0xff,
};

enum {
	CFA_NOP = 0,
	CFA_SET_LOC = 1,
	CFA_ADVANCE_LOC1 = 2,
	CFA_ADVANCE_LOC2 = 3,
	CFA_ADVANCE_LOC4 = 4,
	CFA_OFFSET_EXTENDED = 5,
	CFA_RESTORE_EXTENDED = 6,
	CFA_UNDEFINED = 7,
	CFA_SAME_VALUE = 8,
	CFA_REGISTER = 9,
	CFA_REMEMBER_STATE = 10,
	CFA_RESTORE_STATE = 11,
	CFA_DEF_CFA = 12,
	CFA_DEF_CFA_REGISTER = 13,
	CFA_DEF_CFA_OFFSET = 14,
	CFA_DEF_CFA_EXPRESSION = 15,
	CFA_EXPRESSION = 16,
	CFA_OFFSET_EXTENDED_SF = 17,
	CFA_DEF_CFA_SF = 18,
	CFA_DEF_CFA_OFFSET_SF = 19,
	CFA_VAL_OFFSET = 20,
	CFA_VAL_OFFSET_SF = 21,
	CFA_VAL_EXPRESSION = 22,
	CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
	CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
	/* With an operand in the lower six bits. */
	CFA_ADVANCE_LOC = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
};

struct run {
	struct unwind_maker *m;
	struct frames_cie cie;
	struct cursor c;
	uint64_t ops_at; /* address of c.b */
	struct unwind_state s, initial;
	struct unwind_state remembered[MAX_REMEMBERED];
	unsigned n_remembered;
	/* Of an FDE; a CIE has none and makes no rows. */
	bool rows;
	uint64_t pc, hi;
};

static void set_slot(struct run *r, uint64_t reg, enum unwind_how how, int64_t off,
		     struct bytes expr)
{
	if (reg >= r->m->arch->n_dwarf)
		return; /* vector registers and the like */
	r->s.slot[reg] = (struct unwind_state_slot){ how, off, expr };
	if (how == HOW_SAME)
		r->s.set &= ~((uint64_t)1 << reg);
	else
		r->s.set |= (uint64_t)1 << reg;
}

static void set_offset(struct run *r, uint64_t reg, enum unwind_how how, int64_t factored)
{
	int64_t off;

	if (__builtin_mul_overflow(factored, r->cie.data_align, &off))
		r->c.bad = true;
	set_slot(r, reg, how, off, (struct bytes){ 0 });
}

static void set_restore(struct run *r, uint64_t reg)
{
	if (reg < r->m->arch->n_dwarf)
		set_slot(r, reg, r->initial.slot[reg].how, r->initial.slot[reg].off,
			 r->initial.slot[reg].expr);
}

static void set_cfa(struct run *r, uint64_t reg, int64_t off)
{
	r->s.cfa_reg = (uint8_t)MIN(reg, NO_REG);
	r->s.cfa_off = off;
	r->s.cfa_expr.at = NULL;
}

static int64_t take_factored(struct run *r)
{
	int64_t off;

	if (__builtin_mul_overflow(cursor_sleb(&r->c), r->cie.data_align, &off))
		r->c.bad = true;
	return off;
}

/* What was set so far holds up to @to. False: at the function's end. */
static bool advance_to(struct run *r, uint64_t to)
{
	r->c.bad |= to < r->pc;
	if (!r->rows || r->c.bad)
		return !r->c.bad;
	if (to > r->pc)
		unwind_maker_row(r->m, r->pc, &r->s);
	r->pc = to;
	return to < r->hi;
}

static bool advance(struct run *r, uint64_t by)
{
	uint64_t to;

	if (__builtin_mul_overflow(by, r->cie.code_align, &by) ||
	    __builtin_add_overflow(r->pc, by, &to))
		to = UINT64_MAX;
	return advance_to(r, to);
}

static void remember(struct run *r)
{
	unwind_maker_spend(r->m, STATE_COSTS);
	if (r->n_remembered < MAX_REMEMBERED)
		r->remembered[r->n_remembered++] = r->s;
	else
		r->c.bad = true;
}

static void restore(struct run *r)
{
	unwind_maker_spend(r->m, STATE_COSTS);
	if (r->n_remembered)
		r->s = r->remembered[--r->n_remembered];
	else
		r->c.bad = true;
}

static struct bytes take_block(struct run *r)
{
	return cursor_window(&r->c, cursor_uleb(&r->c));
}

/* Instructions that say where a register is. False: @op is none of them. */
static bool run_register(struct run *r, unsigned op)
{
	uint64_t reg;

	if (op == CFA_NOP || op > CFA_GNU_NEGATIVE_OFFSET_EXTENDED)
		return false;
	switch (op) {
	case CFA_OFFSET_EXTENDED:
		reg = cursor_uleb(&r->c);
		set_offset(r, reg, HOW_AT, (int64_t)cursor_uleb(&r->c));
		return true;
	case CFA_OFFSET_EXTENDED_SF:
		reg = cursor_uleb(&r->c);
		set_offset(r, reg, HOW_AT, cursor_sleb(&r->c));
		return true;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		reg = cursor_uleb(&r->c);
		set_offset(r, reg, HOW_AT, (int64_t)-cursor_uleb(&r->c));
		return true;
	case CFA_VAL_OFFSET:
		reg = cursor_uleb(&r->c);
		set_offset(r, reg, HOW_VALUE, (int64_t)cursor_uleb(&r->c));
		return true;
	case CFA_VAL_OFFSET_SF:
		reg = cursor_uleb(&r->c);
		set_offset(r, reg, HOW_VALUE, cursor_sleb(&r->c));
		return true;
	case CFA_RESTORE_EXTENDED:
		set_restore(r, cursor_uleb(&r->c));
		return true;
	case CFA_UNDEFINED:
		set_slot(r, cursor_uleb(&r->c), HOW_LOST, 0, (struct bytes){ 0 });
		return true;
	case CFA_SAME_VALUE:
		set_slot(r, cursor_uleb(&r->c), HOW_SAME, 0, (struct bytes){ 0 });
		return true;
	case CFA_REGISTER:
		reg = cursor_uleb(&r->c);
		set_slot(r, reg, HOW_REG, (int64_t)cursor_uleb(&r->c), (struct bytes){ 0 });
		return true;
	case CFA_EXPRESSION:
		reg = cursor_uleb(&r->c);
		set_slot(r, reg, HOW_AT_EXPR, 0, take_block(r));
		return true;
	case CFA_VAL_EXPRESSION:
		reg = cursor_uleb(&r->c);
		set_slot(r, reg, HOW_EXPR, 0, take_block(r));
		return true;
	default:
		return false;
	}
}

/* Instructions that say what the CFA is, and the rest. */
static void run_other(struct run *r, unsigned op)
{
	uint64_t reg;

	switch (op) {
	case CFA_DEF_CFA:
		reg = cursor_uleb(&r->c);
		set_cfa(r, reg, (int64_t)cursor_uleb(&r->c));
		break;
	case CFA_DEF_CFA_SF:
		reg = cursor_uleb(&r->c);
		set_cfa(r, reg, take_factored(r));
		break;
	case CFA_DEF_CFA_REGISTER:
		set_cfa(r, cursor_uleb(&r->c), r->s.cfa_off);
		break;
	case CFA_DEF_CFA_OFFSET:
		r->s.cfa_off = (int64_t)cursor_uleb(&r->c);
		break;
	case CFA_DEF_CFA_OFFSET_SF:
		r->s.cfa_off = take_factored(r);
		break;
	case CFA_DEF_CFA_EXPRESSION:
		r->s.cfa_expr = take_block(r);
		break;
	case CFA_REMEMBER_STATE:
		remember(r);
		break;
	case CFA_RESTORE_STATE:
		restore(r);
		break;
	case CFA_GNU_ARGS_SIZE:
		cursor_uleb(&r->c);
		break;
	case CFA_NOP:
	case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC: /* any address may be signed */
	case CFA_AARCH64_NEGATE_RA_STATE:
		break;
	default:
		r->c.bad = true;
	}
}

/* One instruction. False: what follows is behind the function's end, or damaged. */
static bool run_one(struct run *r)
{
	unsigned op = cursor_u8(&r->c), low = op & 0x3f;

	switch (op & 0xc0) {
	case CFA_ADVANCE_LOC:
		return advance(r, low);
	case CFA_OFFSET:
		set_offset(r, low, HOW_AT, (int64_t)cursor_uleb(&r->c));
		break;
	case CFA_RESTORE:
		set_restore(r, low);
		break;
	default:
		switch (op) {
		case CFA_SET_LOC:
			return advance_to(r, frames_address(&r->c, r->cie.enc, r->ops_at));
		case CFA_ADVANCE_LOC1:
			return advance(r, cursor_u8(&r->c));
		case CFA_ADVANCE_LOC2:
			return advance(r, cursor_u16(&r->c));
		case CFA_ADVANCE_LOC4:
			return advance(r, cursor_u32(&r->c));
		}
		if (!run_register(r, op))
			run_other(r, op);
	}
	return !r->c.bad;
}

/* All instructions, as long as there is work left for them. */
static void run_all(struct run *r)
{
	size_t at;

	do
		at = r->c.at;
	while (at < r->c.b.n && run_one(r) && unwind_maker_spend(r->m, r->c.at - at));
}

/* What holds at the begin of each function of this CIE. */
static int run_cie(struct run *r)
{
	const struct frames_cie *cie = &r->cie;

	memset(&r->s, 0, sizeof(r->s));
	r->s.cfa_reg = NO_REG;
	r->s.flags = cie->signal ? RULE_SIGNAL : 0;
	r->c = (struct cursor){ .b = cie->ops };
	r->rows = false;
	r->n_remembered = 0;
	r->initial = r->s;
	if (cie->ra != r->m->arch->dwarf_ra || cie->ops.n > MAX_CIE_OPS)
		return -EBADMSG;
	run_all(r);
	r->initial = r->s;
	return r->c.bad ? -EBADMSG : 0;
}

static void run_fde(struct run *r, const struct frames_fde *fde, uint64_t hi)
{
	r->s = r->initial;
	r->c = (struct cursor){ .b = fde->ops };
	r->ops_at = fde->ops_at;
	r->pc = fde->lo;
	r->hi = hi;
	r->n_remembered = 0;
	r->rows = true;
	run_all(r);
	if (r->c.bad)
		unwind_maker_gap(r->m, r->pc);
	else if (r->pc < r->hi)
		unwind_maker_row(r->m, r->pc, &r->s);
}

/* ---- Functions ---- */

struct functions {
	struct rows_function *f;
	size_t n, cap;
	uint64_t base;
};

/* Address 0: the linker threw the function away. */
static int functions_push(struct functions *all, uint64_t lo, uint64_t hi, size_t record,
			  enum rows_from from)
{
	uint64_t x = lo - all->base;

	if (lo == 0 || lo < all->base || hi <= lo || x >= UINT32_MAX)
		return 0;
	if (!array_reserve(&all->f, &all->cap, all->n + 1, sizeof(*all->f)))
		return -ENOMEM;
	all->f[all->n++] = (struct rows_function){
		.lo = (uint32_t)x,
		.hi = (uint32_t)MIN(hi - all->base, UINT32_MAX),
		.record = (uint32_t)record,
		.from = from,
	};
	return 0;
}

static int functions_add(struct functions *all, const struct frames_section *s)
{
	enum rows_from from = s->debug ? ROWS_DEBUG : ROWS_EH;
	struct frames_cie cie = { .at = SIZE_MAX };
	struct frames_record rec;
	int bad = 0, r = 0;

	if (s->b.n > MAX_SECTION)
		return -E2BIG;
	for (size_t at = 0; r == 0 && frames_record(&rec, s, at) == 0; at = rec.end) {
		struct frames_fde fde;

		if (rec.is_cie)
			continue;
		if (cie.at != rec.cie)
			bad = frames_cie(&cie, s, rec.cie);
		if (!bad && frames_fde(&fde, s, &rec, &cie) == 0)
			r = functions_push(all, fde.lo, fde.lo + fde.size, at, from);
	}
	return r;
}

static int function_cmp(const void *a, const void *b)
{
	const struct rows_function *x = a, *y = b;

	return COMPARE(x->lo, y->lo) ?: COMPARE(x->from, y->from) ?: COMPARE(x->record, y->record);
}

/* By address, one for each, none reaching into the next. */
static void functions_tidy(struct functions *all)
{
	size_t k = 0;

	for (size_t i = 1; i < all->n; i++) {
		if (function_cmp(&all->f[i - 1], &all->f[i]) > 0) {
			qsort(all->f, all->n, sizeof(*all->f), function_cmp);
			break;
		}
	}
	for (size_t i = 0; i < all->n; i++)
		if (k == 0 || all->f[k - 1].lo != all->f[i].lo)
			all->f[k++] = all->f[i];
	all->n = k;
	for (size_t i = 1; i < k; i++)
		all->f[i - 1].hi = MIN(all->f[i - 1].hi, all->f[i].lo);
}

/* True: a section tells what holds at @at. */
static bool functions_told(const struct functions *all, uint64_t at)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->f[i].lo <= at - all->base && at - all->base < all->f[i].hi)
			return true;
	return false;
}

/* What no section tells. Unwinders look sigreturn up by the address before. */
static int functions_add_known(struct functions *all, const struct arch *arch,
			       const struct unwind_source *s)
{
	uint64_t end = s->sigreturn + sizeof(arch->sigreturn);
	int r = 0;

	if (s->plt_lo && !functions_told(all, s->plt_lo))
		r = functions_push(all, s->plt_lo, s->plt_hi, s->plt_plain, ROWS_PLT);
	if (r == 0 && s->sigreturn)
		r = functions_push(all, s->sigreturn - 4, end, 0, ROWS_SIGRETURN);
	return r;
}

int cfi_functions(struct rows_function **ret, size_t *n, const struct arch *arch,
		  const struct unwind_source *s)
{
	struct functions all = { .base = s->base };
	int r = functions_add(&all, &s->eh);

	if (r == 0)
		r = functions_add(&all, &s->debug);
	if (r == 0)
		r = functions_add_known(&all, arch, s);
	if (r < 0) {
		free(all.f);
		return r;
	}
	functions_tidy(&all);
	*ret = all.f;
	*n = all.n;
	return 0;
}

static void compile_record(struct unwind_maker *m, const struct unwind_source *source,
			   const struct rows_function *f)
{
	const struct frames_section *s = f->from == ROWS_DEBUG ? &source->debug : &source->eh;
	struct run r = { .m = m };
	struct frames_record rec;
	struct frames_fde fde;

	if (frames_record(&rec, s, f->record) < 0 || frames_cie(&r.cie, s, rec.cie) < 0 ||
	    run_cie(&r) < 0 || frames_fde(&fde, s, &rec, &r.cie) < 0)
		unwind_maker_gap(m, m->t->base + f->lo);
	else
		run_fde(&r, &fde, m->t->base + f->hi);
}

int cfi_compile(struct unwind_table **ret, const struct arch *arch,
		const struct unwind_source *s, const struct rows_function *f, size_t *left)
{
	struct unwind_maker m;
	int r = unwind_maker_init(&m, arch, s->base);

	if (!m.t)
		return r;
	m.left = *left;
	if (f->from == ROWS_PLT)
		unwind_maker_plt(&m, s->base + f->lo, s->base + f->hi, f->record);
	else if (f->from == ROWS_SIGRETURN)
		unwind_maker_sigreturn(&m, s->base + f->lo);
	else
		compile_record(&m, s, f);
	*left = m.left;
	return unwind_maker_done(&m, ret);
}
