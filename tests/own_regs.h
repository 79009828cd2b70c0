/* SPDX-License-Identifier: MIT
 *
 * own_regs - this program's registers by DWARF number.
 */
#ifndef OWN_REGS_H
#define OWN_REGS_H

#include <ucontext.h>

#include "arch/arch.h"
#include "unwind/unwind.h"

static inline void own_regs(struct unwind_regs *r, const ucontext_t *uc)
{
	const mcontext_t *m = &uc->uc_mcontext;
#ifdef __x86_64__
	static const uint8_t from[16] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					  REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					  REG_R12, REG_R13, REG_R14, REG_R15 };

	*r = (struct unwind_regs){ .pc = (uint64_t)m->gregs[REG_RIP], .have = 0xffff };
	for (unsigned i = 0; i < 16; i++)
		r->r[i] = (uint64_t)m->gregs[from[i]];
#elif defined(__riscv)
	*r = (struct unwind_regs){ .pc = m->__gregs[0], .have = 0xfffffffe };
	memcpy(r->r, m->__gregs, sizeof(m->__gregs));
#else
	*r = (struct unwind_regs){ .pc = m->pc, .have = 0xffffffff };
	memcpy(r->r, m->regs, sizeof(m->regs));
	r->r[arch_host->dwarf_sp] = m->sp;
#endif
}

#endif
