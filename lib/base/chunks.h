/* SPDX-License-Identifier: MIT
 *
 * chunks - memory for what is given back in about the order in which it was asked for.
 *
 * Many pieces lie in one chunk, which is used again when all of them are given back: malloc
 * would return such pieces to the kernel by the megabyte and have it clear new pages.
 * What was needed at most of late is kept.
 */
#ifndef CHUNKS_H
#define CHUNKS_H

#include <pthread.h>
#include <stddef.h>

struct chunk;

struct chunks {
	pthread_mutex_t lock; /* all below */
	struct chunk *open;   /* pieces are cut from it; NULL: none yet */
	struct chunk *spare;
	size_t n_used, n_spare; /* chunks with pieces, @open too; without */
	size_t n_kept;		/* of both together, unless more are needed */
	size_t n_most, n_aged;	/* used at once of late; calls of chunks_age() */
};

void chunks_init(struct chunks *c);
void chunks_deinit(struct chunks *c); /* every piece was given back */

/* A piece of @n bytes, aligned for any struct; NULL: no memory. One thread at a time. */
void *chunks_get(struct chunks *c, size_t n);
void chunks_put(struct chunks *c, void *piece); /* any thread */

/* To be called now and then: what was not needed in the last 64 calls is given back, once in
 * as many. */
void chunks_age(struct chunks *c);

#endif
