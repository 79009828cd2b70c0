/* SPDX-License-Identifier: MIT
 *
 * pystack_place - does a thread state run on this thread? By where its frames lie.
 *
 * The number that a state bears is that of the thread which bound it: a fork that skips
 * PyOS_AfterFork_Child() leaves the forker's, and a state may be handed to another thread. But
 * each activation of the evaluation loop keeps something on the C stack. If that of a state
 * lies above the thread's stack pointer, and every page between can be read, it lies on the
 * same stack: for below each thread's stack there is a page that can't be.
 */
#include "python/pystack_int.h"

#include "arch/arch.h"

enum {
	PAGE_BYTES = 1 << PAGE_SHIFT,
	FAR = 64 << 20,	       /* no stack is larger */
	INNERMOST_MAX = 4096,  /* frames of one activation, where several states are looked at */
	LOOKED_MAX = 1024,     /* the same of one state, with those that were walked */
	SCAN_BYTES = 64 << 10, /* of a stack, looked through for the addresses of states */
};

/* Can each page of [lo, hi) be read? False as well if @hi lies below @lo. th->hole becomes the
 * page that can't be read. */
static bool contiguous(struct pystack *p, struct thread *th, raddr lo, raddr hi)
{
	struct rmem_vec v[RMEM_MAX_VEC];
	unsigned char byte[RMEM_MAX_VEC];
	size_t n, got, most = 4;

	if (hi < lo || hi - lo > FAR || (th->hole >= lo && th->hole < hi))
		return false;
	if (lo - p->stack_at <= p->stack.n) /* the sample's own bytes are all there */
		lo = p->stack_at + p->stack.n;
	while (lo < hi) {
		for (n = 0; n < most && lo < hi; n++) {
			v[n] = (struct rmem_vec){ lo, &byte[n], 1 };
			lo = (lo + PAGE_BYTES) & ~(raddr)(PAGE_BYTES - 1);
		}
		got = rmem_readv(p->mem, v, n);
		if (got < n) {
			th->hole = v[got].at;
			return false;
		}
		most = RMEM_MAX_VEC;
	}
	return true;
}

/* Does @at lie on the stack that the thread stands on now, or on the one that an earlier
 * sample has proven to be its own? */
static bool holds(struct pystack *p, struct thread *th, raddr at)
{
	raddr sp = p->place.sp;
	bool joins = sp < th->stack_hi && at >= th->stack_lo;

	if (at >= th->stack_lo && at < th->stack_hi)
		return true;
	if (!sp || at < sp)
		return false;
	if (joins && sp >= th->stack_lo) {
		if (!contiguous(p, th, th->stack_hi, at))
			return false;
	} else if (!contiguous(p, th, sp, at)) {
		return false;
	}
	th->stack_lo = joins ? MIN(th->stack_lo, sp) : sp;
	th->stack_hi = joins ? MAX(th->stack_hi, at + 8) : at + 8;
	return true;
}

/* True: @at lies below @pthread, on one stack with it. */
static bool is_below(struct pystack *p, struct thread *th, raddr at, raddr pthread)
{
	return at < pthread && contiguous(p, th, at, pthread);
}

/* Does @at lie on the stack that the thread began on? @pthread: the address of its struct
 * pthread, which the C library puts at that stack's end, but of a process's first thread. */
static bool is_home(struct pystack *p, const struct pystack_target *t, struct thread *th,
		    raddr at, raddr pthread)
{
	raddr sp = p->place.sp;

	if (th->tid != th->pid)
		return is_below(p, th, at, pthread);
	if (contiguous(p, th, at, t->root))
		return true;
	/* It may be a child's that another thread than the first has forked. */
	return is_below(p, th, at, pthread) && is_below(p, th, sp, pthread) &&
	       !contiguous(p, th, sp, t->root);
}

bool place_is_pthread(struct pystack *p, raddr pthread, pid_t inner)
{
	uint32_t tid;

	for (size_t i = 0; pthread && i < ARRAY_SIZE(arch_host->pthread_tid); i++)
		if (arch_host->pthread_tid[i] &&
		    rmem_read(p->mem, pthread + arch_host->pthread_tid[i], &tid,
			      sizeof(tid)) == 0 &&
		    tid == (uint32_t)inner)
			return true;
	return false;
}

bool place_is_number(const struct pystack *p, const struct thread *th, uint64_t number,
		     pid_t inner)
{
	return number == (uint64_t)inner ||
	       (th->tid == th->pid && p->place.forker && number == (uint64_t)p->place.forker);
}

enum place place_of(struct pystack *p, const struct pystack_target *t, struct thread *th,
		    const struct state_row *s, raddr at, pid_t inner)
{
	bool bound;

	if (place_is_number(p, th, s->number, inner)) {
		bool known = th->tid == th->pid ? t->root : s->pthread;

		if (!at || !known || holds(p, th, at))
			return PLACE_OURS;
		if (at == PLACE_LOST)
			return PLACE_UNKNOWN;
		if (is_home(p, t, th, at, s->pthread)) {
			th->stack_lo = at;
			th->stack_hi = MAX(th->stack_hi, at + 8);
			return PLACE_OURS;
		}
		return p->place.sp && is_home(p, t, th, p->place.sp, s->pthread) ?
			       PLACE_OTHERS :
			       PLACE_UNKNOWN;
	}
	if (!at || (p->place.sp && !holds(p, th, at)))
		return PLACE_OTHERS;
	bound = place_is_pthread(p, s->pthread, inner);
	/* What a thread left that ended, and whose stack this one has got: since the process
	 * was forked, for else its own state would be gone with it. */
	if (th->tid != th->pid)
		return p->place.sp && !bound ? PLACE_OURS : PLACE_OTHERS;
	return p->place.sp || (bound && is_home(p, t, th, at, s->pthread)) ? PLACE_OURS :
									     PLACE_OTHERS;
}

raddr place_on_stack(struct pystack *p, const struct pystack_target *t, raddr ts, raddr shim)
{
	raddr base;

	if (t->walk.ts_base == PYWALK_NONE ||
	    rmem_read_u64(p->mem, ts + t->walk.ts_base, &base) < 0)
		return shim;
	return shim == base ? 0 : shim;
}

/* The first shim from @frame on, of @most frames, or 0: then *@last was read last, and *@end is
 * why nothing else was. */
static raddr next_shim(struct pystack *p, const struct pystack_target *t, raddr frame,
		       int most, struct pyframe *last, enum pywalk_end *end)
{
	for (int i = 0; i < most; i++) {
		struct pywalk w;

		*last = (struct pyframe){ 0 };
		w = pyframe_walk_on(p->mem, &t->walk, frame, last, 1);
		*end = w.end;
		if (last->frame & PYFRAME_SHIM)
			return frame;
		if (w.end != PYWALK_LIMIT)
			return 0;
		frame = w.next;
	}
	return 0;
}

raddr place_innermost(struct pystack *p, const struct pystack_target *t, raddr ts, raddr frame)
{
	enum pywalk_end end;
	struct pyframe last;

	if (t->walk.cf_frame != PYWALK_NONE)
		return frame - ts < t->layout.tstate.size ? 0 : frame;
	return next_shim(p, t, frame, INNERMOST_MAX, &last, &end);
}

/* True: the frames that were walked lead into one another. */
static bool is_circle(const struct pystack *p, const struct pywalk *w)
{
	bool met = false;

	for (uint32_t i = 0; !met && i < w->n; i++)
		met = ((p->walked[i].frame ^ w->next) & ~(raddr)PYFRAME_BITS) == 0;
	return met;
}

/* Of a walk that was cut within the innermost activation. Deep ones are not looked through for each
 * sample. */
static raddr place_behind(struct pystack *p, const struct pystack_target *t, raddr ts,
			  const struct pywalk *w)
{
	enum pywalk_end end = PYWALK_LIMIT;
	struct pyframe last;
	raddr shim;

	if (is_circle(p, w))
		return PLACE_LOST;
	shim = next_shim(p, t, w->next, LOOKED_MAX - (int)w->n, &last, &end);
	if (shim || end == PYWALK_LIMIT)
		return shim ? place_on_stack(p, t, ts, shim) : 0;
	/* Below a compiled function there may be nothing. */
	return end == PYWALK_BROKEN && pycompiled_is(p->mem, &t->layout, &last, true, t->program,
						     pystack_compiled(p, t->program)) ?
		       0 :
		       PLACE_LOST;
}

raddr place_of_walk(struct pystack *p, const struct pystack_target *t, raddr ts,
		    const struct pywalk *w)
{
	if (t->walk.cf_frame != PYWALK_NONE)
		return w->cframe - ts < t->layout.tstate.size ? 0 : w->cframe;
	for (uint32_t i = 0; i < w->n; i++)
		if (p->walked[i].frame & PYFRAME_SHIM)
			return place_on_stack(p, t, ts,
					      p->walked[i].frame & ~(raddr)PYFRAME_BITS);
	/* Up to 3.10 no frame is on the C stack. */
	return w->end == PYWALK_LIMIT && t->walk.owner_shim ? place_behind(p, t, ts, w) : 0;
}

/* --- what stands on the stack --- */

static void mark(struct states *s, uint64_t word)
{
	size_t i;

	if (word < s->at[0] || word > s->at[s->n - 1])
		return;
	i = rows_up_to(s->at, s->n, sizeof(s->at[0]), word);
	if (i && s->at[i - 1] == word)
		s->seen[i - 1] = true;
}

static void mark_words(struct states *s, raddr at, const unsigned char *bytes, size_t n)
{
	for (size_t i = -at & 7; i + 8 <= n; i += 8)
		mark(s, load_u64(bytes + i));
}

void place_scan(struct pystack *p, struct states *s, bool deep)
{
	unsigned char page[PAGE_BYTES];
	raddr at = p->place.sp, end = at + SCAN_BYTES;

	memset(s->seen, 0, s->n * sizeof(s->seen[0]));
	if (!at || !s->n)
		return;
	mark_words(s, 0, p->place.regs.at, p->place.regs.n);
	if (p->stack_at == at) {
		mark_words(s, at, p->stack.at, p->stack.n);
		at += p->stack.n;
	}
	while (deep && at < end) {
		size_t n = PAGE_BYTES - at % PAGE_BYTES;

		if (rmem_read(p->mem, at, page, n) < 0)
			break;
		mark_words(s, at, page, n);
		at += n;
	}
}
