/* SPDX-License-Identifier: MIT */
#include "arch.h"

#include <elf.h>

/* asm/perf_regs.h: X0 0 ... X29 29, LR 30, SP 31, PC 32. X1 to PC. */
const struct arch arch_aarch64 = {
	.name = "aarch64",
	.elf_machine = EM_AARCH64,
	.perf_regs = 0x1fffffffe,
	.n_regs = 32,
	.sp = 30,
	.ip = 31,
	.nop = 0xd503201f,
};

#ifdef __aarch64__
const struct arch *const arch_host = &arch_aarch64;
#endif
