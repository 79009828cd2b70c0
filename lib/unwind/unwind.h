/* SPDX-License-Identifier: MIT
 *
 * unwind - the native frames of a stopped thread, from its registers and stack bytes.
 *
 * Each mapped file's .eh_frame and .debug_frame are compiled once into sorted rows
 * (elf/table.h), on first use, in the caller's thread; processes share them. Nothing
 * here reads a target's memory. One user thread (the resolver), never a sampler.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "sample/sample.h"

/* Why a stack has no more frames. */
enum unwind_end {
	UNWIND_BOTTOM,	  /* the return address is undefined or 0: a thread's start */
	UNWIND_NO_CFI,	  /* mapped code without unwind information */
	UNWIND_NO_MAP,	  /* no executable memory there */
	UNWIND_NO_REG,	  /* needs a register whose value is not known */
	UNWIND_CUT,	  /* the stack bytes given end here */
	UNWIND_LIMIT,	  /* no room for more frames */
	UNWIND_BAD,	  /* the stack did not grow, or an expression is broken */
	UNWIND_COROUTINE, /* never from here: the merger's */
	UNWIND_N_ENDS,
	UNWIND_GOES_ON = UNWIND_N_ENDS /* inside only */
};

/* The marker that stands for it: "[bottom]", "[no CFI]" ... */
const char *unwind_end_name(enum unwind_end end);

enum { UNWIND_MAX_REGS = 33 };

/* A thread's registers by DWARF number (x86-64: 6 rbp, 7 rsp; aarch64: 29 fp, 30 lr,
 * 31 sp); those in the bit set @have are known. The stack pointer must be. */
struct unwind_regs {
	uint64_t pc, have;
	uint64_t r[UNWIND_MAX_REGS];
	bool returned; /* @pc is a return address: the instruction before it counts */
};

/* From perf_sample.regs: arch_host->n_regs words of the set arch_host->perf_regs. */
void unwind_regs_perf(struct unwind_regs *ret, const unsigned char *regs);

/* What is known of the thread's memory: bytes from the stack pointer up, and maybe further
 * pieces: the rest, read later, or the stack below a signal's own stack; the 128 bytes
 * below the stack pointer, where libcrypto's assembly keeps the old one. Where several
 * have a word the first counts. Borrowed. */
enum { UNWIND_PIECES = 3 };
struct unwind_memory {
	struct unwind_piece {
		uint64_t at;
		struct bytes bytes;
	} piece[UNWIND_PIECES];
};

/* A frame owns the stack from @sp to @cfa (not included). */
struct unwind_frame {
	uint64_t pc;	  /* the first as given, then return addresses */
	uint64_t sp;	  /* in this frame, at @pc */
	uint64_t cfa;	  /* the caller's sp; 0: not known (the last frame, unless LIMIT) */
	bool returned;	  /* @pc is a return address: look up pc - 1 */
	bool guessed;	  /* found by a scan of the stack, or behind one so found */
	bool from_second; /* a word of a further piece was needed to get here */
};

/* The caller sets @frame and @cap (not 0), the rest is the answer. Innermost first. */
struct unwind_stack {
	struct unwind_frame *frame;
	size_t cap, n;
	enum unwind_end end;
	/* With NO_CFI: the anonymous executable memory that the stack ended in and whose
	 * code is not known (unwinder_code()). hi 0: none. */
	uint64_t want_lo, want_hi;
	bool search_ended; /* too many words looked like the way on: the rest was not tried */
};

/* Bytes of a process's code, for the scan: @n at @at into @buf. 0, or -errno. Not on the
 * hot path. */
typedef int unwind_code_fn(void *arg, uint64_t at, void *buf, size_t n);

struct spaces;
struct unwinder;

/* @spaces: borrowed, whose modules have unwind rows. NULL: no memory. */
struct unwinder *unwinder_create(struct spaces *spaces);
void unwinder_destroy(struct unwinder *u);

/* Frames of a thread of @pid. Always at least one. Modules that are missing are read
 * now (1 to 50 ms for a file). @code may be NULL: then frames without unwind information
 * end the stack, and nothing is guessed. */
void unwinder_stack(struct unwinder *u, pid_t pid, const struct unwind_regs *regs,
		    const struct unwind_memory *mem, unwind_code_fn *code, void *arg,
		    struct unwind_stack *ret);

/* The code of anonymous executable memory of @pid at @at, once known: trampolines of
 * python -X perf are recognised in it. It is not kept. 0; -ENOENT: nothing in it that
 * is known (not asked for again); -ESRCH: no such memory; -ENOMEM. */
int unwinder_code(struct unwinder *u, pid_t pid, uint64_t at, struct bytes code);

#endif
