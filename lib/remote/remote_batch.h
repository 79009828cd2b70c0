/* SPDX-License-Identifier: MIT
 *
 * remote_batch - read what a walk will need in one call, before it asks.
 *
 * A decorator over another reader. The caller announces ranges it expects to be
 * read; one rmem_readv() brings them, and later reads inside them cost nothing.
 * A call costs 1.6 us and a range 0.33 us, so a walk that
 * would be 20 calls becomes one. Reads outside go to the reader below; where a
 * read misses just below the last miss (a deep stack), four pages downwards are
 * brought at once. No allocation; made for one sample at a time.
 */
#ifndef REMOTE_BATCH_H
#define REMOTE_BATCH_H

#include "base/base.h"
#include "remote_mem.h"

enum { BATCH_RANGES = 192, BATCH_BYTES = 1 << 20 };

struct rmem_batch {
	struct rmem base;
	struct rmem *below; /* borrowed */
	struct rmem_range {
		raddr at;	 /* first: rows_up_to() */
		uint32_t n, off; /* off: where in bytes */
	} have[BATCH_RANGES];	 /* n_have held, ascending; then n_want announced */
	uint32_t n_have, n_want, used;
	raddr missed;	      /* the last read that was not held */
	unsigned char *bytes; /* BATCH_BYTES, borrowed */
};

/* @bytes: BATCH_BYTES of scratch that outlive the batch. */
void rmem_batch_init(struct rmem_batch *b, struct rmem *below, unsigned char *bytes);

/* Forget everything: a new sample begins. */
void rmem_batch_reset(struct rmem_batch *b);

/* Announce a range. Dropped silently when there is no room or it is held already:
 * a batch is an optimisation, never a precondition. */
void rmem_batch_want(struct rmem_batch *b, raddr at, size_t n);

/* Bytes that are known already; before anything is announced. Dropped when there is no
 * room. */
void rmem_batch_put(struct rmem_batch *b, raddr at, struct bytes bytes);

/* True: these bytes are held already. */
bool rmem_batch_holds(const struct rmem_batch *b, raddr at, size_t n);

/* Bring all announced ranges, RMEM_MAX_VEC in a call. One that is not readable ends its
 * call and is left out; after a few such the rest is left out too. So announce what is
 * sure to be mapped first. */
void rmem_batch_fetch(struct rmem_batch *b);

#endif
