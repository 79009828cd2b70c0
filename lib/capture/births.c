/* SPDX-License-Identifier: MIT */
#include "births.h"

#include <stdlib.h>

#include "../perf_decode.h"

struct birth {
	_Atomic uint64_t execed, mapped;
};

struct births {
	struct birth of[BIRTHS];
};

struct births *births_create(void)
{
	return calloc(1, sizeof(struct births));
}

void births_destroy(struct births *b)
{
	free(b);
}

static struct birth *birth_of(struct births *b, pid_t pid)
{
	return &b->of[(uint32_t)pid % BIRTHS];
}

/* Several readers may note the same record, and one an older one than another has noted. */
static void raise_to(_Atomic uint64_t *p, uint64_t time)
{
	uint64_t old = atomic_load_explicit(p, memory_order_relaxed);

	while (old < time && !atomic_compare_exchange_weak(p, &old, time))
		;
}

/* A mapping of code that belongs to a file, not of code that the process wrote itself. */
static bool maps_file(const struct perf_ring *ring, uint64_t pos,
		      const struct perf_event_header *h)
{
	/* Header, pid and tid, addr, len, pgoff, maj and min, ino. */
	enum { INO = 48 };
	uint64_t ino;

	if (h->type != PERF_RECORD_MMAP2 || (h->misc & PERF_RECORD_MISC_MMAP_DATA) ||
	    h->size < INO + sizeof(ino) + PERF_TRAILER)
		return false;
	/* Records begin at multiples of 8 bytes: none of their words wraps. */
	memcpy(&ino, ring->data + ((pos + INO) & (ring->size - 1)), sizeof(ino));
	return ino;
}

void births_note(struct births *b, const struct perf_ring *ring, uint64_t pos,
		 const struct perf_event_header *h, const unsigned char *trailer)
{
	bool execed = h->type == PERF_RECORD_COMM && (h->misc & PERF_RECORD_MISC_COMM_EXEC);
	struct perf_trailer t;

	if (!b || h->size < sizeof(*h) + PERF_TRAILER ||
	    (!execed && !maps_file(ring, pos, h)))
		return;
	perf_decode_trailer(trailer, &t);
	raise_to(execed ? &birth_of(b, t.pid)->execed : &birth_of(b, t.pid)->mapped, t.time);
}

uint64_t births_execed(struct births *b, pid_t pid)
{
	return b ? atomic_load_explicit(&birth_of(b, pid)->execed, memory_order_acquire) : 0;
}

uint64_t births_mapped(struct births *b, pid_t pid)
{
	return b ? atomic_load_explicit(&birth_of(b, pid)->mapped, memory_order_acquire) : 0;
}
