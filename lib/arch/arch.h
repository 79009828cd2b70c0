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
	uint64_t pc_bits; /* of a return address that was signed */
	uint32_t nop;	  /* a 4-byte no-operation, as it lies in memory */
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

#endif
