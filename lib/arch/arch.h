/* SPDX-License-Identifier: MIT
 *
 * arch - what differs between processors. Data only; one file each.
 */
#ifndef ARCH_H
#define ARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ARCH_MAX_REGS = 33, ARCH_NO_REG = 0xff };

/* An instruction that calls: the two bytes @back before its end. */
struct arch_call {
	uint8_t back, mask[2], value[2];
};

struct arch {
	const char *name;     /* uname -m */
	uint16_t elf_machine; /* EM_* */
	/* perf_event_attr.sample_regs_user: all general registers, first the one that a
	 * system call returns in; how many, and where sp and ip stand among them
	 * (asm/perf_regs.h). */
	uint64_t perf_regs;
	uint8_t n_regs, sp, ip;
	/* Where each of them stands in ptrace's NT_PRSTATUS, in words (sys/user.h). */
	uint8_t ptrace_regs[ARCH_MAX_REGS];
	/* DWARF's numbers: of each of perf_regs (ARCH_NO_REG: the instruction pointer); how
	 * many there are; the stack and frame pointer, the return address and those that a
	 * callee leaves as they were. */
	uint8_t dwarf_regs[ARCH_MAX_REGS];
	uint8_t n_dwarf, dwarf_sp, dwarf_fp, dwarf_ra;
	bool dwarf_ra_is_pc; /* x86: the column is no register, in expressions it is the pc */
	uint64_t dwarf_saved;
	struct arch_call calls[8];
	uint8_t n_calls;
	/* Bytes of the longest instruction; and to what the kernel aligns its copies of those
	 * that a uprobe stands for (UPROBE_XOL_SLOT_BYTES, asm/uprobes.h). */
	uint8_t insn_max, copy_align;
	uint64_t syscall_regs; /* of perf_regs: those that a system call may change */
	uint64_t pc_bits;      /* of a return address that was signed */
	uint32_t nop;	       /* a 4-byte no-operation, as it lies in memory */
};

extern const struct arch arch_x86_64;
extern const struct arch arch_aarch64;

/* The machine this program runs on. */
extern const struct arch *const arch_host;

/* Are all @n_regs registers at @a and @b equal? Then no user instruction ran between, unless
 * a loop came back to where it was. A thread that was @in_kernel may have got what its system
 * call returns. */
static inline bool arch_same_place(const void *a, const void *b, bool in_kernel)
{
	size_t skip = in_kernel ? 8 : 0;

	return memcmp((const char *)a + skip, (const char *)b + skip,
		      arch_host->n_regs * 8u - skip) == 0;
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

/* A thread that hit a uprobe at @a: did it at @b execute no more than the instruction that the
 * breakpoint stands for? Before that only the instruction pointer is another, for it points to
 * the kernel's copy of the instruction. Behind it the thread is a few bytes further, and the
 * stack pointer and one register may be others. At a function's return it is in the kernel's
 * trampoline, at the beginning of a page, with what a system call leaves. */
static inline bool arch_at_probe(const void *a, const void *b)
{
	enum { PAGE = 4096, TRAMPOLINE = 64 };
	uint64_t differ = arch_differ(a, b), ip, to, sp, to_sp;

	memcpy(&ip, (const char *)a + arch_host->ip * 8, 8);
	memcpy(&to, (const char *)b + arch_host->ip * 8, 8);
	memcpy(&sp, (const char *)a + arch_host->sp * 8, 8);
	memcpy(&to_sp, (const char *)b + arch_host->sp * 8, 8);
	if (to - ip <= arch_host->insn_max)
		return (differ & (differ - 1)) == 0;
	if (to % PAGE < TRAMPOLINE && sp - to_sp <= TRAMPOLINE)
		return (differ & ~arch_host->syscall_regs) == 0;
	return !differ && sp == to_sp && to % arch_host->copy_align == 0;
}

#endif
