/* SPDX-License-Identifier: MIT
 *
 * step - from a frame to its caller, and what can be guessed without a rule. Pure.
 */
#ifndef UNWIND_STEP_H
#define UNWIND_STEP_H

#include "elf/table.h"
#include "unwind/unwind.h"

/* By the rule of the instruction, one of @t. UNWIND_GOES_ON: @regs are the caller's; with
 * @all every register that can be known, else what nearly every stack does with.
 * Otherwise why not, and @regs are not valid. *@cfa stays 0 where it can't be known. */
enum unwind_end unwind_step(const struct unwind_table *t, const struct unwind_rule *rule,
			    struct unwind_regs *regs, const struct unwind_memory *mem,
			    bool all, uint64_t *cfa, bool *second);

/* Where the word at @at returns to, if it is a return address: pc and stack pointer of the
 * caller, of the other registers what a callee keeps. False: it is none. */
bool unwind_return(struct unwind_regs *regs, const struct unwind_memory *mem, uint64_t at);

/* Do @code's last bytes call? They stand before a return address. */
bool unwind_is_call(const struct arch *arch, const unsigned char *code, size_t n);

/* The table of anonymous memory that holds trampolines of python -X perf, from its first
 * byte on as address 0. 0, -ENOENT: it has none; -ENOMEM, -E2BIG. */
int unwind_trampolines(struct unwind_table **ret, const struct arch *arch, struct bytes code);

#endif
