/* SPDX-License-Identifier: MIT
 *
 * fake_drain - a reader without its thread, and a capture that lets all samples wait: what a
 * record does to them can be looked at.
 */
#ifndef FAKE_DRAIN_H
#define FAKE_DRAIN_H

#include "fake_ring.h"

static int flushed;

static inline void count_flush(struct reader *r)
{
	flushed++;
	r->n_pend = 0;
}

static struct capture_ops keeping;

static inline struct reader *begin(struct fake *f)
{
	struct reader *r;

	keeping = fake_capture;
	keeping.read = capture_idle;
	keeping.flush = count_flush;
	keeping.resume = capture_idle;
	f->c.capture = &keeping;
	flushed = 0;
	fake_lay(f);
	r = reader_create(&f->c, &f->slots[0]);
	assert_non_null(r);
	return r;
}

/* What the ring has was scanned. */
static inline struct reader *take(struct fake *f)
{
	struct reader *r = begin(f);

	reader_drain(r, 0, false);
	return r;
}

/* One sample that waits; of it alone. */
static inline struct pending take_one(struct fake *f)
{
	struct reader *r = take(f);
	struct pending p = r->pend[0];

	assert_int_equal(r->n_pend, 1);
	reader_destroy(r);
	f->page[0].data_tail = f->page[0].data_head;
	return p;
}

static inline size_t n_waiting(struct fake *f)
{
	struct reader *r = take(f);
	size_t n = r->n_pend;

	reader_destroy(r);
	f->page[0].data_tail = f->page[0].data_head;
	return n;
}

#endif
