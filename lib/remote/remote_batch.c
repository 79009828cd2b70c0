/* SPDX-License-Identifier: MIT */
#include "remote/remote_batch.h"

#include <string.h>

#include "base/base.h"

/* Number of held ranges that begin at or below @at; they are in ascending order. */
static uint32_t begin_below(const struct rmem_batch *b, raddr at)
{
	return (uint32_t)rows_up_to(b->have, b->n_have, sizeof(b->have[0]), at);
}

/* Ranges seldom overlap: the last few that begin below are enough to look at. */
static const unsigned char *held(const struct rmem_batch *b, raddr at, size_t n)
{
	uint32_t i = begin_below(b, at);

	for (int k = 0; k < 3 && i > 0; k++) {
		i--;
		if (n <= b->have[i].n && at - b->have[i].at <= b->have[i].n - n)
			return b->bytes + b->have[i].off + (at - b->have[i].at);
	}
	return NULL;
}

/* Takes its place among the held ones; at most one free place behind them is used. */
static void keep(struct rmem_batch *b, struct rmem_range range)
{
	uint32_t i = begin_below(b, range.at);

	memmove(&b->have[i + 1], &b->have[i], (b->n_have - i) * sizeof(b->have[0]));
	b->have[i] = range;
	b->n_have++;
}

bool rmem_batch_holds(const struct rmem_batch *b, raddr at, size_t n)
{
	return held(b, at, n) != NULL;
}

/* A fill is FILL_PAGES pieces; the uppermost may reach half a page into the next. */
enum {
	HOLES_MAX = 3,
	PAGE = 4096,
	FILL_PAGES = 4,
	FILL_ROOM = (FILL_PAGES + 1) * PAGE,
	NEAR = 64 << 10
};

/* Bring [at, at + n) and what lies below it, page by page downwards: a hole ends
 * the transfer and what came before it is kept, in one contiguous piece. */
static int fill_down(struct rmem_batch *b, raddr at, void *buf, size_t n)
{
	struct rmem_vec v[FILL_PAGES];
	raddr top = at + n, lo = top;
	size_t got, i;
	uint32_t end;

	b->n_want = 0; /* their place is taken */
	if (b->n_have == BATCH_RANGES || BATCH_BYTES - b->used < FILL_ROOM)
		rmem_batch_reset(b);
	end = b->used + FILL_ROOM;
	for (i = 0; i < FILL_PAGES; i++) {
		raddr low = i ? lo - PAGE : (at & ~(raddr)(PAGE - 1));

		v[i] = (struct rmem_vec){ .at = low,
					  .buf = b->bytes + end - (top - low),
					  .n = lo - low };
		lo = low;
	}
	got = rmem_readv(b->below, v, FILL_PAGES);
	if (got == 0)
		return rmem_read(b->below, at, buf, n);
	lo = v[got - 1].at;
	keep(b, (struct rmem_range){ .at = lo,
				     .n = (uint32_t)(top - lo),
				     .off = end - (uint32_t)(top - lo) });
	b->used = end;
	memcpy(buf, b->bytes + end - n, n);
	return 0;
}

static int batch_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct rmem_batch *b = container_of(m, struct rmem_batch, base);
	const unsigned char *p = held(b, at, n);

	if (!p) {
		bool deep =
			b->missed > at && b->missed - at < NEAR && n <= PAGE / 2 && at > NEAR;

		b->missed = at;
		return deep ? fill_down(b, at, buf, n) : rmem_read(b->below, at, buf, n);
	}
	memcpy(buf, p, n);
	return 0;
}

static size_t batch_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct rmem_batch *b = container_of(m, struct rmem_batch, base);
	size_t i;

	for (i = 0; i < n && held(b, v[i].at, v[i].n); i++)
		memcpy(v[i].buf, held(b, v[i].at, v[i].n), v[i].n);
	return i + rmem_readv(b->below, v + i, n - i);
}

static const struct rmem_ops batch_ops = {
	.name = "batch",
	.read = batch_read,
	.readv = batch_readv,
};

void rmem_batch_init(struct rmem_batch *b, struct rmem *below, unsigned char *bytes)
{
	b->base.ops = &batch_ops;
	b->below = below;
	b->bytes = bytes;
	rmem_batch_reset(b); /* what lies behind n_have need not be cleared, for each sample */
}

void rmem_batch_reset(struct rmem_batch *b)
{
	b->n_have = b->n_want = b->used = 0;
	b->missed = 0;
}

void rmem_batch_want(struct rmem_batch *b, raddr at, size_t n)
{
	uint32_t i = b->n_have + b->n_want;

	if (i == BATCH_RANGES || n == 0 || n > BATCH_BYTES - b->used || held(b, at, n))
		return;
	b->have[i].at = at;
	b->have[i].n = (uint32_t)n;
	b->have[i].off = b->used;
	b->used += (uint32_t)(n + 7) & ~7u;
	b->used = MIN(b->used, BATCH_BYTES);
	b->n_want++;
}

void rmem_batch_put(struct rmem_batch *b, raddr at, struct bytes bytes)
{
	if (b->n_want || b->n_have == BATCH_RANGES || bytes.n == 0 ||
	    bytes.n > BATCH_BYTES - b->used)
		return;
	memcpy(b->bytes + b->used, bytes.at, bytes.n);
	keep(b, (struct rmem_range){ .at = at, .n = (uint32_t)bytes.n, .off = b->used });
	b->used += (uint32_t)(bytes.n + 7) & ~7u;
	b->used = MIN(b->used, BATCH_BYTES);
}

/* @n ranges from @from on, in one call; those read are moved down to the held ones.
 * Returns how many were read. */
static uint32_t fetch_some(struct rmem_batch *b, uint32_t from, uint32_t n)
{
	struct rmem_vec v[RMEM_MAX_VEC];
	uint32_t got;

	for (uint32_t i = 0; i < n; i++)
		v[i] = (struct rmem_vec){
			.at = b->have[from + i].at,
			.buf = b->bytes + b->have[from + i].off,
			.n = b->have[from + i].n,
		};
	got = (uint32_t)rmem_readv(b->below, v, n);
	for (uint32_t i = 0; i < got; i++)
		keep(b, b->have[from + i]);
	return got;
}

void rmem_batch_fetch(struct rmem_batch *b)
{
	uint32_t from = b->n_have, end = from + b->n_want, holes = 0;

	while (from < end && holes < HOLES_MAX) {
		uint32_t n = MIN(end - from, (uint32_t)RMEM_MAX_VEC);
		uint32_t got = fetch_some(b, from, n);

		from += got;
		if (got < n) {
			from++;
			holes++;
		}
	}
	b->n_want = 0;
}
