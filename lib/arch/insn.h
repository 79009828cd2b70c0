/* SPDX-License-Identifier: MIT
 *
 * insn - where instructions begin: a breakpoint anywhere else would break the program; and
 * which of them jump. Pure.
 */
#ifndef INSN_H
#define INSN_H

#include <stdbool.h>

#include "base/base.h"

/* Bytes of the x86-64 instruction at @p, of which @n can be read; 0: none that is known.
 * Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, appendix A. */
size_t insn_x86_length(const unsigned char *p, size_t n);

/* Does the instruction at the beginning of @code go elsewhere, and change but the instruction
 * and the stack pointer? */
bool insn_jumps(struct bytes code);

/* True: an instruction of this machine begins at @at in @code, at whose beginning one does. */
bool insn_begins(struct bytes code, size_t at);

#endif
