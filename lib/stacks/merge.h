/* SPDX-License-Identifier: MIT
 *
 * merge - native frames and Python frames in one order. Pure.
 *
 * By address, not by counting: each activation of the evaluation loop has an object on the
 * C stack (struct pystack_anchor), and the native frame that holds it is the activation,
 * whatever the symbols say. Its Python frames stand in its place. Up to 3.10 there is no such
 * object: each native frame that symbols call the evaluation loop runs one Python frame, or
 * more where throw() has linked some to it.
 */
#ifndef MERGE_H
#define MERGE_H

#include "python/pystack.h"
#include "unwind/unwind.h"

/* Native frames that follow one another up to frame[to - 1], and why they end. After one that
 * is not the last, the stack was found again further out. */
struct merge_run {
	uint32_t to;
	enum unwind_end end;
};

/* What symbols say of a native frame: a hint only, but where addresses tell nothing. */
enum merge_hint {
	MERGE_PLAIN,
	MERGE_IS_EVAL,	    /* the evaluation loop */
	MERGE_IS_COROUTINE, /* code that switches C stacks */
};

struct merge_input {
	const struct unwind_frame *frame; /* innermost first */
	const enum merge_hint *hint;	  /* of frame[i] */
	const struct merge_run *run;
	uint32_t n_runs;
	const struct pystack_anchor *anchor;
	uint32_t n_anchors, n_python;
	bool none; /* a whole walk has found that the thread runs no Python */
	bool truncated; /* there are further Python frames, which were not read */
};

enum merge_kind {
	MERGE_NATIVE,	/* frame[i] */
	MERGE_EVAL,	/* frame[i], an activation: the Python frames that it runs follow */
	MERGE_PYTHON,	/* Python frame i */
	MERGE_END,	/* i: enum unwind_end: here native frames are missing */
	MERGE_UNPLACED, /* the Python frames that follow were found in no native frame */
};

struct merge_item {
	enum merge_kind kind;
	uint32_t i;
};

/* The items innermost first. All Python frames are among them, once and in order. A stack of
 * a coroutine ends where it was begun, for the C stack below is not its own; so does one that
 * runs no Python, where others' does below, or where that stack is not whole. While a coroutine
 * library copies stacks over each other, only its own frames are told. @ret has room for
 * all native and Python frames, and for @n_runs + 1 more. How many items. */
size_t merge(const struct merge_input *in, struct merge_item *ret);

/* The first of frames [from, n) that owns @at; @n: none. */
uint32_t merge_owner(const struct unwind_frame *frame, uint32_t from, uint32_t n, uint64_t at);

#endif
