/* SPDX-License-Identifier: MIT
 *
 * rows_draw - the part of rows_test.c that draws instructions of unwind information, and keeps what they say.
 */
#include "any.h"

enum {
	SPAN = 0x800, /* bytes of code */
	MAX_FUNCTIONS = 24,
	MAX_SAID = 40,
	MAX_REMEMBERED = 8,
	MAX_EXPR = 1024,
	MAX_PADDING = 15,
	MAX_CIE_OPS = 1024,
};

/* ---- What instructions say ---- */

struct place {
	enum unwind_how how;
	int64_t off;
	struct bytes expr;
};

struct rule {
	bool gap, signal;
	uint64_t cfa_reg;
	int64_t cfa_off;
	struct bytes cfa_expr; /* at NULL: none */
	struct place reg[33];
};

/* Where it lies is [lo, hi), and from each address in @said on its rule holds. */
struct function {
	uint64_t lo, hi;
	enum rows_from from;
	unsigned order; /* in its section */
	struct {
		uint64_t at;
		struct rule rule;
	} said[MAX_SAID];
	unsigned n;
};

struct world {
	const struct arch *arch;
	uint64_t base;
	struct function f[2 * MAX_FUNCTIONS + 2];
	unsigned n;
};

/* ---- Bytes ---- */

struct text {
	unsigned char b[1 << 18];
	size_t n;
	uint64_t at;
	bool debug;
};

static void put(struct text *t, const void *p, size_t n)
{
	assert_true(n <= sizeof(t->b) - t->n);
	memcpy(t->b + t->n, p, n);
	t->n += n;
}

static void put_number(struct text *t, uint64_t v, size_t n)
{
	put(t, &v, n);
}

static void put_byte(struct text *t, unsigned v)
{
	put_number(t, v, 1);
}

/* Some are longer than they need be. */
static void put_uleb(struct text *t, uint64_t v)
{
	unsigned more = any(8) ? 0 : any(4);

	for (; v >= 0x80; v >>= 7)
		put_byte(t, 0x80 | (v & 0x7f));
	for (; more; more--, v = 0)
		put_byte(t, 0x80 | (unsigned)v);
	put_byte(t, (unsigned)v);
}

static void put_sleb(struct text *t, int64_t v)
{
	for (; v < -0x40 || v >= 0x40; v >>= 7)
		put_byte(t, 0x80 | (v & 0x7f));
	put_byte(t, v & 0x7f);
}

/* As its encoding wants it, where it stands. */
static void put_address(struct text *t, unsigned enc, uint64_t v)
{
	static const unsigned char size[8] = { 8, 0, 2, 4, 8 };

	put_number(t, v - ((enc & 0x70) == ENC_PCREL ? t->at + t->n : 0), size[enc & 7]);
}

static size_t begin_record(struct text *t, bool wide)
{
	if (wide)
		put_number(t, UINT32_MAX, 4);
	put_number(t, 0, wide ? 8 : 4);
	return t->n;
}

static void end_record(struct text *t, size_t begin, bool wide)
{
	size_t n = t->n - begin;

	memcpy(t->b + begin - (wide ? 8 : 4), &n, wide ? 8 : 4);
}

/* ---- Instructions ---- */

struct cie {
	size_t at;
	unsigned version, enc;
	bool sized, wide;
	uint64_t code_align;
	int64_t data_align;
	bool unreadable; /* its functions are not known */
	bool damaged;	 /* they are, without rules */
	struct rule initial;
};

/* Instructions while they are drawn. */
struct run {
	const struct world *w;
	struct text *t;
	const struct cie *cie;
	struct function *f; /* NULL: a CIE's */
	struct rule now, initial, kept[MAX_REMEMBERED];
	unsigned n_kept;
	uint64_t pc;
	bool over; /* nothing that follows counts */
};

static void say(struct run *r, bool gap)
{
	assert_true(r->f->n < MAX_SAID);
	r->f->said[r->f->n].at = r->pc;
	r->f->said[r->f->n].rule = r->now;
	r->f->said[r->f->n++].rule.gap = gap;
}

static void damaged(struct run *r)
{
	if (!r->over && r->f)
		say(r, true);
	r->over = true;
}

static struct bytes put_block(struct text *t)
{
	static unsigned char pool[MAX_EXPR + 2];
	size_t n = any(30) ? any(20) : MAX_EXPR + any(2), from = any(3);

	for (size_t i = 0; i < sizeof(pool); i++)
		pool[i] = (unsigned char)(i / 5);
	n = MIN(n, sizeof(pool) - from);
	put_uleb(t, n);
	put(t, pool + from, n);
	return (struct bytes){ pool + from, n };
}

static int64_t factored(const struct run *r, int64_t v)
{
	return v * r->cie->data_align;
}

static int64_t signed_number(void)
{
	return any(30) ? (int64_t)any(40) - 20 : (int64_t)any(3) << (28 + any(4));
}

static void draw_offset(struct run *r, uint64_t reg, struct place *p)
{
	uint64_t u = any(30) ? any(200) : (uint64_t)any(3) << (28 + any(4));
	int64_t s = signed_number();
	unsigned kind = any(6);

	if (kind == 0 && reg < 64) {
		put_byte(r->t, 0x80 | (unsigned)reg);
		put_uleb(r->t, u);
		*p = (struct place){ HOW_AT, factored(r, (int64_t)u), { 0 } };
		return;
	}
	put_byte(r->t, kind == 1 ? 0x11 : kind == 2 ? 0x2f : kind == 3 ? 0x14 :
		       kind == 4 ? 0x15 : 0x05);
	put_uleb(r->t, reg);
	if (kind == 1 || kind == 4)
		put_sleb(r->t, s);
	else
		put_uleb(r->t, u);
	p->how = kind == 3 || kind == 4 ? HOW_VALUE : HOW_AT;
	p->off = factored(r, kind == 1 || kind == 4 ? s : kind == 2 ? -(int64_t)u : (int64_t)u);
}

/* Where a register is. */
static void draw_register(struct run *r)
{
	const uint64_t of_interest[] = { r->w->arch->dwarf_ra, r->w->arch->dwarf_fp,
					 r->w->arch->n_dwarf - 1u, r->w->arch->n_dwarf };
	uint64_t reg = any(3) ? any(r->w->arch->n_dwarf) : of_interest[any(4)];
	static const unsigned char undefined_or_same[] = { 0x07, 0x08 };
	struct place p = { .how = HOW_SAME };
	unsigned kind = any(12);

	switch (kind) {
	case 0: /* DW_CFA_restore and its extended form */
	case 1:
		put_byte(r->t, kind || reg >= 64 ? 0x06 : 0xc0 | (unsigned)reg);
		if (kind || reg >= 64)
			put_uleb(r->t, reg);
		if (reg < r->w->arch->n_dwarf)
			p = r->initial.reg[reg];
		break;
	case 2:
		/* A return address that is lost is rare: the rule tells nothing else then. */
		kind = reg == r->w->arch->dwarf_ra && any(4) ? 1 : any(2);
		put_byte(r->t, undefined_or_same[kind]);
		put_uleb(r->t, reg);
		p.how = kind ? HOW_SAME : HOW_LOST;
		break;
	case 3:
		put_byte(r->t, 0x09);
		put_uleb(r->t, reg);
		p = (struct place){ HOW_REG, any(r->w->arch->n_dwarf), { 0 } };
		put_uleb(r->t, (uint64_t)p.off);
		break;
	case 4:
	case 5:
		put_byte(r->t, kind == 4 ? 0x10 : 0x16);
		put_uleb(r->t, reg);
		p = (struct place){ kind == 4 ? HOW_AT_EXPR : HOW_EXPR, 0, put_block(r->t) };
		break;
	default:
		draw_offset(r, reg, &p);
	}
	if (reg < r->w->arch->n_dwarf && !r->over)
		r->now.reg[reg] = p;
}

static void draw_cfa(struct run *r)
{
	static const unsigned char ops[] = { 0x0c, 0x12, 0x0d, 0x0e, 0x13, 0x0f };
	const uint64_t registers[] = { r->w->arch->dwarf_sp, r->w->arch->dwarf_fp,
				       r->w->arch->n_dwarf - 1u, r->w->arch->n_dwarf, 300 };
	uint64_t reg = registers[any(20) ? any(3) : any(5)];
	uint64_t off = any(30) ? any(400) : (uint64_t)any(3) << 31;
	int64_t soff = any(30) ? (int64_t)any(40) - 20 : (int64_t)any(3) << 28;
	unsigned kind = any(sizeof(ops));
	struct rule to = r->now;

	put_byte(r->t, ops[kind]);
	if (kind < 3) {
		put_uleb(r->t, reg);
		to.cfa_reg = reg;
		to.cfa_expr.at = NULL;
	}
	if (kind == 0 || kind == 3) {
		put_uleb(r->t, off);
		to.cfa_off = (int64_t)off;
	} else if (kind == 1 || kind == 4) {
		put_sleb(r->t, soff);
		to.cfa_off = factored(r, soff);
	} else if (kind == 5) {
		to.cfa_expr = put_block(r->t);
	}
	if (!r->over)
		r->now = to;
}

/* To another address, or the same one. */
static void draw_advance(struct run *r)
{
	static const unsigned char size[] = { 0, 1, 2, 4 };
	unsigned kind = any(5), by = any(6) ? any(30) : any(0x300);
	uint64_t to = r->pc + by * r->cie->code_align;

	if (kind == 0)
		by &= 0x3f;
	if (kind == 1)
		by &= 0xff;
	if (kind < 4)
		to = r->pc + by * r->cie->code_align;
	else if (any(20) == 0)
		to = r->pc - 1 - any(10);
	if (kind == 4) {
		put_byte(r->t, 0x01);
		put_address(r->t, r->cie->enc, to);
	} else {
		put_byte(r->t, kind ? 1 + kind : 0x40 | by);
		put_number(r->t, by, size[kind]);
	}
	if (r->over || !r->f)
		return;
	if (to < r->pc) {
		damaged(r);
		return;
	}
	if (to > r->pc)
		say(r, false);
	r->pc = to;
	r->over = to >= r->f->hi;
}

static void draw_remember(struct run *r)
{
	if (any(2)) {
		put_byte(r->t, 0x0a);
		if (r->over)
			return;
		if (r->n_kept == MAX_REMEMBERED)
			damaged(r);
		else
			r->kept[r->n_kept++] = r->now;
	} else if (r->n_kept || any(10) == 0) {
		put_byte(r->t, 0x0b);
		if (r->over)
			return;
		if (!r->n_kept)
			damaged(r);
		else
			r->now = r->kept[--r->n_kept];
	}
}

/* What changes nothing. */
static void draw_nothing(struct run *r)
{
	static const unsigned char ops[] = { 0x00, 0x2c, 0x2d, 0x2e };
	unsigned kind = any(sizeof(ops));

	put_byte(r->t, ops[kind]);
	if (ops[kind] == 0x2e)
		put_uleb(r->t, any(1000));
}

static void draw_unknown(struct run *r)
{
	static const unsigned char ops[] = { 0x17, 0x1c, 0x2b, 0x30, 0x3f };

	put_byte(r->t, ops[any(sizeof(ops))]);
	damaged(r);
}

/* A number that does not fit. */
static void draw_overflow(struct run *r)
{
	static const unsigned char ops[] = { 0x05, 0x11, 0x12, 0x13 };
	unsigned kind = any(sizeof(ops));

	if (r->cie->data_align == 1)
		return;
	put_byte(r->t, ops[kind]);
	if (kind < 3)
		put_uleb(r->t, r->w->arch->dwarf_sp);
	put_sleb(r->t, INT64_MAX / 2 - 1);
	damaged(r);
}

/* An operand of which a part is not there: the record's end. */
static void draw_cut(struct run *r)
{
	static const char *const ops[] = { "\x0c\x07", "\x02", "\x03\x00", "\x04\x01\x01\x01",
					   "\x0e\x80", "\x0f\x02\x30", "\x01\x00", "\x09\x03",
					   "\x16\x03\x7f", "\x2e", "\x86" };
	static const unsigned char n[] = { 2, 1, 2, 4, 2, 3, 2, 2, 3, 1, 1 };
	unsigned i = any(sizeof(n));

	put(r->t, ops[i], n[i]);
	damaged(r);
}

static void draw_ops(struct run *r, unsigned n, bool sound)
{
	for (; n; n--) {
		unsigned kind = any(100);

		if (kind < 45)
			draw_register(r);
		else if (kind < 65)
			draw_cfa(r);
		else if (kind < 85)
			draw_advance(r);
		else if (kind < 92)
			draw_remember(r);
		else if (kind < 98 || sound)
			draw_nothing(r);
		else if (any(2))
			draw_unknown(r);
		else
			draw_overflow(r);
	}
	if (!sound && any(12) == 0)
		draw_cut(r);
}
