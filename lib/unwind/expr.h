/* SPDX-License-Identifier: MIT
 *
 * expr - DWARF expressions as call frame information uses them (DWARF 5, 2.5 and
 * 6.4.2). Pure; the expression, the registers and the memory may be hostile.
 */
#ifndef UNWIND_EXPR_H
#define UNWIND_EXPR_H

#include "unwind/unwind.h"

/* One word of memory. False when it is not known; *@second, which may be NULL, becomes
 * true when it was not in the first piece. */
static inline bool unwind_word(const struct unwind_memory *mem, uint64_t at, uint64_t *ret,
			       bool *second)
{
	for (unsigned i = 0; i < UNWIND_PIECES; i++) {
		const struct unwind_piece *p = &mem->piece[i];
		uint64_t off = at - p->at;

		if (off < p->bytes.n && p->bytes.n - off >= 8) {
			*ret = load_u64(p->bytes.at + off);
			if (i > 0 && second)
				*second = true;
			return true;
		}
	}
	return false;
}

/* What @code gives, with @first on the stack at the begin (NULL: nothing). UNWIND_GOES_ON;
 * BAD, NO_REG or CUT where it can't be had. */
enum unwind_end unwind_expr(struct bytes code, const struct unwind_regs *regs,
			    const struct unwind_memory *mem, const uint64_t *first,
			    bool *second, uint64_t *ret);

#endif
