/* SPDX-License-Identifier: MIT
 *
 * work - what this program itself does, in counts that are the same on a slow machine and on
 * a fast one.
 *
 * A reader counts in its slot, where no other thread writes; all other threads share one
 * struct. Counting never fails and is always on.
 */
#ifndef WORK_H
#define WORK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* X(name): calls of perf_event_open(2); calls of process_vm_readv(2), and the ranges they
 * read; records that proofs looked at; rings that they looked into; loads of shared words that
 * other CPUs write, on the way of a sample; wake-ups of readers; samples that were queued. */
#define WORK_LIST \
	X(opens) X(reads) X(ranges) X(records) X(rings) X(foreign) X(wakeups) X(samples)

enum work_name {
#define X(name) WORK_##name,
	WORK_LIST
#undef X
		WORK_N
};

/* One writer, any number of readers; but work_of_others has many writers. */
struct work {
	_Atomic uint64_t n[WORK_N];
};

extern struct work work_of_others;

/* The struct that the calling thread alone writes; NULL: it counts in work_of_others. */
extern _Thread_local struct work *work_own;

static inline void work_add(enum work_name name, uint64_t n)
{
	_Atomic uint64_t *own = work_own ? &work_own->n[name] : NULL;

	if (!own)
		atomic_fetch_add_explicit(&work_of_others.n[name], n, memory_order_relaxed);
	else
		atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + n,
				      memory_order_relaxed);
}

/* @n loads of words that belong to the thread which counts in @owner. */
static inline void work_foreign(const struct work *owner, uint64_t n)
{
	if (owner != work_own)
		work_add(WORK_foreign, n);
}

/* All of it up to some moment. */
struct work_moment {
	uint64_t n[WORK_N];
	uint64_t ns, cpu_ns; /* since work_begin(); CPU time of the process */
	uint64_t syscalls;   /* since work_count_syscalls(); UINT64_MAX: not counted */
};

/* main() begins. */
void work_begin(void);

/* @fd tells how many system calls there were (syscall_count_open()), from now on and to the
 * end. Once in a process. */
void work_count_syscalls(int fd);

/* What has been done by now, without what is in any reader's own struct. */
void work_look(struct work_moment *ret);

/* Add what is counted in @w to @m. */
void work_add_to(struct work_moment *m, const struct work *w);

/* Name of counter @i, or NULL past the end. */
const char *work_name(unsigned i);

#endif
