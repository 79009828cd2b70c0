/* SPDX-License-Identifier: MIT */
#include "arch.h"

#include <elf.h>

/* asm/perf_regs.h: AX 0, BX 1, CX, DX, SI, DI, BP 6, SP 7, IP 8, R8 16 ... R15 23. */
const struct arch arch_x86_64 = {
	.name = "x86_64",
	.elf_machine = EM_X86_64,
	.perf_regs = 0xff01fe,
	.n_regs = 16,
	.sp = 6,
	.ip = 7,
	.ptrace_regs = { 5, 11, 12, 13, 14, 4, 19, 16, 9, 8, 7, 6, 3, 2, 1, 0 },
	.nop = 0x00401f0f, /* nopl 0(%rax) */
};

#ifdef __x86_64__
const struct arch *const arch_host = &arch_x86_64;
#endif
