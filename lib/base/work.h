/* SPDX-License-Identifier: MIT
 *
 * work - what this program itself does, in counts that are the same on a slow machine and on
 * a fast one.
 *
 * A reader counts in its slot, where no other thread writes; all other threads of a recording
 * share one struct. Those that may outlast the recording, for what they read may hang, count
 * for themselves, and who takes their answer adds that to its own. Counting never fails and is
 * always on; a thread that works for no recording does not count.
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

/* Any number of readers. */
struct work {
	_Atomic uint64_t n[WORK_N];
};

/* Where the calling thread counts: in a struct that it alone writes, else in one that it
 * shares, else nowhere. The reads and opens below have no other way to know. */
extern _Thread_local struct work *work_own, *work_shared;

static inline void work_add(enum work_name name, uint64_t n)
{
	_Atomic uint64_t *own = work_own ? &work_own->n[name] : NULL;

	if (own)
		atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + n,
				      memory_order_relaxed);
	else if (work_shared)
		atomic_fetch_add_explicit(&work_shared->n[name], n, memory_order_relaxed);
}

/* What another thread counted in @w is the calling thread's, too. */
static inline void work_take(const struct work *w)
{
	for (unsigned i = 0; i < WORK_N; i++)
		work_add((enum work_name)i,
			 atomic_load_explicit(&w->n[i], memory_order_relaxed));
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
	uint64_t ns, cpu_ns; /* since the origin's; CPU time of the whole process */
	uint64_t syscalls;   /* since syscall_count_open(); UINT64_MAX: not counted */
};

/* From when on moments are counted. */
struct work_origin {
	uint64_t ns;	 /* CLOCK_MONOTONIC */
	int syscalls_fd; /* syscall_count_open(); 0 or less: they are not counted */
};

/* Time and system calls by now, and nothing counted yet: work_add_to(). */
void work_look(const struct work_origin *origin, struct work_moment *ret);

/* Add what is counted in @w to @m. */
void work_add_to(struct work_moment *m, const struct work *w);

/* Name of counter @i, or NULL past the end. */
const char *work_name(unsigned i);

#endif
