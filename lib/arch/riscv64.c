/* SPDX-License-Identifier: MIT */
#include "arch/arch.h"

#include <elf.h>

#include "base/base.h"

/* The RISC-V Instruction Set Manual, volume I, 2.5.1: jal x0. Branches and compressed jumps
 * reach 4 KiB, so they never leave a function. */
static bool jump(const unsigned char *code, size_t n, int64_t *by)
{
	uint32_t insn = n < 4 ? 0 : load_u32(code);

	if ((insn & 0xfff) != 0x6f)
		return false;
	*by = (int64_t)((int32_t)insn >> 31) * (1 << 20) | (insn & 0xff000) |
	      (insn >> 20 & 1) << 11 | (insn >> 21 & 0x3ff) << 1;
	return true;
}

static const struct arch_trampoline trampolines[] = {
	/* addi sp,sp,-16; sd ra,8(sp); jalr a3; ld ra,8(sp); addi sp,sp,16; jr ra */
	{ 12,
	  { 0x41, 0x11, 0x06, 0xe4, 0x82, 0x96, 0xa2, 0x60, 0x41, 0x01, 0x82, 0x80 },
	  4,
	  { { 0, 0, ARCH_SAVED_NONE },
	    { 2, 16, ARCH_SAVED_NONE },
	    { 4, 16, ARCH_SAVED_RA },
	    { 10, 0, ARCH_SAVED_NONE } } },
};

/* asm/perf_regs.h: PC 0, then x1 ... x31: RA 1, SP 2 ... A0 10, which a system call returns
 * in. */
const struct arch arch_riscv64 = {
	.name = "riscv64",
	.elf_machine = EM_RISCV,
	.perf_regs = 0xffffffff,
	.n_regs = 32,
	.sp = 2,
	.ip = 0,
	.ptrace_regs = { 0,  1,	 2,  3,	 4,  5,	 6,  7,	 8,  9,	 10, 11, 12, 13, 14, 15,
			 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 },
	/* RISC-V ABIs, DWARF Register Numbers: x0 0 ... x31 31. As x0 is always zero, the
	 * interrupted pc of a signal's frame, which lies where it would, takes its place. */
	.dwarf_regs = { ARCH_NO_REG, 1,	 2,  3,	 4,  5,	 6,  7,	 8,  9,	 10,
			11,	     12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
			22,	     23, 24, 25, 26, 27, 28, 29, 30, 31 },
	.n_dwarf = 32,
	.dwarf_sp = 2,
	.dwarf_fp = 8,
	.dwarf_ra = 1,
	.dwarf_pc = 0,
	.dwarf_saved = 1 << 2 | 3 << 8 | 0x3ff << 18,
	.calls = { { 4, { 0xff, 0x0f }, { 0xef, 0 } },	    /* jal ra */
		   { 4, { 0xff, 0x7f }, { 0xe7, 0 } },	    /* jalr ra */
		   { 2, { 0x7f, 0xf0 }, { 0x02, 0x90 } } }, /* c.jalr */
	.n_calls = 3,
	.insn_max = 4,
	.copy_align = 8,
	.return_max = 8,
	.syscall_regs = 1 << 10,
	.jump = jump,
	.code_align = 2,
	.trampolines = trampolines,
	.n_trampolines = ARRAY_SIZE(trampolines),
	.plt_first = 32,
	/* li a7, 139; ecall. Linux, arch/riscv/kernel/signal.c: a siginfo of 128 bytes, then
	 * a ucontext, whose mcontext begins at 176 with the pc. */
	.sigreturn = { 0x08b00893, 0x00000073 },
	.sigframe = 128 + 176,
	.pthread_tid = { 208, 32 },
	.pc_bits = UINT64_MAX,
	.nop = 0x00000013,
};

#if defined(__riscv) && __riscv_xlen == 64
const struct arch *const arch_host = &arch_riscv64;
#endif
