/* SPDX-License-Identifier: MIT */
#include "arch/arch.h"

#include <elf.h>

#include "base/base.h"

/* The @n bits of @insn from @at on, signed, in instructions. */
static int64_t field(uint32_t insn, unsigned at, unsigned n)
{
	return ((int64_t)(int32_t)(insn << (32 - at - n)) >> (32 - n)) * 4;
}

/* Arm ARM, C4.1: b; b.cond, cbz, cbnz; tbz, tbnz. */
static bool jump(const unsigned char *code, size_t n, int64_t *by)
{
	uint32_t insn = n < 4 ? 0 : load_u32(code);

	if ((insn & 0xfc000000) == 0x14000000)
		*by = field(insn, 0, 26);
	else if ((insn & 0xff000010) == 0x54000000 || (insn & 0x7e000000) == 0x34000000)
		*by = field(insn, 5, 19);
	else if ((insn & 0x7e000000) == 0x36000000)
		*by = field(insn, 5, 14);
	else
		return false;
	return true;
}

/* adrp xN, variable; ldr x0, [xN, variable]; ret; or behind bti c */
static bool getter(const unsigned char *code, size_t n, uint64_t at, uint64_t *ret)
{
	size_t from = n >= 4 && load_u32(code) == 0xd503245f ? 4 : 0;
	uint32_t adrp, ldr;
	int64_t pages;

	if (n < from + 12)
		return false;
	adrp = load_u32(code + from);
	ldr = load_u32(code + from + 4);
	if ((adrp & 0x9f000000) != 0x90000000 || (ldr & 0xffc0001f) != 0xf9400000 ||
	    (ldr >> 5 & 31) != (adrp & 31) || load_u32(code + from + 8) != 0xd65f03c0)
		return false;
	pages = field(adrp, 5, 19) | (adrp >> 29 & 3);
	*ret = ((at + from) & ~0xfffull) + (uint64_t)pages * 4096 + (ldr >> 10 & 0xfff) * 8;
	return true;
}

static const struct arch_trampoline trampolines[] = {
	/* stp x29, x30, [sp, -16]!; mov x29, sp; blr x3; ldp x29, x30, [sp], 16; ret */
	{ 20,
	  { 0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x60, 0x00,
	    0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6 },
	  3,
	  { { 0, 0, ARCH_SAVED_NONE },
	    { 4, 16, ARCH_SAVED_BOTH },
	    { 16, 0, ARCH_SAVED_NONE } } },
	/* Between paciasp and autiasp. */
	{
		28,
		{ 0x3f, 0x23, 0x03, 0xd5, 0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03,
		  0x00, 0x91, 0x60, 0x00, 0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8,
		  0xbf, 0x23, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6 },
		3,
		{ { 0, 0, ARCH_SAVED_NONE },
		  { 8, 16, ARCH_SAVED_BOTH },
		  { 20, 0, ARCH_SAVED_NONE } } },
};

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
	.dwarf_pc = 32,
	.dwarf_saved = 0xffful << 19 | 1ul << 31,
	.calls = { { 2, { 0, 0xfc }, { 0, 0x94 } },	    /* bl */
		   { 2, { 0xff, 0xff }, { 0x3f, 0xd6 } } }, /* blr */
	.n_calls = 2,
	.insn_max = 4,
	.copy_align = 4,
	.return_max = 4, /* brk */
	.breakpoint_steps = true,
	.syscall_regs = 1,
	.jump = jump,
	.getter = getter,
	.code_align = 4,
	.trampolines = trampolines,
	.n_trampolines = ARRAY_SIZE(trampolines),
	.landing = 0xd503245f, /* bti c */
	.plt_first = 32,
	/* mov x8, #139; svc #0. Linux, arch/arm64/kernel/signal.c: a siginfo of 128 bytes,
	 * then a ucontext, whose mcontext begins at 176 with the fault's address. */
	.sigreturn = { 0xd2801168, 0xd4000001 },
	.sigframe = 128 + 176 + 8,
	.frame_record = true,
	.pthread_tid = { 208, 32 },
	.pc_bits = 0x0000ffffffffffff,
	.nop = 0xd503201f,
};

#ifdef __aarch64__
const struct arch *const arch_host = &arch_aarch64;
#endif
