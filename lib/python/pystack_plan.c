/* SPDX-License-Identifier: MIT
 *
 * pystack_plan - what the next walk of a thread will read, so that one call brings it.
 */
#include "python/pystack_int.h"

void pystack_fetch(struct pystack *p, const struct thread *th)
{
	rmem_batch_want(&p->batch, th->tstate, TSTATE_BYTES);
	for (uint32_t i = 0; i < th->n_regions; i++) {
		raddr hi = th->region[i].hi;

		if (hi < th->limit && th->limit - hi < CHUNK_MAX)
			hi = MIN(hi + SLACK, th->limit);
		rmem_batch_want(&p->batch, th->region[i].lo, hi - th->region[i].lo);
	}
	if (p->want_n)
		rmem_batch_want(&p->batch, p->want_at, p->want_n);
	p->want_n = 0;
	rmem_batch_fetch(&p->batch);
}

void pystack_fetch_chunk(struct pystack *p, const struct pystack_target *t, struct thread *th)
{
	raddr at[3]; /* datastack_chunk, datastack_top, datastack_limit */
	raddr from;

	th->chunk = th->top = th->limit = 0;
	if (!pyoff_has(t->layout.tstate.datastack_chunk) ||
	    rmem_read(p->mem, th->tstate + pyoff_get(t->layout.tstate.datastack_chunk), at,
		      sizeof(at)) < 0)
		return;
	if (at[1] <= at[0] || at[1] - at[0] > CHUNK_MAX)
		return;
	th->chunk = at[0];
	th->top = at[1];
	th->limit = at[2];
	from = at[0];
	for (uint32_t i = 0; i < th->n_regions; i++) {
		raddr hi = MIN(th->region[i].hi + SLACK, at[1]);

		if (th->region[i].lo < at[1] && hi > from &&
		    rmem_batch_holds(&p->batch, hi - 1, 1))
			from = hi;
	}
	if (from < at[1]) {
		/* A frame may begin below the held part's end. */
		from = from - at[0] > SLACK ? (from - SLACK) & ~(raddr)7 : at[0];
		rmem_batch_want(&p->batch, from, at[1] - from);
		rmem_batch_fetch(&p->batch);
	}
}

/* Ranges in the same page or in adjacent ones are one: a page costs as much as a piece of
 * a batch, and no page between them can be a hole. */
static bool joins(const struct region *r, raddr lo, raddr hi)
{
	return lo >> PAGE_SHIFT <= ((r->hi - 1) >> PAGE_SHIFT) + 1 &&
	       r->lo >> PAGE_SHIFT <= ((hi - 1) >> PAGE_SHIFT) + 1 &&
	       MAX(r->hi, hi) - MIN(r->lo, lo) <= REGION_MAX;
}

/* Index of the first region that begins above @at; they are in ascending order. */
static uint32_t region_above(const struct thread *th, raddr at)
{
	return (uint32_t)rows_up_to(th->region, th->n_regions, sizeof(th->region[0]), at);
}

static void region_insert(struct thread *th, uint32_t i, raddr lo, raddr hi)
{
	if (th->n_regions == N_REGIONS)
		return;
	memmove(&th->region[i + 1], &th->region[i],
		(th->n_regions - i) * sizeof(th->region[0]));
	th->region[i] = (struct region){ .lo = lo, .hi = hi, .walk = th->walks };
	th->n_regions++;
}

void pystack_plan(struct thread *th, raddr lo, raddr hi)
{
	uint32_t i = region_above(th, lo);
	struct region *r;

	/* The state itself is fetched whatever is planned. */
	if (hi <= lo || (lo >= th->tstate && hi <= th->tstate + TSTATE_BYTES))
		return;
	if (i > 0 && joins(&th->region[i - 1], lo, hi))
		i--;
	else if (i == th->n_regions || !joins(&th->region[i], lo, hi)) {
		region_insert(th, i, lo, hi);
		return;
	}
	r = &th->region[i];
	r->lo = MIN(r->lo, lo);
	r->hi = MAX(r->hi, hi);
	r->walk = th->walks;
}

void pystack_plan_next(struct thread *th, const struct pystack_target *t,
		       const struct pyframe *f, const struct pywalk *w)
{
	uint32_t n = 0;

	if (++th->walks % PLAN_AGE == 0) {
		th->n_regions = 0;
		th->hole = 0;
	}
	if (w->cframe)
		pystack_plan(th, w->cframe, w->cframe + CFRAME_BYTES);
	for (uint32_t i = 0; i < w->n; i++) {
		raddr at = f[i].frame & ~(raddr)PYFRAME_BITS;

		pystack_plan(th, at, at + t->walk.fr_size);
	}
	for (uint32_t i = 0; i < th->n_regions; i++)
		if (th->walks - th->region[i].walk < REGION_AGE)
			th->region[n++] = th->region[i];
	th->n_regions = n;
}
