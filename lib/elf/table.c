/* SPDX-License-Identifier: MIT */
#include "elf/table.h"
#include "base/hash.h"

#include <errno.h>

enum {
	MAX_BYTES = 16 << 20, /* of one function's table */
	MAX_EXPR = 1024,
	NO_RULE = 0, /* word of the rule of gaps */
};

void unwind_table_free(struct unwind_table *t)
{
	if (!t)
		return;
	free(t->row);
	free(t->rules);
	free(t->exprs);
	free(t);
}

const struct unwind_row *unwind_table_row(const struct unwind_table *t, uint64_t vaddr)
{
	const struct unwind_row *row = t->row;
	uint64_t x = vaddr - t->base;
	size_t n = t->n_rows;

	if (n == 0 || x > UINT32_MAX || x < row->pc)
		return NULL;
	while (n > 1) { /* without a branch to mispredict */
		size_t half = n / 2;

		row = row[half].pc <= x ? row + half : row;
		n -= half;
	}
	return row;
}

/* ---- Making ---- */

/* Room for @n more elements of @each bytes behind @used in *@at. */
static bool maker_reserve(struct unwind_maker *m, void **at, size_t *cap, size_t used,
			  size_t n, size_t each)
{
	size_t more = MAX(used + n, *cap + *cap / 2 + 16);
	void *p;

	if (m->error || used + n <= *cap)
		return !m->error;
	if (more > MAX_BYTES / each) {
		m->error = -E2BIG;
		return false;
	}
	p = reallocarray(*at, more, each);
	if (!p) {
		m->error = -ENOMEM;
		return false;
	}
	*at = p;
	*cap = more;
	return true;
}

bool unwind_maker_spend(struct unwind_maker *m, size_t n)
{
	if (!m->error && n > m->left)
		m->error = -E2BIG;
	m->left -= MIN(n, m->left);
	return !m->error;
}

/* The place of an expression; only those made last are compared. Empty and too long
 * ones can't be kept: -1. */
static int32_t maker_expr(struct unwind_maker *m, struct bytes e)
{
	struct unwind_table *t = m->t;

	if (e.n == 0 || e.n > MAX_EXPR)
		return -1;
	for (unsigned i = 0; i < MIN(m->n_recent, ARRAY_SIZE(m->recent)); i++)
		if (t->n_exprs - m->recent[i] >= e.n && unwind_maker_spend(m, e.n) &&
		    memcmp(t->exprs + m->recent[i], e.at, e.n) == 0)
			return (int32_t)m->recent[i];
	if (!maker_reserve(m, (void **)&t->exprs, &m->cap_exprs, t->n_exprs, e.n, 1))
		return -1;
	memcpy(t->exprs + t->n_exprs, e.at, e.n);
	m->recent[m->n_recent++ % ARRAY_SIZE(m->recent)] = (uint32_t)t->n_exprs;
	t->n_exprs += e.n;
	return (int32_t)(t->n_exprs - e.n);
}

static struct unwind_slot maker_slot(struct unwind_maker *m, unsigned reg,
				     const struct unwind_state_slot *from)
{
	struct unwind_slot s = { .reg = (uint8_t)reg, .how = (uint8_t)from->how };

	if (from->how == HOW_AT_EXPR || from->how == HOW_EXPR) {
		s.off = maker_expr(m, from->expr);
		s.n = (uint16_t)from->expr.n;
	} else {
		s.off = (int32_t)from->off;
		if (s.off != from->off)
			s.off = -1, s.how = HOW_AT_EXPR;
	}
	if (s.off < 0 && (s.how == HOW_AT_EXPR || s.how == HOW_EXPR))
		s = (struct unwind_slot){ .reg = (uint8_t)reg, .how = HOW_LOST };
	return s;
}

/* Compilers leave "saved at cfa - 16" behind the pop that restored the register. What
 * lies below the stack pointer is gone in a copy of the stack, and the register holds
 * the value by then. */
static bool slot_is_popped(const struct unwind_maker *m, const struct unwind_state *s,
			   unsigned reg)
{
	const struct unwind_state_slot *slot = &s->slot[reg];

	return slot->how == HOW_AT && !s->cfa_expr.at && s->cfa_reg == m->arch->dwarf_sp &&
	       reg != m->arch->dwarf_ra && s->cfa_off + slot->off < 0;
}

static void rule_push(struct unwind_maker *m, struct unwind_rule *r,
		      const struct unwind_state *s, unsigned reg)
{
	struct unwind_slot slot;

	if (slot_is_popped(m, s, reg))
		return;
	slot = maker_slot(m, reg, &s->slot[reg]);
	if (slot.how != HOW_AT)
		r->flags |= RULE_SLOW;
	r->slot[r->n++] = slot;
}

/* @s as a rule in @r, which has room for all slots. */
static void rule_fill(struct unwind_maker *m, struct unwind_rule *r,
		      const struct unwind_state *s)
{
	uint64_t ra = (uint64_t)1 << m->arch->dwarf_ra, fp = (uint64_t)1 << m->arch->dwarf_fp;
	uint64_t left = s->set & ~ra & ~fp;

	*r = (struct unwind_rule){ .flags = s->flags, .cfa_reg = s->cfa_reg };
	if (s->slot[m->arch->dwarf_ra].how == HOW_LOST && s->set & ra) {
		r->flags = RULE_BOTTOM;
		return;
	}
	if (s->cfa_expr.at) {
		r->flags |= RULE_EXPR;
		r->cfa_off = maker_expr(m, s->cfa_expr);
		r->n_expr = (uint16_t)s->cfa_expr.n;
	} else {
		r->cfa_off = (int32_t)s->cfa_off;
	}
	if (s->cfa_expr.at ? r->cfa_off < 0 :
			     r->cfa_off != s->cfa_off || s->cfa_reg >= m->arch->n_dwarf) {
		*r = (struct unwind_rule){ .flags = RULE_NONE };
		return;
	}
	if (s->set & ra)
		rule_push(m, r, s, m->arch->dwarf_ra);
	if (s->set & fp)
		rule_push(m, r, s, m->arch->dwarf_fp);
	r->n_first = r->n;
	/* What a callee may change is of interest only where a signal came. */
	if (!(s->flags & RULE_SIGNAL))
		left &= m->arch->dwarf_saved;
	for (; left; left &= left - 1)
		rule_push(m, r, s, (unsigned)__builtin_ctzll(left));
}

static size_t rule_words(const struct unwind_rule *r)
{
	return (sizeof(*r) + r->n * sizeof(r->slot[0])) / 8;
}

static size_t rule_hash(const uint64_t *w, size_t n)
{
	return hash_bytes(hash_seed.begin, w, n * sizeof(*w));
}

static bool maker_grow_seen(struct unwind_maker *m)
{
	size_t n = MAX(m->n_seen * 2, 32);
	uint32_t *seen = calloc(n, sizeof(*seen));

	if (!seen) {
		m->error = -ENOMEM;
		return false;
	}
	for (size_t i = 0; i < m->n_seen; i++) {
		const uint64_t *w = &m->t->rules[m->seen[i]];
		size_t at;

		if (!m->seen[i])
			continue;
		at = rule_hash(w, rule_words((const void *)w));
		while (seen[at & (n - 1)])
			at++;
		seen[at & (n - 1)] = m->seen[i];
	}
	free(m->seen);
	m->seen = seen;
	m->n_seen = n;
	return true;
}

/* The word of the rule of @s, made if there is none like it. */
static uint32_t maker_rule(struct unwind_maker *m, const struct unwind_state *s)
{
	union {
		struct unwind_rule rule;
		uint64_t w[2 + 33];
	} u;
	struct unwind_table *t = m->t;
	size_t n, at;

	rule_fill(m, &u.rule, s);
	if (u.rule.flags & RULE_NONE)
		return NO_RULE;
	n = rule_words(&u.rule);
	if (!unwind_maker_spend(m, n * 8) ||
	    (m->n_rules * 2 >= m->n_seen && !maker_grow_seen(m)))
		return NO_RULE;
	for (at = rule_hash(u.w, n); m->seen[at & (m->n_seen - 1)]; at++) {
		uint32_t word = m->seen[at & (m->n_seen - 1)];

		/* The first words tell the length. */
		if (t->n_words - word >= n && memcmp(&t->rules[word], u.w, n * 8) == 0)
			return word;
	}
	if (!maker_reserve(m, (void **)&t->rules, &m->cap_words, t->n_words, n, 8))
		return NO_RULE;
	memcpy(&t->rules[t->n_words], u.w, n * 8);
	m->seen[at & (m->n_seen - 1)] = (uint32_t)t->n_words;
	m->n_rules++;
	t->n_words += n;
	return (uint32_t)(t->n_words - n);
}

static void maker_push(struct unwind_maker *m, uint64_t vaddr, uint32_t rule)
{
	struct unwind_table *t = m->t;
	uint64_t pc = vaddr - t->base;
	struct unwind_row *last = t->n_rows ? &t->row[t->n_rows - 1] : NULL;

	if (pc > UINT32_MAX || (last && pc < last->pc))
		return;
	if (last && last->pc == pc) {
		/* The last word on an address counts. */
		last->rule = rule;
		return;
	}
	if (last && last->rule == rule)
		return;
	if (maker_reserve(m, (void **)&t->row, &m->cap_rows, t->n_rows, 1, sizeof(*t->row)))
		t->row[t->n_rows++] = (struct unwind_row){ (uint32_t)pc, rule };
}

void unwind_maker_row(struct unwind_maker *m, uint64_t vaddr, const struct unwind_state *s)
{
	maker_push(m, vaddr, m->error ? NO_RULE : maker_rule(m, s));
}

void unwind_maker_gap(struct unwind_maker *m, uint64_t vaddr)
{
	maker_push(m, vaddr, NO_RULE);
}

void unwind_maker_plt(struct unwind_maker *m, uint64_t at, uint64_t end, bool plain)
{
	struct unwind_state s = { .cfa_reg = m->arch->dwarf_sp };

	if (!m->arch->plt_bytes) {
		unwind_maker_row(m, at, &s);
		return;
	}
	s.set = (uint64_t)1 << m->arch->dwarf_ra;
	s.slot[m->arch->dwarf_ra] = (struct unwind_state_slot){ .how = HOW_AT, .off = -8 };
	for (; at < end && !m->error; at += m->arch->plt_bytes) {
		s.cfa_off = 8;
		unwind_maker_row(m, at, &s);
		s.cfa_off = 16;
		if (!plain && end - at > m->arch->plt_pushed)
			unwind_maker_row(m, at + m->arch->plt_pushed, &s);
	}
}

void unwind_maker_sigreturn(struct unwind_maker *m, uint64_t at)
{
	struct unwind_state s = { .flags = RULE_SIGNAL, .cfa_reg = m->arch->dwarf_sp };

	for (unsigned reg = 0; reg < MAX(m->arch->n_dwarf, m->arch->dwarf_pc + 1u); reg++) {
		s.set |= (uint64_t)1 << reg;
		s.slot[reg] = (struct unwind_state_slot){
			.how = HOW_AT, .off = m->arch->sigframe + 8 * (int64_t)reg
		};
	}
	unwind_maker_row(m, at, &s);
}

int unwind_maker_init(struct unwind_maker *m, const struct arch *arch, uint64_t base)
{
	struct unwind_rule none = { .flags = RULE_NONE };

	*m = (struct unwind_maker){
		.arch = arch, .t = calloc(1, sizeof(*m->t)), .left = SIZE_MAX
	};
	if (!m->t)
		return -ENOMEM;
	m->t->base = base;
	if (maker_reserve(m, (void **)&m->t->rules, &m->cap_words, 0, 2, 8)) {
		memcpy(m->t->rules, &none, sizeof(none));
		m->t->n_words = 2;
	}
	return m->error;
}

/* Give back what was reserved too much. */
static void shrink(void **at, size_t n)
{
	void *p = n ? realloc(*at, n) : NULL;

	if (p)
		*at = p;
}

void unwind_maker_abort(struct unwind_maker *m)
{
	free(m->seen);
	unwind_table_free(m->t);
}

int unwind_maker_done(struct unwind_maker *m, struct unwind_table **ret)
{
	struct unwind_table *t = m->t;

	if (m->error) {
		unwind_maker_abort(m);
		return m->error;
	}
	free(m->seen);
	shrink((void **)&t->row, t->n_rows * sizeof(*t->row));
	shrink((void **)&t->rules, t->n_words * 8);
	shrink((void **)&t->exprs, t->n_exprs);
	t->bytes = sizeof(*t) + t->n_rows * sizeof(*t->row) + t->n_words * 8 + t->n_exprs;
	*ret = t;
	return 0;
}
