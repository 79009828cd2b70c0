/* SPDX-License-Identifier: MIT */
#include "unwind/step.h"

#include "unwind/expr.h"

static uint64_t bit(unsigned reg)
{
	return (uint64_t)1 << reg;
}

static enum unwind_end slot_expr(const struct unwind_table *t, const struct unwind_slot *s,
				 const struct unwind_regs *regs,
				 const struct unwind_memory *mem, uint64_t cfa, bool *second,
				 uint64_t *ret)
{
	struct bytes code = { t->exprs + s->off, s->n };
	enum unwind_end end = unwind_expr(code, regs, mem, &cfa, second, ret);

	if (end == UNWIND_GOES_ON && s->how == HOW_AT_EXPR &&
	    !unwind_word(mem, *ret, ret, second))
		end = UNWIND_CUT;
	return end;
}

/* The value of the caller's register. */
static enum unwind_end slot_value(const struct unwind_table *t, const struct unwind_slot *s,
				  const struct unwind_regs *regs,
				  const struct unwind_memory *mem, uint64_t cfa, bool *second,
				  uint64_t *ret)
{
	switch (s->how) {
	case HOW_AT:
		return unwind_word(mem, cfa + (uint64_t)s->off, ret, second) ? UNWIND_GOES_ON :
									       UNWIND_CUT;
	case HOW_VALUE:
		*ret = cfa + (uint64_t)s->off;
		return UNWIND_GOES_ON;
	case HOW_REG:
		if ((uint32_t)s->off >= UNWIND_MAX_REGS ||
		    !(regs->have & bit((unsigned)s->off)))
			return UNWIND_NO_REG;
		*ret = regs->r[s->off];
		return UNWIND_GOES_ON;
	case HOW_AT_EXPR:
	case HOW_EXPR:
		return slot_expr(t, s, regs, mem, cfa, second, ret);
	default:
		return UNWIND_NO_REG;
	}
}

/* Registers that @rule changes, in any way: the old ones stay valid until all are had. */
static uint64_t restore_slow(const struct unwind_table *t, const struct unwind_rule *rule,
			     struct unwind_regs *regs, const struct unwind_memory *mem,
			     uint64_t cfa, uint64_t *lost, bool *second,
			     enum unwind_end *ra_end)
{
	struct unwind_regs old = *regs;
	enum unwind_end end;
	uint64_t got = 0;

	for (unsigned i = 0; i < rule->n; i++) {
		const struct unwind_slot *s = &rule->slot[i];
		uint64_t v;

		end = slot_value(t, s, &old, mem, cfa, second, &v);
		if (s->reg == arch_host->dwarf_ra)
			*ra_end = end;
		if (end == UNWIND_GOES_ON) {
			regs->r[s->reg] = v;
			got |= bit(s->reg);
		} else {
			*lost |= bit(s->reg);
		}
	}
	return got;
}

/* The same where all are words on the stack, as in nearly every rule: the first @n. */
static uint64_t restore_fast(const struct unwind_rule *rule, unsigned n,
			     struct unwind_regs *regs, const struct unwind_memory *mem,
			     uint64_t cfa, uint64_t *lost, bool *second)
{
	uint64_t got = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct unwind_slot *s = &rule->slot[i];

		if (unwind_word(mem, cfa + (uint64_t)s->off, &regs->r[s->reg], second))
			got |= bit(s->reg);
		else
			*lost |= bit(s->reg);
	}
	return got;
}

static enum unwind_end find_cfa(const struct unwind_table *t, const struct unwind_rule *rule,
				const struct unwind_regs *regs,
				const struct unwind_memory *mem, bool *second, uint64_t *ret)
{
	if (rule->flags & RULE_EXPR) {
		struct bytes code = { t->exprs + rule->cfa_off, rule->n_expr };

		return unwind_expr(code, regs, mem, NULL, second, ret);
	}
	if (!(regs->have & bit(rule->cfa_reg)))
		return UNWIND_NO_REG;
	*ret = regs->r[rule->cfa_reg] + (uint64_t)(int64_t)rule->cfa_off;
	return UNWIND_GOES_ON;
}

enum unwind_end unwind_step(const struct unwind_table *t, const struct unwind_rule *rule,
			    struct unwind_regs *regs, const struct unwind_memory *mem,
			    bool all, uint64_t *cfa, bool *second)
{
	const struct arch *arch = arch_host;
	uint64_t sp = regs->r[arch->dwarf_sp], ra = bit(arch->dwarf_ra), got, lost = 0;
	bool signal = rule->flags & RULE_SIGNAL;
	uint64_t kept = arch->dwarf_saved;
	enum unwind_end end, ra_end = UNWIND_CUT;

	if (rule->flags & (RULE_NONE | RULE_BOTTOM))
		return rule->flags & RULE_NONE ? UNWIND_NO_CFI : UNWIND_BOTTOM;
	end = find_cfa(t, rule, regs, mem, second, cfa);
	if (end != UNWIND_GOES_ON)
		return end;
	/* Only a leaf may have no frame at all, and what takes its frame record to be where
	 * its frame ends (libffi); a signal may have had a stack of its own. */
	if (!signal &&
	    (*cfa < sp || (*cfa == sp && regs->returned &&
			   !(arch->frame_record && rule->cfa_reg == arch->dwarf_fp))))
		return UNWIND_BAD;
	regs->have &= ~bit(arch->dwarf_pc);
	if (signal)
		kept = UINT64_MAX;
	else if (!all)
		kept = bit(arch->dwarf_fp);
	if (rule->flags & RULE_SLOW)
		got = restore_slow(t, rule, regs, mem, *cfa, &lost, second, &ra_end);
	else
		got = restore_fast(rule, all || signal ? rule->n : rule->n_first, regs, mem,
				   *cfa, &lost, second);
	if (!(((regs->have & ~lost) | got) & ra))
		return lost & ra ? ra_end : regs->returned ? UNWIND_BAD : UNWIND_NO_REG;
	regs->pc = regs->r[got & bit(arch->dwarf_pc) ? arch->dwarf_pc : arch->dwarf_ra] &
		   arch->pc_bits;
	if (!(got & bit(arch->dwarf_sp)))
		regs->r[arch->dwarf_sp] = *cfa;
	else
		*cfa = regs->r[arch->dwarf_sp];
	if (!signal && *cfa < sp)
		return UNWIND_BAD;
	regs->have = (regs->have & kept & ~lost) | got;
	regs->have |= bit(arch->dwarf_sp);
	if (!signal)
		regs->have &= ~ra;
	regs->returned = !signal;
	return regs->pc ? UNWIND_GOES_ON : UNWIND_BOTTOM;
}

/* The return address at @at is in a frame record: the caller's frame pointer. */
static bool take_record(struct unwind_regs *regs, const struct unwind_memory *mem, uint64_t at,
			uint64_t *sp)
{
	if (!unwind_word(mem, at - 8, sp, NULL) || *sp < at)
		return false;
	regs->r[arch_host->dwarf_fp] = *sp;
	regs->have |= bit(arch_host->dwarf_fp);
	return true;
}

bool unwind_return(struct unwind_regs *regs, const struct unwind_memory *mem, uint64_t at)
{
	const struct arch *arch = arch_host;
	uint64_t pc, sp = at + 8;

	if (!unwind_word(mem, at, &pc, NULL) ||
	    (arch->frame_record && !take_record(regs, mem, at, &sp)))
		return false;
	regs->pc = pc & arch->pc_bits;
	regs->r[arch->dwarf_sp] = sp;
	regs->have = (regs->have & arch->dwarf_saved) | bit(arch->dwarf_sp);
	regs->returned = true;
	return true;
}

bool unwind_is_call(const struct arch *arch, const unsigned char *code, size_t n)
{
	for (unsigned i = 0; i < arch->n_calls; i++) {
		const struct arch_call *c = &arch->calls[i];

		if (c->back <= n && (code[n - c->back] & c->mask[0]) == c->value[0] &&
		    (code[n - c->back + 1] & c->mask[1]) == c->value[1])
			return true;
	}
	return false;
}
