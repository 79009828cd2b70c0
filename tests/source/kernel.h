/* SPDX-License-Identifier: MIT
 *
 * kernel - what stands in for the kernel in a recording of a fake source: perf events and
 * their rings, memory of processes that are not there, and more CPUs than this machine has.
 * The linker puts its functions before libc's and pysampled's own (--wrap, meson.build).
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdint.h>
#include <sys/types.h>

#include "perf_event.h"

enum { KERNEL_MAX_CPUS = 64, KERNEL_FDS = 4096 };

/* Made-up processes have these numbers, which a machine gives out last. */
enum { KERNEL_FIRST_PID = 4100000, KERNEL_LAST_PID = 4190000 };

/* A CPU's ring, and the ids of the events that the recording has there. Set by the recording's
 * control thread before its samples are asked for; constant from then on. */
struct kernel_cpu {
	struct perf_event_mmap_page *page;
	unsigned char *data;
	uint64_t size;
	int fd;
	uint64_t sample_id, witness_id; /* 0: there is none */
};
extern struct kernel_cpu kernel_cpus[KERNEL_MAX_CPUS];
extern int kernel_n_cpus; /* set before kernel_begin() */

struct world;

/* Before a recording. @world is the memory of @root, a process that exists, and of all that
 * are made up; it does not change any more. */
void kernel_begin(pid_t root, struct world *world, uint64_t thread_at);

/* A record of @n bytes, at most a part of the ring, into @cpu's ring; waits for room. Returns
 * the ring's head behind it. Of one CPU by one thread. */
uint64_t kernel_write(int cpu, const void *record, size_t n);

/* Wake @cpu's reader as a sample does. */
void kernel_wake(int cpu);

/* Wait until @cpu's reader has consumed its ring up to @to. */
void kernel_wait(int cpu, uint64_t to);

#endif
