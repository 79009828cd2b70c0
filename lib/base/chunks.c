/* SPDX-License-Identifier: MIT
 *
 * chunks - pieces of memory that are given back together, from chunks that are used again.
 */
#include "base/chunks.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/base.h"

enum { CHUNK = 256 << 10, ALIGN = 16, AGE = 64 };

struct chunk {
	struct chunk *next; /* spare */
	size_t size, used;  /* bytes, this struct too */
	_Atomic size_t n;   /* pieces that are out, and one while it is open */
};

/* In front of each piece. */
struct piece {
	struct chunk *of;
	_Alignas(ALIGN) unsigned char at[];
};

static size_t align(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

void chunks_init(struct chunks *c)
{
	*c = (struct chunks){ 0 };
	pthread_mutex_init(&c->lock, NULL);
}

static void drop_spare(struct chunks *c)
{
	struct chunk *k = c->spare;

	c->spare = k->next;
	c->n_spare--;
	munmap(k, k->size);
}

/* Nobody has a piece of @k any more. */
static void take_back(struct chunks *c, struct chunk *k)
{
	c->n_used--;
	if (k->size != CHUNK || c->n_used + c->n_spare >= c->n_kept) {
		munmap(k, k->size);
		return;
	}
	k->next = c->spare;
	c->spare = k;
	c->n_spare++;
}

static void let_go(struct chunks *c, struct chunk *k)
{
	if (atomic_fetch_sub(&k->n, 1) == 1)
		take_back(c, k);
}

void chunks_deinit(struct chunks *c)
{
	if (c->open)
		let_go(c, c->open);
	while (c->spare)
		drop_spare(c);
	pthread_mutex_destroy(&c->lock);
}

/* With room for @n bytes. */
static struct chunk *chunk_make(struct chunks *c, size_t n)
{
	size_t size = MAX((size_t)CHUNK, n + align(sizeof(struct chunk)));
	struct chunk *k = size == CHUNK ? c->spare : NULL;

	if (k) {
		c->spare = k->next;
		c->n_spare--;
	} else {
		k = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	}
	if (k == MAP_FAILED)
		return NULL;
	k->size = size;
	k->used = align(sizeof(*k));
	atomic_init(&k->n, 1);
	c->n_used++;
	c->n_most = MAX(c->n_most, c->n_used);
	c->n_kept = MAX(c->n_kept, c->n_used);
	return k;
}

/* The open chunk, where @n bytes have room. */
static struct chunk *chunk_with(struct chunks *c, size_t n)
{
	struct chunk *k = c->open;

	if (k && n <= k->size - k->used)
		return k;
	pthread_mutex_lock(&c->lock);
	if (k)
		let_go(c, k);
	k = c->open = chunk_make(c, n);
	pthread_mutex_unlock(&c->lock);
	return k;
}

void *chunks_get(struct chunks *c, size_t n)
{
	size_t all = align(sizeof(struct piece) + n);
	struct chunk *k = chunk_with(c, all);
	struct piece *p;

	if (!k)
		return NULL;
	p = (void *)((unsigned char *)k + k->used);
	k->used += all;
	atomic_fetch_add(&k->n, 1);
	p->of = k;
	return p->at;
}

void chunks_put(struct chunks *c, void *piece)
{
	struct piece *p = (void *)((unsigned char *)piece - offsetof(struct piece, at));
	struct chunk *k = p->of;

	if (atomic_fetch_sub(&k->n, 1) != 1)
		return;
	pthread_mutex_lock(&c->lock);
	take_back(c, k);
	pthread_mutex_unlock(&c->lock);
}

void chunks_age(struct chunks *c)
{
	pthread_mutex_lock(&c->lock);
	if (++c->n_aged % AGE == 0) {
		c->n_kept = c->n_most;
		c->n_most = c->n_used;
	}
	while (c->spare && c->n_used + c->n_spare > c->n_kept)
		drop_spare(c);
	pthread_mutex_unlock(&c->lock);
}
