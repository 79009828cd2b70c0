/* SPDX-License-Identifier: MIT
 *
 * arch - what differs between processors: data, and three functions that read instructions.
 * One file each.
 */
#ifndef ARCH_H
#define ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ARCH_MAX_REGS = 33, ARCH_NO_REG = 0xff };

/* An instruction that calls: the two bytes @back before its end. */
struct arch_call {
	uint8_t back, mask[2], value[2];
};

/* What python -X perf copies into anonymous memory, once a function: cpython,
 * Python/asm_trampoline.S. It has no unwind information: from the instruction at @at on the
 * CFA is sp + @cfa, and the return address lies at cfa - 8, the frame pointer at cfa - 16, if
 * they are @saved. */
struct arch_trampoline {
	uint8_t n, code[28], n_steps;
	struct {
		uint8_t at, cfa;
		enum { ARCH_SAVED_NONE, ARCH_SAVED_RA, ARCH_SAVED_BOTH } saved;
	} step[4];
};

struct arch {
	const char *name;     /* uname -m */
	uint16_t elf_machine; /* EM_* */
	/* perf_event_attr.sample_regs_user: all general registers; how many, and where sp
	 * and ip stand among them (asm/perf_regs.h). */
	uint64_t perf_regs;
	uint8_t n_regs, sp, ip;
	/* Where each of them stands in ptrace's NT_PRSTATUS, in words (sys/user.h). */
	uint8_t ptrace_regs[ARCH_MAX_REGS];
	/* DWARF's numbers: of each of perf_regs (ARCH_NO_REG: the instruction pointer); how
	 * many there are; the stack and frame pointer, the return address and those that a
	 * callee leaves as they were. */
	uint8_t dwarf_regs[ARCH_MAX_REGS];
	uint8_t n_dwarf, dwarf_sp, dwarf_fp, dwarf_ra;
	uint8_t dwarf_pc; /* x86: the column of the return address is no register but this */
	uint64_t dwarf_saved;
	struct arch_call calls[8];
	uint8_t n_calls;
	/* Bytes of the longest instruction; to what the kernel aligns its copies of those that
	 * a uprobe stands for (UPROBE_XOL_SLOT_BYTES, asm/uprobes.h), the first of which is
	 * what probed functions return to; and no less than the bytes of that one. */
	uint8_t insn_max, copy_align, return_max;
	/* Of perf_regs: those of which one holds the address behind the instruction while the
	 * copy runs of one that addresses relative to it (riprel_pre_xol(),
	 * arch/x86/kernel/uprobes.c). */
	uint64_t copy_regs;
	/* The kernel gets past a breakpoint by a single step, with the breakpoint off; a
	 * tracer's PTRACE_CONT ends the step alone (hw_breakpoint.c and ptrace.c in
	 * arch/arm64/kernel). */
	bool breakpoint_steps;
	/* Of perf_regs: those that a system call may change, the lowest the one that it
	 * returns in. */
	uint64_t syscall_regs;
	/* Do the @n bytes at @code begin with a jump, and how far does it go from @code on? */
	bool (*jump)(const unsigned char *code, size_t n, int64_t *by);
	uint8_t code_align;
	/* Is the function at @at, which begins with the @n bytes at @code, one that returns the
	 * value of a variable and does nothing else? Its address then is in *@ret. NULL: not
	 * known here. */
	bool (*getter)(const unsigned char *code, size_t n, uint64_t at, uint64_t *ret);
	const struct arch_trampoline *trampolines;
	uint8_t n_trampolines;
	uint32_t landing; /* the instruction that may stand before one */
	/* Bytes of .plt before stubs for which linkers may write no unwind information; 0:
	 * they do. */
	uint8_t plt_first;
	/* Of stubs that push a word: how long each is, where it has done so, and whether the
	 * bytes at @code are one. 0: they leave the return address alone. */
	uint8_t plt_bytes, plt_pushed;
	bool (*plt_stub)(const unsigned char *code);
	/* The same of stubs that push nothing, as long. NULL: there are none. */
	uint8_t plt_plain_first;
	bool (*plt_plain)(const unsigned char *code);
	/* What handlers of signals return to, in the vdso, if it has no unwind information;
	 * and where above sp the kernel keeps the registers, in DWARF's order. */
	uint32_t sigreturn[2];
	uint16_t sigframe;
	/* aarch64: a return address lies behind the frame pointer of its function, whose stack
	 * pointer is the same (AAPCS64, 6.4.6, and what compilers make of it). */
	bool frame_record;
	/* Where the C library keeps a thread's number in its struct pthread, whose address is
	 * pthread_self(); fork() puts the child's there. glibc (nptl/descr.h), musl
	 * (pthread_impl.h); 0: not known. */
	uint16_t pthread_tid[2];
	uint64_t pc_bits; /* of a return address: aarch64 signs with the others */
	uint32_t nop;	  /* a 4-byte no-operation, as it lies in memory */
};

extern const struct arch arch_x86_64;
extern const struct arch arch_aarch64;
extern const struct arch arch_riscv64;

/* The machine this program runs on. */
extern const struct arch *const arch_host;

/* That of an ELF file's e_machine, NULL: none of ours. */
static inline const struct arch *arch_of(unsigned elf_machine)
{
	static const struct arch *const all[] = { &arch_x86_64, &arch_aarch64, &arch_riscv64 };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->elf_machine == elf_machine)
			return all[i];
	return NULL;
}

/* Are all @n_regs registers at @a and @b equal? Then no user instruction ran between, unless
 * a loop came back to where it was. A thread that was @in_kernel may have got what its system
 * call returns. */
static inline bool arch_same_place(const void *a, const void *b, bool in_kernel)
{
	size_t n = arch_host->n_regs * 8u, at = n;

	if (in_kernel)
		at = (size_t)__builtin_ctzll(arch_host->syscall_regs) * 8;
	return memcmp(a, b, at) == 0 &&
	       (at == n ||
		memcmp((const char *)a + at + 8, (const char *)b + at + 8, n - at - 8) == 0);
}

/* The registers, besides the stack and the instruction pointer, that differ: a bit each. */
static inline uint64_t arch_differ(const void *a, const void *b)
{
	uint64_t ret = 0;

	for (unsigned i = 0; i < arch_host->n_regs; i++)
		if (i != arch_host->sp && i != arch_host->ip)
			ret |= (uint64_t)(memcmp((const char *)a + i * 8,
						 (const char *)b + i * 8, 8) != 0)
			       << i;
	return ret;
}

/* True: the register whose bit is @differ is lent to the copy of the instruction at @ip. */
static inline bool arch_is_lent(const void *regs, uint64_t differ, uint64_t ip)
{
	uint64_t v;

	if (!(differ & arch_host->copy_regs) || (differ & (differ - 1)))
		return false;
	memcpy(&v, (const char *)regs + __builtin_ctzll(differ) * 8, 8);
	return v > ip && v - ip <= arch_host->insn_max;
}

/* A thread that hit a uprobe at @a: did it at @b execute no more than the instruction that the
 * breakpoint stands for? Before that only the instruction pointer is another, for it points to
 * the kernel's copy of the instruction, and a register that this needs. Behind it the thread
 * is a few bytes further, and the stack pointer and one register may be others; or somewhere,
 * if the instruction @jumps, and the stack pointer may be an address further. At a function's
 * return it is in the kernel's trampoline, at the beginning of a page, with what a system call
 * leaves. */
static inline bool arch_at_probe(const void *a, const void *b, bool jumps)
{
	enum { PAGE = 4096, PUSHED = 64, ADDRESS = 8 };
	uint64_t differ = arch_differ(a, b), ip, to, sp, to_sp;

	memcpy(&ip, (const char *)a + arch_host->ip * 8, 8);
	memcpy(&to, (const char *)b + arch_host->ip * 8, 8);
	memcpy(&sp, (const char *)a + arch_host->sp * 8, 8);
	memcpy(&to_sp, (const char *)b + arch_host->sp * 8, 8);
	if (to - ip <= arch_host->insn_max)
		return (differ & (differ - 1)) == 0;
	if (jumps && !differ && sp - to_sp + ADDRESS <= 2 * ADDRESS)
		return true;
	if (to % PAGE < arch_host->return_max && sp - to_sp <= PUSHED)
		return (differ & ~arch_host->syscall_regs) == 0;
	return (!differ || arch_is_lent(b, differ, ip)) && sp == to_sp &&
	       to % arch_host->copy_align == 0;
}

#endif
