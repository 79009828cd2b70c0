/* SPDX-License-Identifier: MIT
 *
 * pystack_entry - a thread in the first instructions of an activation, up to 3.13.
 *
 * Compilers store the address of a new _PyCFrame into the thread state first and its two
 * fields, current_frame and previous, last. Between the two nothing leads to the caller's
 * frames, and what the fields hold is left over. But which frames are alive does not depend
 * on links: each function's frame lies on the data stack, one behind the other up to its top,
 * and the thread state's exc_info points into the newest generator that runs. So a candidate
 * for the caller's stack is proven if its frames, and the one that is entered, are all that
 * are alive. The one that is entered has not begun, so it is not there yet and the calling
 * line runs (CPython's rule), however far the entry has come.
 *
 * 3.12 runs a generator in the activation of who iterates over it or awaits it. Some compilers
 * publish its frame some instructions before it gets its predecessor, and take that away, when
 * it yields, before they publish the predecessor. The same proves who iterates.
 *
 * Where candidates come from does not matter then: they are _PyCFrames that may be the
 * previous one, as left over and on the stack above.
 *
 * 3.13 has no _PyCFrame. Compilers for aarch64 publish the frame first and fill in the shim
 * behind it, which leads to the caller, later. Candidates are frames whose addresses lie on
 * the stack, for what called is kept there, and they must be executing: one that has returned
 * and is being cleared is alive too, and not there any more. For a generator that C resumes they
 * are not looked for: it is only seen whether its shim leads past a function that executes.
 */
#include "python/pystack_int.h"

enum {
	FIRST_CHUNK_DATA = 32, /* _PyStackChunk's header, and one slot in the first one */
	CANDIDATES_MAX = 8,
	BEHIND_MAX = 64, /* frames of functions behind those that were walked */
	STACK_MAX = 64 << 20,
};

/* One search for the caller. */
struct entry {
	struct pystack *p;
	const struct pystack_target *t;
	struct thread *th;
	raddr cframe, first; /* of the walk that failed */
	raddr exc;	     /* tstate.exc_info */
	uint32_t cap;
	struct pywalk *w; /* the candidate */
};

static bool in_tstate(const struct entry *e, raddr at)
{
	return at - e->th->tstate < e->t->layout.tstate.size;
}

/* From a generator's exc_state to its frame. */
static uint32_t exc_to_frame(const struct entry *e)
{
	return pyoff_get(e->t->layout.gen.frame) - pyoff_get(e->t->layout.gen.exc_state);
}

static bool is_exc_of(const struct entry *e, raddr exc)
{
	return pystack_is_exc_of(e->p, e->t, e->th, e->w, exc);
}

/* Where the data stack ends as far as the candidate is concerned; 0: unknown. */
static raddr end_of_functions(const struct entry *e)
{
	uint32_t i = pystack_next_function(e->p, e->w, 0);
	raddr before;

	if (i < e->w->n) {
		raddr at = pystack_frame_at(e->p, i);

		return at >= e->th->chunk && at < e->th->top ? pystack_end_of(e->p, i) : 0;
	}
	if (e->w->n || rmem_read_u64(e->p->mem, e->th->chunk, &before) < 0 || before)
		return 0;
	return e->th->chunk + FIRST_CHUNK_DATA;
}

/* The frame at @at, and what it has as its predecessor. */
static bool frame_of(const struct entry *e, raddr at, struct pyframe *ret, raddr *previous)
{
	struct pywalk w = pyframe_walk_on(e->p->mem, &e->t->walk, at, ret, 1);

	*previous = w.end == PYWALK_LIMIT ? w.next : 0;
	return w.n == 1;
}

/* Does a function's frame lie at @at, up to the top, that has not begun, or (3.13, which notes
 * the instruction that runs instead of the last one) just does? */
static bool is_new_function(const struct entry *e, raddr at)
{
	const struct pylayout *l = &e->t->layout;
	unsigned char head[PYCODE_HEAD_MAX];
	struct pyframe f;
	uint32_t traced;
	raddr previous;
	int64_t off;

	if (at >= e->th->top || !frame_of(e, at, &f, &previous) ||
	    (f.frame & (PYFRAME_SHIM | PYFRAME_GENERATOR)) ||
	    rmem_read(e->p->mem, f.code, head, l->code.size) < 0 ||
	    at + pycode_frame_size(l, head) != e->th->top)
		return false;
	memcpy(&traced, head + pyoff_get(l->code.firsttraceable), sizeof(traced));
	off = (int64_t)(f.instr - (f.code + pyoff_get(l->code.bytecode)));
	if (e->t->walk.cf_frame == PYWALK_NONE)
		return off >= 0 && off <= 2 * (int64_t)traced;
	return off == -2 || (off >= 0 && off < 2 * (int64_t)traced);
}

/* Is it a generator that is entered? exc_info is its already. Once it is linked, it is the
 * newest frame and has a predecessor; or, in 3.11, a callee is that was just taken off the
 * data stack. */
static bool is_new_generator(const struct entry *e, raddr end)
{
	const struct pylayout *l = &e->t->layout;
	raddr item = e->exc + pyoff_get(l->gen.exc_previous) - pyoff_get(l->gen.exc_state);
	raddr at = e->exc + exc_to_frame(e), outer, previous;
	struct pyframe f;

	if (end != e->th->top || !frame_of(e, at, &f, &previous) ||
	    !(f.frame & PYFRAME_GENERATOR) || rmem_read_u64(e->p->mem, item, &outer) < 0 ||
	    !is_exc_of(e, outer))
		return false;
	if (e->first == at)
		return !previous;
	return frame_of(e, e->first, &f, &previous) && previous != at;
}

/* Is it a generator that is run by the candidate's newest frame in its own activation? It is
 * published and has no predecessor, for it has not begun or has yielded. */
static bool is_loose_generator(const struct entry *e, raddr end)
{
	struct pyframe f;
	raddr previous;

	return e->w->n && e->w->cframe == e->cframe && e->t->layout.owner_shim &&
	       end == e->th->top && frame_of(e, e->first, &f, &previous) && !previous &&
	       (f.frame & PYFRAME_GENERATOR);
}

/* Does the frame at @at execute? */
static bool is_executing(struct pystack *p, const struct pylayout *l, raddr at)
{
	int32_t top = 0;

	return pyoff_has(l->frame.stacktop) &&
	       rmem_read(p->mem, at + pyoff_get(l->frame.stacktop), &top, sizeof(top)) == 0 &&
	       top == -1;
}

/* Does the newest frame of the candidate? In 3.11 also one that does not is linked until it is
 * gone. */
static bool executes(const struct entry *e)
{
	return !e->t->layout.owner_shim || !e->w->n ||
	       is_executing(e->p, &e->t->layout, pystack_frame_at(e->p, 0));
}

/* True: the candidate is the caller's stack. */
static bool proven(const struct entry *e)
{
	struct pywalk *w = e->w;
	raddr end;

	if ((w->end != PYWALK_BOTTOM && w->end != PYWALK_LIMIT) || !executes(e))
		return false;
	codes_verify(e->p, e->t, e->th, w->n);
	if (w->n && (!pystack_is_linked(e->p, e->t, e->th, w) ||
		     !pystack_is_stacked(e->p, e->t, e->th, w)))
		return false;
	end = end_of_functions(e);
	if (!end)
		return false;
	return is_exc_of(e, e->exc) ? is_new_function(e, end) || is_loose_generator(e, end) :
				      is_new_generator(e, end);
}

/* The _PyCFrame at @before may be the previous one. */
static bool follows(const struct entry *e, raddr before)
{
	raddr first;

	if (before == e->cframe || before - e->cframe > STACK_MAX ||
	    rmem_read_u64(e->p->mem, before + e->t->walk.cf_frame, &first) < 0 || !first)
		return false;
	*e->w = pyframe_walk_on(e->p->mem, &e->t->walk, first, e->p->walked, e->cap);
	e->w->cframe = before;
	return proven(e);
}

/* True: these two words look like a _PyCFrame's fields at @at. */
static bool looks_like(const struct entry *e, raddr at, raddr frame, raddr previous)
{
	if (previous - at > STACK_MAX && !in_tstate(e, previous))
		return false;
	return (frame >= e->th->chunk && frame < e->th->top && !(frame & 7)) ||
	       frame == e->exc + exc_to_frame(e);
}

/* Of what is known of the stack above. */
static bool search(const struct entry *e)
{
	const struct pywalk_layout *l = &e->t->walk;
	struct bytes s = e->p->stack;
	size_t from = e->cframe - e->p->stack_at;
	int tries = 0;

	for (size_t i = from + 8; i < s.n && s.n - i >= CFRAME_BYTES; i += 8) {
		raddr at = e->p->stack_at + i;

		if (!looks_like(e, at, load_u64(s.at + i + l->cf_frame),
				load_u64(s.at + i + l->cf_prev)))
			continue;
		if (follows(e, at))
			return true;
		if (++tries == CANDIDATES_MAX)
			break;
	}
	return false;
}

static bool has_none(const struct entry *e)
{
	*e->w = (struct pywalk){ .end = PYWALK_BOTTOM };
	return proven(e);
}

/* From the frame @at on; up to 3.12 in the newest activation. */
static bool called_by(const struct entry *e, raddr at)
{
	*e->w = pyframe_walk_on(e->p->mem, &e->t->walk, at, e->p->walked, e->cap);
	e->w->cframe = e->cframe;
	return proven(e);
}

/* True: a function's frame is at @at, and the data stack's next one at @end. */
static bool ends_at(const struct entry *e, raddr at, raddr end)
{
	const struct pylayout *l = &e->t->layout;
	unsigned char head[PYCODE_HEAD_MAX];
	struct pyframe f;
	raddr previous;

	return at >= e->th->chunk && at < end && !(at & 7) && frame_of(e, at, &f, &previous) &&
	       !(f.frame & (PYFRAME_SHIM | PYFRAME_GENERATOR)) &&
	       rmem_read(e->p->mem, f.code, head, l->code.size) == 0 &&
	       at + pycode_frame_size(l, head) == end;
}

/* From a function's frame on that ends at @end, of those whose addresses @words has. */
static bool search_words(const struct entry *e, struct bytes words, raddr end)
{
	raddr last = 0;
	int tries = 0;

	for (size_t i = 0; i + 8 <= words.n && tries < CANDIDATES_MAX; i += 8) {
		raddr at = load_u64(words.at + i);

		if (at == last || !ends_at(e, at, end))
			continue;
		if (called_by(e, at))
			return true;
		last = at;
		tries++;
	}
	return false;
}

/* 3.13: the caller of the frame at e->first. */
static bool search_frames(const struct entry *e)
{
	if (!in_tstate(e, e->exc))
		return called_by(e, e->exc + exc_to_frame(e));
	return search_words(e, e->p->stack, e->first) || has_none(e);
}

/* 3.12: who runs the generator whose frame is at e->first: the newest generator but this one,
 * or the newest function. */
static bool search_runner(const struct entry *e)
{
	const struct pylayout *l = &e->t->layout;
	raddr exc = e->exc, own = e->first - exc_to_frame(e), previous;
	raddr item = own + pyoff_get(l->gen.exc_previous) - pyoff_get(l->gen.exc_state);
	struct pyframe f;

	if (!l->owner_shim || !frame_of(e, e->first, &f, &previous) || previous ||
	    !(f.frame & PYFRAME_GENERATOR))
		return false;
	if (exc == own && rmem_read_u64(e->p->mem, item, &exc) < 0)
		return false;
	return (!in_tstate(e, exc) && called_by(e, exc + exc_to_frame(e))) ||
	       search_words(e, e->p->place.regs, e->th->top) ||
	       search_words(e, e->p->stack, e->th->top);
}

/* The frame at e->first is linked, and what called it is not known to it: both are the walk.
 */
static bool search_caller(const struct entry *e)
{
	struct pywalk *w = e->w;
	struct pyframe newest;
	raddr shim, next;

	if (e->cap < 2 || !is_new_function(e, e->first) ||
	    !frame_of(e, e->first, &newest, &shim) || !search_frames(e))
		return false;
	next = w->n ? pystack_frame_at(e->p, 0) : 0;
	*w = pyframe_walk_on(e->p->mem, &e->t->walk, next, e->p->walked + 1, e->cap - 1);
	e->p->walked[0] = newest;
	w->n++;
	w->cframe = shim;
	codes_verify(e->p, e->t, e->th, w->n);
	return true;
}

/* As it was walked. True: it is known where the frame at @at lies on the data stack. */
static bool lies_behind(const struct entry *e, raddr at, raddr end)
{
	raddr before, top;

	if (at == end)
		return true;
	/* First in its chunk: struct { previous, size, top, data[] }. */
	return at == e->th->chunk + 24 &&
	       rmem_read_u64(e->p->mem, e->th->chunk, &before) == 0 && before &&
	       rmem_read_u64(e->p->mem, before + 16, &top) == 0 &&
	       before + 24 + 8 * top == end;
}

/* 3.13: if the newest frame has not begun, is the one behind it its caller's? */
static bool is_called(struct pystack *p, const struct pystack_target *t, struct thread *th,
		      const struct pywalk *w)
{
	struct pywalk walk = *w;
	struct entry e = { .p = p, .t = t, .th = th, .w = &walk };
	const struct pylayout *l = &t->layout;
	uint32_t i;

	if (!pyoff_has(l->tstate.exc_info) || !pyoff_has(l->code.stacksize) || !th->top ||
	    !w->n || pystack_frame_at(p, 0) < th->chunk ||
	    !is_new_function(&e, pystack_frame_at(p, 0)))
		return true;
	i = pystack_next_function(p, w, 1);
	if (rmem_read_u64(p->mem, th->tstate + pyoff_get(l->tstate.exc_info), &e.exc) < 0 ||
	    !is_exc_of(&e, e.exc))
		return false;
	if (i < w->n)
		return lies_behind(&e, pystack_frame_at(p, 0), pystack_end_of(p, i));
	/* The thread's first, or cut too short to tell. */
	return w->end == PYWALK_LIMIT ||
	       pystack_frame_at(p, 0) == th->chunk + FIRST_CHUNK_DATA;
}

/* The function's frame that ends at the data stack's top, of those that lie one behind the other
 * from @at on; 0: not known. */
static raddr last_function(struct pystack *p, const struct pystack_target *t,
			   const struct thread *th, raddr at)
{
	const struct pylayout *l = &t->layout;
	unsigned char head[PYCODE_HEAD_MAX];

	for (int i = 0; i < BEHIND_MAX && at < th->top; i++) {
		raddr code, next;

		if (rmem_read_u64(p->mem, at + t->walk.fr_code, &code) < 0 ||
		    rmem_read(p->mem, code & t->walk.code_mask, head, l->code.size) < 0)
			return 0;
		next = at + pycode_frame_size(l, head);
		if (next == th->top)
			return at;
		at = next;
	}
	return 0;
}

/* Where the first function's frame lies that the walk does not have; 0: not known, for it was cut,
 * or went on into an older chunk. */
static raddr behind_functions(struct pystack *p, const struct thread *th, const struct pywalk *w)
{
	uint32_t i = pystack_next_function(p, w, 1);
	raddr at, before;

	if (i < w->n) {
		at = pystack_frame_at(p, i);
		return at >= th->chunk && at < th->limit ? pystack_end_of(p, i) : 0;
	}
	if (w->end != PYWALK_BOTTOM || rmem_read_u64(p->mem, th->chunk, &before) < 0 || before)
		return 0;
	return th->chunk + FIRST_CHUNK_DATA;
}

/* 3.13: a generator that C resumes is published before the shim behind it is filled in, too, and
 * does not execute yet. If that leads past a function that does, it is left over. */
static bool is_resumed(struct pystack *p, const struct pystack_target *t, struct thread *th,
		       const struct pywalk *w)
{
	const struct pylayout *l = &t->layout;
	raddr end, newest;

	if (!pyoff_has(l->code.stacksize) || !pyoff_has(l->frame.stacktop) || !th->top ||
	    w->n < 2 || !(p->walked[0].frame & PYFRAME_GENERATOR) ||
	    !(p->walked[1].frame & PYFRAME_SHIM) || is_executing(p, l, pystack_frame_at(p, 0)))
		return true;
	end = behind_functions(p, th, w);
	if (end > th->top)
		return false;
	newest = end ? last_function(p, t, th, end) : 0;
	return !newest || !is_executing(p, l, newest);
}

/* greenlet gives a greenlet that begins or has ended a _PyCFrame of its own, with no frame in
 * it. It is the thread's if none is alive: no function's, for there is no data stack or nothing
 * is on it, and no generator's. */
static bool is_bare(struct pystack *p, const struct pystack_target *t, const struct thread *th,
		    const struct pywalk *w)
{
	const struct pycompiled *compiled = pystack_compiled(p, t->program);
	const struct pylayout *l = &t->layout;
	raddr exc, stack[2], before; /* datastack_chunk, datastack_top */

	/* Frames of functions compiled to C are not on the data stack. */
	if (w->first || compiled->program != t->program || compiled->type ||
	    !pyoff_has(l->tstate.exc_info) || !pyoff_has(l->tstate.datastack_chunk) ||
	    rmem_read_u64(p->mem, th->tstate + pyoff_get(l->tstate.exc_info), &exc) < 0 ||
	    exc - th->tstate >= l->tstate.size ||
	    rmem_read(p->mem, th->tstate + pyoff_get(l->tstate.datastack_chunk), stack,
		      sizeof(stack)) < 0)
		return false;
	if (!stack[0])
		return !stack[1];
	return stack[1] == stack[0] + FIRST_CHUNK_DATA &&
	       rmem_read_u64(p->mem, stack[0], &before) == 0 && !before;
}

bool pystack_is_linked(struct pystack *p, const struct pystack_target *t, struct thread *th,
		       const struct pywalk *w)
{
	if (w->end == PYWALK_BROKEN)
		return false;
	if (t->walk.cf_frame == PYWALK_NONE)
		return is_called(p, t, th, w) && is_resumed(p, t, th, w);
	return (pystack_follows(p, t, th, w) && pystack_is_stacked(p, t, th, w)) ||
	       is_bare(p, t, th, w);
}

bool pystack_entering(struct pystack *p, const struct pystack_target *t, struct thread *th,
		      uint32_t cap, struct pywalk *w)
{
	struct entry e = { .p = p,
			   .t = t,
			   .th = th,
			   .cframe = w->cframe,
			   .first = w->first,
			   .cap = cap,
			   .w = w };
	const struct pycompiled *compiled = pystack_compiled(p, t->program);
	raddr before;

	/* Frames of functions compiled to C are not on the data stack. */
	if (compiled->program != t->program || compiled->type)
		return false;
	if (!pyoff_has(t->layout.gen.frame) || !pyoff_has(t->layout.tstate.exc_info) ||
	    !pyoff_has(t->layout.code.stacksize) || !th->top ||
	    rmem_read_u64(p->mem, th->tstate + pyoff_get(t->layout.tstate.exc_info), &e.exc) <
		    0)
		return false;
	if (t->walk.cf_frame == PYWALK_NONE)
		return search_caller(&e);
	if (!e.cframe || in_tstate(&e, e.cframe))
		return false;
	if (rmem_read_u64(p->mem, e.cframe + t->walk.cf_prev, &before) == 0 &&
	    follows(&e, before))
		return true;
	return search_runner(&e) || search(&e) || has_none(&e);
}
