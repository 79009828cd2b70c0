/* SPDX-License-Identifier: MIT
 *
 * rows_records - the part of rows_test.c that draws whole sections of unwind information.
 */
#include "rows_draw.inc.h"

/* What kinds of CIE no unwinder of ours reads. */
enum oddity { VERSION_2 = 1, OLD_GCC, LETTER, LONG, SEGMENTS, SHORT_ADDRESSES, N_ODDITIES };

static void put_augmentation(struct text *t, struct cie *c, const char *letters, unsigned more)
{
	static const unsigned char person[] = { 0x9b, 0x03, 0x00 };
	struct text *data = calloc(1, sizeof(*data));
	unsigned kind;

	for (; *letters; letters++) {
		if (*letters == 'R') {
			put_byte(data, c->enc);
		} else if (*letters == 'P') {
			kind = any(sizeof(person));
			put_byte(data, person[kind]);
			put_number(data, any(1 << 30), kind == 2 ? 8 : 4);
		} else if (*letters == 'L') {
			put_byte(data, 0x1b);
		}
	}
	put_number(data, 0, more);
	put_uleb(t, data->n);
	put(t, data->b, data->n);
	free(data);
}

static void draw_letters(struct cie *c, char ret[16])
{
	static const unsigned char encs[] = { 0x1b, 0x00, 0x03, 0x1c, 0x0b, 0x02, 0x0c, 0x10 };
	size_t n = 0;

	c->enc = encs[any(sizeof(encs))];
	if (any(10) == 0) {
		c->sized = true;
		strcpy(ret, "zRGBGBGB"); /* no more */
		return;
	}
	c->enc = 0;
	if (any(4)) {
		c->sized = true;
		ret[n++] = 'z';
		for (const char *l = "PRLSBG"; *l; l++)
			if (any(2)) {
				ret[n++] = *l;
				c->initial.signal |= *l == 'S';
				if (*l == 'R')
					c->enc = encs[any(sizeof(encs))];
			}
	}
	ret[n] = '\0';
}

/* Its instructions; those of a damaged one are too many, or none. */
static void put_cie_ops(const struct world *w, struct text *t, struct cie *c, bool bad)
{
	struct run r = { .w = w, .t = t, .cie = c };
	size_t begin = t->n, most = MAX_CIE_OPS;
	bool whole = bad || any(50) == 0;

	r.now.signal = c->initial.signal;
	if (any(20)) {
		put_byte(t, 0x0c);
		put_uleb(t, w->arch->dwarf_sp);
		put_uleb(t, 8);
		r.now.cfa_reg = w->arch->dwarf_sp;
		r.now.cfa_off = 8;
	} else {
		r.now.cfa_reg = 0xff;
	}
	r.initial.cfa_reg = 0xff;
	draw_ops(&r, any(6), true);
	if (bad && any(2)) {
		draw_cut(&r);
		whole = bad = false;
	}
	while (whole && t->n - begin < most)
		put_byte(t, 0);
	if (bad)
		put_byte(t, 0);
	c->damaged |= r.over || t->n - begin > most;
	c->initial = r.now;
}

static struct cie draw_cie(const struct world *w, struct text *t)
{
	static const unsigned versions[] = { 1, 3, 4 };
	static const int64_t data_aligns[] = { -8, -4, 1, 4 };
	enum oddity odd = any(12) ? 0 : 1 + any(N_ODDITIES - 1);
	struct cie c = {
		.at = t->n,
		.version = odd == VERSION_2 ? 2 : odd >= SEGMENTS ? 4 : versions[any(3)],
		.code_align = 1 + any(4),
		.data_align = data_aligns[any(4)],
		.wide = any(5) == 0,
		.unreadable = odd,
	};
	unsigned ra = w->arch->dwarf_ra + (any(20) ? 0 : 1);
	size_t begin = begin_record(t, c.wide);
	char letters[16];

	put_number(t, t->debug ? UINT64_MAX : 0, c.wide ? 8 : 4);
	put_byte(t, c.version);
	draw_letters(&c, letters);
	if (odd == OLD_GCC || odd == LETTER || odd == LONG)
		strcpy(letters, odd == OLD_GCC ? "R" : odd == LETTER ? "zQ" : "zGGGGGGGG");
	put(t, letters, strlen(letters) + 1);
	if (c.version == 4) {
		put_byte(t, odd == SHORT_ADDRESSES ? 4 : 8);
		put_byte(t, odd == SEGMENTS);
	}
	put_uleb(t, c.code_align);
	put_sleb(t, c.data_align);
	if (c.version == 1)
		put_byte(t, ra);
	else
		put_uleb(t, ra);
	if (c.sized)
		put_augmentation(t, &c, letters, any(3));
	c.damaged = ra != w->arch->dwarf_ra;
	put_cie_ops(w, t, &c, any(20) == 0);
	end_record(t, begin, c.wide);
	return c;
}

static void draw_fde(struct world *w, struct text *t, const struct cie *c)
{
	uint64_t begin_at = w->base + any(SPAN), size = any(8) ? 1 + any(SPAN / 8) : any(3);
	bool wide = any(5) == 0;
	struct function *f = &w->f[w->n];
	struct run r = { .w = w, .t = t, .cie = c, .f = f };
	size_t begin = begin_record(t, wide);

	if (any(40) == 0)
		begin_at = any(2) ? 0 : w->base - 1;
	if (w->n && any(8) == 0)
		begin_at = w->f[any(w->n)].lo;
	*f = (struct function){ .lo = begin_at, .hi = begin_at + size, .order = w->n };
	f->from = t->debug ? ROWS_DEBUG : ROWS_EH;
	put_number(t, t->debug ? c->at : t->n - c->at, wide ? 8 : 4);
	put_address(t, c->enc, begin_at);
	put_address(t, c->enc & 7, size);
	if (c->sized) {
		size_t n = any(10);

		put_uleb(t, n);
		put_number(t, 0, n / 2);
		put_number(t, 0, n - n / 2);
	}
	r.now = r.initial = c->initial;
	r.pc = begin_at;
	if (c->damaged)
		damaged(&r);
	draw_ops(&r, any(25), false);
	if (!r.over && r.pc < f->hi)
		say(&r, false);
	end_record(t, begin, wide);
	/* The linker threw what is at 0 away. */
	w->n += !c->unreadable && begin_at && begin_at >= w->base && size;
}

static void draw_section(struct world *w, struct text *t, unsigned functions)
{
	struct cie cies[4];
	unsigned n = 0;

	for (; functions; functions--) {
		if (n == 0 || (n < ARRAY_SIZE(cies) && any(3) == 0)) {
			cies[n] = draw_cie(w, t);
			n++;
		}
		draw_fde(w, t, &cies[any(3) ? n - 1 : any(n)]);
	}
}

/* ---- What is known without a section ---- */

static struct function *known(struct world *w, uint64_t lo, uint64_t hi, enum rows_from from)
{
	struct function *f = &w->f[w->n++];

	*f = (struct function){ .lo = lo, .hi = hi, .from = from, .n = 1 };
	f->said[0].at = lo;
	f->said[0].rule.cfa_reg = w->arch->dwarf_sp;
	return f;
}

/* Stubs of x86-64 push a word before they jump for the second time, if they are not @plain. */
static void say_pushes(const struct arch *arch, struct function *f, bool plain)
{
	struct rule r = f->said[0].rule;

	r.reg[arch->dwarf_ra] = (struct place){ HOW_AT, -8, { 0 } };
	f->n = 0;
	for (uint64_t at = f->lo; at < f->hi; at += arch->plt_bytes) {
		r.cfa_off = 8;
		f->said[f->n].at = at;
		f->said[f->n++].rule = r;
		r.cfa_off = 16;
		if (!plain && f->hi - at > arch->plt_pushed) {
			f->said[f->n].at = at + arch->plt_pushed;
			f->said[f->n++].rule = r;
		}
	}
}

static bool is_told(const struct world *w, uint64_t at)
{
	for (unsigned i = 0; i < w->n; i++)
		if (w->f[i].lo <= at && at < w->f[i].hi)
			return true;
	return false;
}

/* Stubs of which a section tells are none of those. */
static void draw_stubs(struct world *w, struct unwind_source *s)
{
	struct function *f;

	s->plt_lo = w->base + 1 + any(SPAN);
	s->plt_hi = s->plt_lo + 1 + any(40);
	s->plt_plain = any(2);
	if (is_told(w, s->plt_lo))
		return;
	f = known(w, s->plt_lo, s->plt_hi, ROWS_PLT);
	if (w->arch->plt_bytes)
		say_pushes(w->arch, f, s->plt_plain);
}

static void draw_known(struct world *w, struct unwind_source *s)
{
	if (any(2))
		draw_stubs(w, s);
	if (any(2)) {
		struct rule *r;

		s->sigreturn = w->base + 5 + any(SPAN);
		r = &known(w, s->sigreturn - 4, s->sigreturn + 8, ROWS_SIGRETURN)->said[0].rule;
		r->signal = true;
		for (unsigned i = 0; i < MAX(w->arch->n_dwarf, w->arch->dwarf_pc + 1u); i++)
			r->reg[i] = (struct place){ HOW_AT, w->arch->sigframe + 8 * (int)i, { 0 } };
	}
}
