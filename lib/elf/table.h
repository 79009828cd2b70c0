/* SPDX-License-Identifier: MIT
 *
 * table - unwind information as sorted 8-byte rows: of one function, or of code in memory.
 *
 * A row says from which address on which rule holds: how to get from a frame to its
 * caller. Rules that do not differ are kept once; so are DWARF expressions. Immutable
 * once made.
 */
#ifndef UNWIND_TABLE_H
#define UNWIND_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/base.h"

/* Where a caller's register is. */
enum unwind_how {
	HOW_SAME,    /* not a slot: as in the frame */
	HOW_AT,	     /* the word at cfa + off */
	HOW_VALUE,   /* cfa + off */
	HOW_REG,     /* what register @off holds */
	HOW_AT_EXPR, /* the word at what the expression at @off gives */
	HOW_EXPR,    /* what it gives */
	HOW_LOST,
};

struct unwind_slot {
	int32_t off;
	uint8_t reg, how;
	uint16_t n; /* bytes of the expression */
};

enum unwind_rule_flags {
	RULE_NONE = 1 << 0,   /* no unwind information here */
	RULE_BOTTOM = 1 << 1, /* the return address is undefined */
	RULE_SIGNAL = 1 << 2, /* the caller was interrupted, it did not call */
	RULE_SLOW = 1 << 3,   /* a slot that is not HOW_AT */
	RULE_EXPR = 1 << 4,   /* the cfa is an expression, @n_expr bytes at @cfa_off */
};

struct unwind_rule {
	int32_t cfa_off;
	uint16_t n_expr;
	uint8_t flags, n;
	uint8_t cfa_reg;
	uint8_t n_first; /* slots that every stack needs: return address, frame pointer */
	uint8_t pad[6];
	struct unwind_slot slot[]; /* those first */
};

struct unwind_row {
	uint32_t pc;   /* less unwind_table.base */
	uint32_t rule; /* word in unwind_table.rules */
};

struct unwind_table {
	uint64_t base; /* lowest address of the file */
	struct unwind_row *row;
	uint64_t *rules;
	unsigned char *exprs;
	size_t n_rows, n_words, n_exprs;
	size_t bytes; /* of memory held */
};

void unwind_table_free(struct unwind_table *t); /* NULL is fine */

/* The row that holds at address @vaddr, NULL before the first. */
const struct unwind_row *unwind_table_row(const struct unwind_table *t, uint64_t vaddr);

static inline const struct unwind_rule *unwind_row_rule(const struct unwind_table *t,
							const struct unwind_row *row)
{
	return (const void *)&t->rules[row->rule];
}

/* ---- Making one, for cfi.c and trampoline.c ---- */

/* The rule of an address while it is put together. */
struct unwind_state {
	uint8_t flags;
	uint8_t cfa_reg;
	int64_t cfa_off;
	struct bytes cfa_expr; /* at NULL: cfa_reg + cfa_off */
	uint64_t set;	       /* registers whose slot is not HOW_SAME */
	struct unwind_state_slot {
		enum unwind_how how;
		int64_t off;
		struct bytes expr;
	} slot[33];
};

struct unwind_maker {
	const struct arch *arch;
	struct unwind_table *t;
	size_t cap_rows, cap_words, cap_exprs;
	uint32_t *seen; /* hash of rules made */
	size_t n_rules, n_seen;
	uint32_t recent[64]; /* offsets in exprs */
	unsigned n_recent;
	size_t left; /* of the work that it may take, in bytes looked at */
	int error;   /* the first; later calls do nothing */
};

/* What it takes has no bound but memory's: who has one lowers @left. */
int unwind_maker_init(struct unwind_maker *m, const struct arch *arch, uint64_t base);
/* Looks at @n bytes more. False: that is more than is left, or there was an error before. */
bool unwind_maker_spend(struct unwind_maker *m, size_t n);
/* From @vaddr on @s holds. Addresses must not fall. */
void unwind_maker_row(struct unwind_maker *m, uint64_t vaddr, const struct unwind_state *s);
void unwind_maker_gap(struct unwind_maker *m, uint64_t vaddr);

/* Rows of the stubs of .plt in [@at, @end), with @plain those that push nothing; and of what
 * handlers of signals return to. */
void unwind_maker_plt(struct unwind_maker *m, uint64_t at, uint64_t end, bool plain);
void unwind_maker_sigreturn(struct unwind_maker *m, uint64_t at);
/* *@ret: what was made; 0, -ENOMEM, or -E2BIG: more than is sane. */
int unwind_maker_done(struct unwind_maker *m, struct unwind_table **ret);
void unwind_maker_abort(struct unwind_maker *m);

#endif
