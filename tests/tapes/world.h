/* SPDX-License-Identifier: MIT
 *
 * world - what the system is to the readers of a replay: clock, CPU and other processes'
 * memory as a tape has them. This program's own process_vm_readv() and the like stand before
 * libc's; the calls of threads that are no readers go on to the system.
 */
#ifndef WORLD_H
#define WORLD_H

#include "script.h"

/* The memory of processes as it was seen last, byte for byte; what was never read is not
 * there. */
struct memory;
struct memory *memory_create(void);
void memory_destroy(struct memory *m);
void memory_put(struct memory *m, pid_t pid, uint64_t at, struct bytes bytes);

/* What the calling thread, a reader, is told from now on. */
struct world {
	uint64_t now;
	int cpu;
	struct script_item *items; /* of its current drain */
	size_t n_items, next_read;
	struct memory *memory;
	uint64_t others, misses; /* reads that the tape has of another moment, or not at all */
	uint64_t calls, pieces;	 /* of process_vm_readv(), in all */
};

/* NULL: it is no reader any more. */
void world_enter(struct world *w);

/* From now on no thread can open a file by its path or read another process: those of the
 * machine that was recorded are not here, and what has their names and numbers is something
 * else. What lies below a folder that is open can be opened. */
void world_without_system(bool without);

#endif
