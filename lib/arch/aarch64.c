/* SPDX-License-Identifier: MIT */
#include "arch.h"

#include <elf.h>

/* asm/perf_regs.h: X0 0 ... X29 29, LR 30, SP 31, PC 32. A system call
 * returns in X0. */
const struct arch arch_aarch64 = {
	.name = "aarch64",
	.elf_machine = EM_AARCH64,
	.perf_regs = 0x1ffffffff,
	.n_regs = 33,
	.sp = 31,
	.ip = 32,
	.ptrace_regs = { 0,  1,	 2,  3,	 4,  5,	 6,  7,	 8,  9,	 10, 11, 12, 13, 14, 15, 16,
			 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 },
	/* DWARF for the Arm 64-bit Architecture, 4.1: x0 0 ... x30 30, sp 31. */
	.dwarf_regs = { 0,  1,	2,  3,	4,  5,	6,  7,	8,  9,	10,
			11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
			22, 23, 24, 25, 26, 27, 28, 29, 30, 31, ARCH_NO_REG },
	.n_dwarf = 32,
	.dwarf_sp = 31,
	.dwarf_fp = 29,
	.dwarf_ra = 30,
	.dwarf_saved = 0xffful << 19 | 1ul << 31,
	.calls = { { 2, { 0, 0xfc }, { 0, 0x94 } },	    /* bl */
		   { 2, { 0xff, 0xff }, { 0x3f, 0xd6 } } }, /* blr */
	.n_calls = 2,
	.insn_max = 4,
	.copy_align = 4,
	.syscall_regs = 1,
	.pc_bits = 0x0000ffffffffffff,
	.nop = 0xd503201f,
};

#ifdef __aarch64__
const struct arch *const arch_host = &arch_aarch64;
#endif
