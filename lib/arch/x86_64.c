/* SPDX-License-Identifier: MIT */
#include "arch/arch.h"

#include <elf.h>

#include "base/base.h"

/* jmp rel32; jcc rel32 */
static bool jump(const unsigned char *code, size_t n, int64_t *by)
{
	bool jcc = n > 1 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80;
	size_t op = jcc ? 2 : 1;

	if (n < op + 4 || (!jcc && code[0] != 0xe9))
		return false;
	*by = (int32_t)load_u32(code + op) + (int64_t)op + 4;
	return true;
}

/* The @n bytes at @want, if they are the next of @code, are taken from there. */
static bool skip(struct bytes *code, const char *want, size_t n)
{
	if (code->n < n || memcmp(code->at, want, n) != 0)
		return false;
	code->at += n;
	code->n -= n;
	return true;
}

/* mov variable(%rip),%rax; ret; or with a frame pointer; or behind endbr64 */
static bool getter(const unsigned char *code, size_t n, uint64_t at, uint64_t *ret)
{
	struct bytes b = { code, n };
	bool frame;

	skip(&b, "\xf3\x0f\x1e\xfa", 4);
	frame = skip(&b, "\x55\x48\x89\xe5", 4);
	if (!skip(&b, "\x48\x8b\x05", 3) || b.n < 4)
		return false;
	*ret = at + (uint64_t)(b.at + 4 - code) + (uint64_t)(int32_t)load_u32(b.at);
	b = (struct bytes){ b.at + 4, b.n - 4 };
	return (!frame || skip(&b, "\x5d", 1)) && skip(&b, "\xc3", 1);
}

/* jmp *slot(%rip); push $number; jmp to the first one (System V ABI, AMD64, 5.2) */
static bool plt_stub(const unsigned char *code)
{
	return code[0] == 0xff && code[1] == 0x25 && code[6] == 0x68 && code[11] == 0xe9;
}

/* mov $number,%r11d; jmp *slot(%rip); or behind endbr64 (mold, src/arch-x86-64.cc) */
static bool plt_plain(const unsigned char *code)
{
	const unsigned char *at = memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0 ? code + 4 : code;

	return at[0] == 0x41 && at[1] == 0xbb && at[6] == 0xff && at[7] == 0x25;
}

static const struct arch_trampoline trampolines[] = {
	/* 3.12, 3.13: sub $8,%rsp; call *%rcx; add $8,%rsp; ret */
	{ 11,
	  { 0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3 },
	  3,
	  { { 0, 8, ARCH_SAVED_RA }, { 4, 16, ARCH_SAVED_RA }, { 10, 8, ARCH_SAVED_RA } } },
	/* 3.14 on, Debian's 3.13: push %rbp; mov %rsp,%rbp; call *%rcx; pop %rbp; ret */
	{ 8,
	  { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3 },
	  3,
	  { { 0, 8, ARCH_SAVED_RA }, { 1, 16, ARCH_SAVED_BOTH }, { 7, 8, ARCH_SAVED_RA } } },
};

/* asm/perf_regs.h: AX 0, BX 1, CX, DX, SI, DI, BP 6, SP 7, IP 8, R8 16 ... R15 23.
 * A system call returns in AX. */
const struct arch arch_x86_64 = {
	.name = "x86_64",
	.elf_machine = EM_X86_64,
	.perf_regs = 0xff01ff,
	.n_regs = 17,
	.sp = 7,
	.ip = 8,
	.ptrace_regs = { 10, 5, 11, 12, 13, 14, 4, 19, 16, 9, 8, 7, 6, 3, 2, 1, 0 },
	/* System V ABI, AMD64, 3.6.2: rax 0, rdx, rcx, rbx 3, rsi, rdi, rbp 6, rsp 7, r8 ...
	 * r15; 16 is the return address. */
	.dwarf_regs = { 0, 3, 2, 1, 4, 5, 6, 7, ARCH_NO_REG, 8, 9, 10, 11, 12, 13, 14, 15 },
	.n_dwarf = 17,
	.dwarf_sp = 7,
	.dwarf_fp = 6,
	.dwarf_ra = 16,
	.dwarf_pc = 16,
	.dwarf_saved = 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12,
	/* call rel32; call r/m64 (ff /2) with operands of 0 to 5 more bytes. */
	.calls = { { 5, { 0xff, 0 }, { 0xe8, 0 } },
		   { 2, { 0xff, 0x38 }, { 0xff, 0x10 } },
		   { 3, { 0xff, 0x38 }, { 0xff, 0x10 } },
		   { 4, { 0xff, 0x38 }, { 0xff, 0x10 } },
		   { 6, { 0xff, 0x38 }, { 0xff, 0x10 } },
		   { 7, { 0xff, 0x38 }, { 0xff, 0x10 } } },
	.n_calls = 6,
	.insn_max = 15,
	.copy_align = 128,
	.return_max = 64,
	.copy_regs = 1 << 1 | 1 << 4 | 1 << 5,	   /* rbx, rsi, rdi */
	.syscall_regs = 1 << 0 | 1 << 2 | 1 << 12, /* rax, rcx, r11 */
	.jump = jump,
	.code_align = 1,
	.getter = getter,
	.trampolines = trampolines,
	.n_trampolines = ARRAY_SIZE(trampolines),
	.landing = 0xfa1e0ff3, /* endbr64 */
	.plt_first = 16,       /* lld writes none */
	.plt_bytes = 16,
	.plt_pushed = 11,
	.plt_stub = plt_stub,
	.plt_plain_first = 32,
	.plt_plain = plt_plain,
	.pthread_tid = { 720, 48 },
	.pc_bits = UINT64_MAX,
	.nop = 0x00401f0f, /* nopl 0(%rax) */
};

#ifdef __x86_64__
const struct arch *const arch_host = &arch_x86_64;
#endif
