/* SPDX-License-Identifier: MIT
 *
 * pystack_live - is what was walked the thread's stack, or was it caught between two stores?
 *
 * Up to 3.12 every activation of the evaluation loop publishes a _PyCFrame on the C stack and
 * fills it in only some instructions later. Until then it holds what earlier calls left there,
 * often the address of a frame: one that has ended, or not the newest. From that one too a
 * whole stack can be walked. Two facts that hold at every other moment tell:
 * the frames below the activation are those that the one before it stands in, and the frames
 * of functions lie one behind the other on the data stack, up to its top.
 */
#include "python/pystack_int.h"

enum { CHUNK_HEAD = 64 };

/* The first frame from @i on with one of @bits; w->n: none. */
static uint32_t next_with(const struct pystack *p, const struct pywalk *w, uint32_t i,
			  uint64_t bits)
{
	while (i < w->n && !(p->walked[i].frame & bits))
		i++;
	return i;
}

uint32_t pystack_next_function(const struct pystack *p, const struct pywalk *w, uint32_t i)
{
	while (i < w->n && (p->walked[i].frame & (PYFRAME_SHIM | PYFRAME_GENERATOR)))
		i++;
	return i;
}

static uint64_t boundary(const struct pystack_target *t)
{
	return t->walk.owner_shim ? PYFRAME_SHIM : PYFRAME_ENTRY;
}

bool pystack_begins_in(struct pystack *p, const struct pystack_target *t, struct thread *th,
		       const struct pywalk *w, raddr cframe, uint32_t i)
{
	raddr before, at, next = 0;

	if (rmem_read_u64(p->mem, cframe + t->walk.cf_prev, &before) < 0 ||
	    rmem_read_u64(p->mem, before + t->walk.cf_frame, &at) < 0)
		return false;
	pystack_plan(th, before, before + CFRAME_BYTES);
	if (i + 1 < w->n)
		next = pystack_frame_at(p, i + 1);
	else if (w->end == PYWALK_LIMIT)
		next = w->next;
	return at == next;
}

/* Is @exc, a value of tstate.exc_info, what the newest generator from frame @i on keeps, or the
 * thread if there is none? */
static bool is_exc_from(const struct pystack *p, const struct pystack_target *t,
			const struct thread *th, const struct pywalk *w, uint32_t i, raddr exc)
{
	i = next_with(p, w, i, PYFRAME_GENERATOR);
	if (i == w->n)
		return exc - th->tstate < t->layout.tstate.size;
	return exc - pyoff_get(t->layout.gen.exc_state) ==
	       pystack_frame_at(p, i) - pyoff_get(t->layout.gen.frame);
}

/* 3.11: in throw() the newest frames are those of generators that delegate to others, linked
 * without an activation (_gen_throw()). How many? They say that they were entered, but not in
 * this activation; and exc_info is not theirs, as it is of one that runs. */
static uint32_t count_throwing(struct pystack *p, const struct pystack_target *t,
			       struct thread *th, const struct pywalk *w)
{
	const uint64_t bits = PYFRAME_ENTRY | PYFRAME_GENERATOR;
	uint32_t i = 0;
	raddr exc;

	while (i < w->n && (p->walked[i].frame & bits) == bits &&
	       !pystack_begins_in(p, t, th, w, w->cframe, i))
		i++;
	if (!i || !pyoff_has(t->layout.tstate.exc_info) || !pyoff_has(t->layout.gen.frame) ||
	    rmem_read_u64(p->mem, th->tstate + pyoff_get(t->layout.tstate.exc_info), &exc) < 0)
		return 0;
	return is_exc_from(p, t, th, w, i, exc) ? i : 0;
}

bool pystack_follows(struct pystack *p, const struct pystack_target *t, struct thread *th,
		     const struct pywalk *w)
{
	uint32_t i = next_with(p, w, count_throwing(p, t, th, w), boundary(t));

	if (i == w->n) /* cut above it; or no frame at all, in the thread's own _PyCFrame */
		return w->n || w->cframe - th->tstate < t->layout.tstate.size;
	return pystack_begins_in(p, t, th, w, w->cframe, i);
}

raddr pystack_end_of(const struct pystack *p, uint32_t i)
{
	return pystack_frame_at(p, i) + (p->seen[i].code ? p->seen[i].code->frame_size : 0);
}

/* A frame that ends, and whose objects are being freed, or one whose arguments are being
 * put in order is not linked, but takes its place. */
static bool is_frame(struct pystack *p, const struct pystack_target *t, raddr at, raddr end)
{
	unsigned char head[PYCODE_HEAD_MAX];
	raddr code;

	return at < end && rmem_read_u64(p->mem, at + t->walk.fr_code, &code) == 0 &&
	       rmem_read(p->mem, code, head, t->layout.code.size) == 0 &&
	       at + pycode_frame_size(&t->layout, head) == end;
}

bool pystack_is_stacked(struct pystack *p, const struct pystack_target *t,
			const struct thread *th, const struct pywalk *w)
{
	uint32_t i = pystack_next_function(p, w, 0), j = pystack_next_function(p, w, i + 1);
	raddr at, below;

	if (i >= w->n)
		return true;
	at = pystack_frame_at(p, i);
	if (at >= th->chunk && at < th->limit && pystack_end_of(p, i) > th->top) {
		/* 3.11 takes a frame off the data stack before it unlinks it. */
		if (at != th->top || (p->walked[i].frame & PYFRAME_ENTRY) ||
		    t->walk.owner_shim)
			return false;
	}
	if (j >= w->n || at % (1 << PAGE_SHIFT) < CHUNK_HEAD)
		return true; /* nothing below, or first in its chunk */
	below = pystack_end_of(p, j);
	if (at == below)
		return true;
	return next_with(p, w, i, boundary(t)) < j && is_frame(p, t, below, at);
}

bool pystack_is_exc_of(const struct pystack *p, const struct pystack_target *t,
		       const struct thread *th, const struct pywalk *w, raddr exc)
{
	return is_exc_from(p, t, th, w, 0, exc);
}

/* From 3.12 on greenlet links the frames of a greenlet that it switches away from directly to
 * each other, the oldest to none, until it is switched to. It has made frame objects of them
 * all before; one that is not linked yet, or not any more, has none or is not its frame. */
bool pystack_is_exposed(struct pystack *p, const struct pystack_target *t,
			const struct pywalk *w)
{
	raddr last, object, frame;

	if (!w->n || !t->walk.owner_shim || !pyoff_has(t->layout.frame.object))
		return false;
	last = p->walked[w->n - 1].frame;
	if (last & (PYFRAME_SHIM | PYFRAME_GENERATOR) ||
	    rmem_read_u64(p->mem, last + pyoff_get(t->layout.frame.object), &object) < 0 ||
	    !object)
		return false;
	/* PyObject_HEAD ends with the type; then come f_back and f_frame. */
	object += pyoff_get(t->layout.object.type) + 16;
	return rmem_read_u64(p->mem, object, &frame) == 0 && frame == last;
}

/* The newest frame that is alive is a function's that has begun, so its predecessors are
 * right, if it ends where the data stack does and no generator is newer. */
static bool has_newest(struct pystack *p, const struct pystack_target *t,
		       const struct thread *th, const struct pywalk *w)
{
	const struct pylayout *l = &t->layout;
	raddr at, exc;

	if (!w->n || pystack_next_function(p, w, 0) || !pyoff_has(l->tstate.exc_info) ||
	    !pyoff_has(l->gen.frame))
		return false;
	at = pystack_frame_at(p, 0);
	return at >= th->chunk && at < th->top && pystack_end_of(p, 0) == th->top &&
	       p->seen[0].code && pystack_has_begun(p->seen[0].code, &p->walked[0]) &&
	       rmem_read_u64(p->mem, th->tstate + pyoff_get(l->tstate.exc_info), &exc) == 0 &&
	       pystack_is_exc_of(p, t, th, w, exc);
}

bool pystack_is_live(struct pystack *p, const struct pystack_target *t,
		     const struct thread *th, const struct pywalk *w)
{
	return t->walk.cf_frame == PYWALK_NONE ?
		       w->end == PYWALK_BROKEN :
		       has_newest(p, t, th, w) && pystack_is_stacked(p, t, th, w);
}
