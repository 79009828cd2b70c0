/* SPDX-License-Identifier: MIT
 *
 * libunwind - the same stacks by libunwind's remote unwinding: for who trusts it more, and
 * as an oracle. Some fifty times slower. Built where the library is.
 */
#ifndef UNWIND_LIBUNWIND_H
#define UNWIND_LIBUNWIND_H

#include "codefile.h"
#include "unwind/unwind.h"

struct libunwind;

/* NULL: no memory. @files is borrowed. */
struct libunwind *libunwind_create(struct codefile *files);
void libunwind_destroy(struct libunwind *u);

/* As unwinder_stack(), for the process of @sp. libunwind does not tell why a stack ended: it
 * is BOTTOM, NO_CFI (no unwind information, or memory missing), NO_MAP or LIMIT. */
void libunwind_stack(struct libunwind *u, const struct space *sp,
		     const struct unwind_regs *regs, const struct unwind_memory *mem,
		     struct unwind_stack *ret);

#endif
