/* SPDX-License-Identifier: MIT */
#include "arch.h"

#include <elf.h>

/* asm/perf_regs.h: X29 29, SP 31, PC 32. */
const struct arch arch_aarch64 = {
	.name = "aarch64",
	.elf_machine = EM_AARCH64,
	.perf_regs = 1ull << 29 | 1ull << 31 | 1ull << 32,
	.n_regs = 3,
	.fp = 0,
	.sp = 1,
	.ip = 2,
	.nop = 0xd503201f,
};

#ifdef __aarch64__
const struct arch *const arch_host = &arch_aarch64;
#endif
