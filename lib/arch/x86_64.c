/* SPDX-License-Identifier: MIT */
#include "arch.h"

#include <elf.h>

/* asm/perf_regs.h: BP 6, SP 7, IP 8. */
const struct arch arch_x86_64 = {
	.name = "x86_64",
	.elf_machine = EM_X86_64,
	.perf_regs = 1u << 6 | 1u << 7 | 1u << 8,
	.n_regs = 3,
	.fp = 0,
	.sp = 1,
	.ip = 2,
	.nop = 0x00401f0f, /* nopl 0(%rax) */
};

#ifdef __x86_64__
const struct arch *const arch_host = &arch_x86_64;
#endif
