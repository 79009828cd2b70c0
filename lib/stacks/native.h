/* SPDX-License-Identifier: MIT
 *
 * native - a thread's user frames, native and Python ones in one order: unwinds its stack
 * bytes (unwind), finds the way again where that breaks, merges (merge).
 *
 * One user thread (the resolver).
 */
#ifndef NATIVE_H
#define NATIVE_H

#include "stacks/merge.h"
#include "symbolize.h"
#include "unwind/others.h"

struct native;

/* NULL: no memory. @symbols tells where the evaluation loop is, and its spaces where there is
 * code; borrowed. If not NULL, @other unwinds instead of our own unwinder, which only finds
 * stacks again where that breaks. */
struct native *native_create(struct symbolizer *symbols, const struct unwind_other *other);
void native_destroy(struct native *n);

/* What a thread's user frames are made of. All borrowed. */
struct native_input {
	pid_t pid;
	uint64_t time; /* when it was @pid */
	const struct unwind_regs *regs;
	struct unwind_memory mem; /* piece[0] begins at the stack pointer */
	const struct pystack_anchor *anchor;
	uint32_t n_anchors, n_python;
	bool may_be_jitted; /* PYSTACK_MAY_BE_JITTED */
	bool none;	    /* a whole walk has found no Python frame */
	bool truncated;	    /* older Python frames were not read */
};

/* Valid until the next call. */
struct native_stack {
	const struct merge_item *item; /* innermost first */
	size_t n;
	const struct unwind_frame *frame; /* that MERGE_NATIVE and MERGE_EVAL speak of */
	const struct symbol *symbol;	  /* of frame[i] */
	bool search_ended; /* it is cut, for too much on it looked like the way on */
	bool code_hangs;   /* it is cut at code in no file, which hangs who reads it */
	bool hides_line;   /* the innermost Python frame's line can't be told (jitted) */
	bool bare; /* whole, all named, and no activation of the evaluation loop in it */
	bool eval; /* by its name one of what is in @item is an activation of the evaluation loop */
};
struct native_stack native_stack(struct native *n, const struct native_input *in);

/* Of a thread whose program counter and stack pointer alone are known. */
void native_regs(struct unwind_regs *ret, uint64_t pc, uint64_t sp);

#endif
