/* SPDX-License-Identifier: MIT
 *
 * bench - one set of recorded samples, given to several unwinders.
 */
#ifndef BENCH_H
#define BENCH_H

#include "elf/elfimage.h"
#include "sys/proc_maps.h"
#include "unwind/unwind.h"

enum { MAX_FRAMES = 1024 };

struct bench_sample {
	pid_t pid, tid;
	struct unwind_regs regs;
	struct unwind_memory mem;
};

struct bench_samples {
	struct bench_sample *s;
	size_t n, cap;
};

/* Sample all threads of @pid until there are @want; waits 60 s at most. */
int bench_capture(struct bench_samples *ret, pid_t pid, size_t want, uint32_t stack,
		  uint64_t hz);
void bench_samples_free(struct bench_samples *s);

/* An unwinder that others made. */
struct bench_peer {
	const char *name;
	/* 0 or a sentence. */
	const char *(*begin)(pid_t pid, const struct proc_maps *maps);
	/* Return addresses of @s, and whether it came to an end without an error. */
	size_t (*frames)(const struct bench_sample *s, uint64_t *pcs, size_t cap, bool *end);
	void (*done)(void);
};

extern const struct bench_peer bench_libunwind, bench_dwfl;

#endif
