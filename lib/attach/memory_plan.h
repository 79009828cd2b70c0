/* SPDX-License-Identifier: MIT
 *
 * memory_plan - how large rings and queues may be where there are many CPUs: pure.
 *
 * Each CPU that is watched has a ring (memory that is locked), queues and a reader. Rings and
 * queues shrink until all of them fit under a bound; a smaller one is full sooner when its
 * reader, or the resolver, gets no CPU for a while, and what is lost then is counted.
 */
#ifndef MEMORY_PLAN_H
#define MEMORY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	MEMORY_DEFAULT = 256 << 20,
	/* What a reader and its tables touch: 300 KiB by a program with a thousand code
	 * objects, and they grow with its code, threads and depth. */
	MEMORY_READER = 512 << 10,
	/* Twice the longest sample: 64 KiB of stack, 128 KiB read later, MEMORY_FRAMES. */
	MEMORY_QUEUE_MIN = 512 << 10,
	/* With more frames than these in a stack, a reader and the longest sample take more.
	 */
	MEMORY_FRAMES = 1024,
};

struct memory_wants {
	size_t limit; /* bytes; 0: MEMORY_DEFAULT, or as much more as the least needs */
	size_t cpus;
	size_t page;	   /* bytes */
	size_t ring_pages; /* data pages of a ring, a power of two */
	size_t queue;	   /* bytes of a queue, a power of two */
	uint32_t frames;   /* of the deepest stack */
};

struct memory_plan {
	size_t ring_pages, queue;
	size_t bytes;  /* of all CPUs at most, as far as MEMORY_READER holds */
	char why[300]; /* what is smaller than wanted, a sentence; "" if nothing is */
};

/* Bytes that a CPU's queue should have: what its samples take at @rate a second, with stack
 * bytes if @native and all @frames if these are many, for as long as a busy machine may keep
 * the inbox's thread waiting; 0: not known. A power of two. */
size_t memory_plan_queue(uint64_t rate, bool native, uint32_t frames);

/* 0; -ENOMEM with a sentence: @w->limit is less than the least. */
int memory_plan_make(const struct memory_wants *w, struct memory_plan *ret, struct err *err);

#endif
