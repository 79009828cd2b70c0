/* SPDX-License-Identifier: MIT
 *
 * memory_plan - how large rings and queues are on so many CPUs. Pure.
 */
#include "attach/memory_plan.h"

#include <errno.h>

#include "attach/attach_plan.h"
#include "base/base.h"

enum {
	QUEUE_BYTES = 2 << 20,
	QUEUE_MAX = 32 << 20,
	SAMPLE_BYTES = 20 << 10,
	STACKS_BYTES = 256 << 10, /* of the longest sample besides its frames */
	FRAME_BYTES = 32,	  /* of a queue, for each frame and its activation */
	READ_BYTES = 256,	  /* of a reader, for each frame that it may read */
	WAIT_MS = 150,
};

/* Frames and activations of the deepest stack, if it is a deep one. */
static size_t deep_bytes(uint32_t frames)
{
	return frames > MEMORY_FRAMES ? (size_t)frames * FRAME_BYTES : 0;
}

size_t memory_plan_queue(uint64_t rate, bool native, uint32_t frames)
{
	uint64_t sample = (native ? SAMPLE_BYTES : 0) + deep_bytes(frames);
	uint64_t want = rate * sample * WAIT_MS / 1000;
	size_t n = QUEUE_BYTES;

	while (n < want && n < QUEUE_MAX)
		n *= 2;
	return n;
}

static size_t all_bytes(const struct memory_wants *w, size_t pages, size_t queue)
{
	size_t reader = MEMORY_READER + deep_bytes(w->frames) / FRAME_BYTES * READ_BYTES;

	return w->cpus * ((pages + 1) * w->page + queue + reader);
}

static size_t least_queue(const struct memory_wants *w)
{
	size_t n = MEMORY_QUEUE_MIN;

	while (deep_bytes(w->frames) && n < 2 * (STACKS_BYTES + deep_bytes(w->frames)))
		n *= 2;
	return n;
}

/* The larger one is halved, if it can be. False: neither can. */
static bool shrink(const struct memory_wants *w, size_t *pages, size_t *queue)
{
	size_t fewer = attach_plan_fewer_pages(*pages);

	if (*queue > least_queue(w) && (!fewer || *queue >= *pages * w->page))
		*queue /= 2;
	else if (fewer)
		*pages = fewer;
	else
		return false;
	return true;
}

static void explain(const struct memory_wants *w, struct memory_plan *p, size_t limit)
{
	if (p->ring_pages == w->ring_pages && p->queue == w->queue)
		return;
	snprintf(p->why, sizeof(p->why),
		 "within %zu MiB (--memory) %zu CPUs get rings of %zu KiB and queues of %zu "
		 "KiB, "
		 "where %zu and %zu were wanted: a busy machine may lose samples sooner "
		 "(lost=)",
		 limit >> 20, w->cpus, p->ring_pages * w->page >> 10, p->queue >> 10,
		 w->ring_pages * w->page >> 10, w->queue >> 10);
}

int memory_plan_make(const struct memory_wants *w, struct memory_plan *ret, struct err *err)
{
	size_t limit = w->limit ? w->limit : MEMORY_DEFAULT;

	*ret = (struct memory_plan){ .ring_pages = w->ring_pages, .queue = w->queue };
	while (all_bytes(w, ret->ring_pages, ret->queue) > limit &&
	       shrink(w, &ret->ring_pages, &ret->queue))
		;
	ret->bytes = all_bytes(w, ret->ring_pages, ret->queue);
	if (ret->bytes > limit && w->limit)
		return err_set(err, -ENOMEM,
			       "--memory %zuK is too little: the rings, queues and readers of "
			       "%zu CPUs need %zuM at least",
			       limit >> 10, w->cpus, (ret->bytes + (1 << 20) - 1) >> 20);
	explain(w, ret, MAX(limit, ret->bytes));
	return 0;
}
