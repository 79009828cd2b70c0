/* SPDX-License-Identifier: MIT
 *
 * pystack - finds the thread state of a thread, walks its frames and names them.
 */
#include "python/pystack.h"

#include <errno.h>

#include "python/pyawait.h"
#include "python/pystack_int.h"

/* The version of which there are builds with a JIT: not without the GIL, where configure warns of
 * it. */
enum { JIT_SINCE = 0x030d };

/* --- the thread state --- */

static bool bears(struct pystack *p, const struct pystack_target *t, const struct thread *th)
{
	uint64_t id;

	return pyframe_state_number(p->mem, &t->walk, th->tstate, &id) == 0 &&
	       id == th->number;
}

static struct met *met_of(struct pystack *p, const struct pystack_target *t)
{
	return &p->met[(uint32_t)t->pid % N_MET];
}

/* What a search met is good for other threads, too, if it is more than is known, and so much
 * that another search would take longer than a wrong guess. */
static void keep_met(struct pystack *p, const struct pystack_target *t, uint64_t unique)
{
	struct met *next = &p->met[N_MET], *met = met_of(p, t), old = *met;

	if (next->list.n < MANY_MET ||
	    (!next->list.all && old.program == t->program && old.list.n >= next->list.n))
		return;
	*met = *next;
	met->program = t->program;
	met->unique = next->list.all ? unique : 0;
	next->list.row = old.list.row;
}

/* The struct pthread of the thread that has bound th->tstate. */
static void learn_pthread(struct pystack *p, const struct pystack_target *t, struct thread *th)
{
	th->pthread = 0;
	if (th->tstate)
		rmem_read_u64(p->mem, th->tstate + t->walk.ts_thread, &th->pthread);
}

/* The state that bears @number. 0, -ESRCH or -errno. */
static int find_number(struct pystack *p, const struct pystack_target *t, struct thread *th,
		       pid_t number)
{
	int r = pyframe_find_thread(p->mem, &t->walk, (uint64_t)number, FIND_MAX,
				    &p->met[N_MET].list, &th->tstate, &th->none_unique);

	keep_met(p, t, th->none_unique);
	th->number = (uint64_t)number;
	if (r < 0)
		th->tstate = 0;
	learn_pthread(p, t, th);
	return r;
}

void pystack_suggest(struct pystack *p, const struct pystack_target *t, pid_t tid, pid_t inner,
		     raddr tstate, uint64_t unique)
{
	struct thread *th = pystack_thread(p, t->program, tid, 0);

	if (th->tstate)
		return;
	th->tstate = tstate;
	th->number = (uint64_t)inner;
	th->none_unique = unique;
	th->none = !tstate && unique && tid != t->pid;
}

/* Of a thread of which nothing is known yet: what a search for another one met. */
static void suggest_met(struct pystack *p, const struct pystack_target *t, pid_t tid,
			pid_t inner)
{
	const struct met *met = met_of(p, t);
	uint32_t found = 0;
	raddr state = 0;

	if (met->program != t->program)
		return;
	for (uint32_t i = 0; i < met->list.n; i++)
		if (met->list.row[i].number == (uint64_t)inner) {
			state = met->list.row[i].state;
			found++;
		}
	if (found == 1 || (!found && met->list.all))
		pystack_suggest(p, t, tid, inner, state, met->unique);
	if (found == 1)
		learn_pthread(p, t, pystack_thread(p, t->program, tid, 0));
}

/* PYSTACK_OK: th->tstate is known to be this thread's, or bears its number, and the plan's
 * reads are there. */
static enum pystack_end find_tstate(struct pystack *p, const struct pystack_target *t,
				    struct thread *th, pid_t inner, enum nest_search *how)
{
	uint64_t unique;
	int r;

	*how = NEST_QUICK;
	if (!th->tstate && !th->none)
		suggest_met(p, t, th->tid, inner);
	if (th->tstate) {
		pystack_fetch(p, th);
		if (bears(p, t, th))
			return PYSTACK_OK;
		*th = (struct thread){ .program = th->program,
				       .pid = th->pid,
				       .tid = th->tid };
		met_of(p, t)->program = 0;
		rmem_batch_reset(&p->batch);
	}
	if (th->none && pyframe_threads_unique(p->mem, &t->walk, &unique) == 0 &&
	    unique == th->none_unique)
		return PYSTACK_NOPYTHON;
	*how = NEST_DEEP;
	r = find_number(p, t, th, inner);
	/* A main thread may be a child's: its state gets its number some time after the fork
	 * (PyOS_AfterFork_Child()), and no count tells when; or never. */
	if (r == -ESRCH && th->tid == th->pid && p->place.forker)
		r = find_number(p, t, th, p->place.forker);
	th->none = r == -ESRCH && th->none_unique && th->tid != th->pid;
	if (r == -ESRCH)
		return PYSTACK_NOPYTHON;
	return r < 0 ? PYSTACK_FAULT : PYSTACK_OK;
}

/* Bytes into the bytecode. Before the first instruction prev_instr stands one
 * unit below it (3.11, 3.12): that is the function's first line. */
bool pystack_lasti_of(const struct code *c, raddr instr, uint32_t *ret)
{
	uint64_t off = instr - (c->at + c->bytecode);

	if (off == (uint64_t)-2 && !c->bytecode) {
		*ret = PYCODE_BEGINS;
		return true;
	}
	if (off == (uint64_t)-2)
		off = 0;
	*ret = (uint32_t)off;
	return off < c->length;
}

/* True: the @i'th frame that was walked is that of a function compiled to C. @linked: and the
 * thread has linked it. */
static bool is_compiled(struct pystack *p, const struct pystack_target *t, uint32_t i,
			bool linked)
{
	return pycompiled_is(p->mem, &t->layout, &p->walked[i], linked, t->program,
			     pystack_compiled(p, t->program));
}

/* Up to 3.10. True: no evaluation loop runs it, for its bytecode is empty: C code has linked its
 * frame, and does not say in which line it is. */
static bool is_linked_by_c(const struct code *c)
{
	return !c->bytecode && !c->length;
}

/* The @n that were walked, behind the *@ret that there are. */
static enum pystack_end name_frames(struct pystack *p, const struct pystack_target *t,
				    uint32_t n, uint32_t *ret)
{
	uint32_t k = *ret, lasti;

	p->named_before = k;
	p->n_named = n;
	for (uint32_t i = 0; i < n; i++) {
		const struct code *c;

		if (p->walked[i].frame & PYFRAME_SHIM)
			continue;
		c = p->seen[i].code;
		if (!c || c->bad || !pystack_lasti_of(c, p->walked[i].instr, &lasti))
			return PYSTACK_BADCODE;
		if (!pystack_has_begun(c, &p->walked[i]))
			continue;
		p->frames[k++] = (struct pystack_frame){
			.code_id = c->id,
			.lasti = lasti,
			.flags = is_linked_by_c(c) || is_compiled(p, t, i, false) ?
					 PYSTACK_COMPILED :
					 0,
		};
	}
	if (k == *ret)
		return PYSTACK_NOPYTHON;
	*ret = k;
	return PYSTACK_OK;
}

/* --- where the interpreter's activations lie --- */

/* 3.11: from one activation's _PyCFrame to that of the one before it. */
static raddr previous_cframe(struct pystack *p, const struct pystack_target *t,
			     struct thread *th, raddr cframe)
{
	raddr before;

	if (!cframe || rmem_read_u64(p->mem, cframe + t->walk.cf_prev, &before) < 0)
		return 0;
	pystack_plan(th, before, before + CFRAME_BYTES);
	return before;
}

/* Was the @i'th frame entered by C, with @cframe? A generator's goes on saying so while throw()
 * links it, without an activation, above the one that it delegates to (3.11). */
static bool is_entered(struct pystack *p, const struct pystack_target *t, struct thread *th,
		       const struct pywalk *w, uint32_t i, raddr cframe)
{
	uint64_t bits = p->walked[i].frame;

	return bits & PYFRAME_ENTRY &&
	       (!(bits & PYFRAME_GENERATOR) || pystack_begins_in(p, t, th, w, cframe, i));
}

/* 3.11, of a walk that ended in a generator that C has entered. True: it is the thread's first
 * frame, for it runs, and the activation before its own has none. Else it was just unlinked. */
static bool begins_thread(struct pystack *p, const struct pystack_target *t, struct thread *th,
			  const struct pywalk *w)
{
	const uint64_t bits = PYFRAME_ENTRY | PYFRAME_GENERATOR;
	raddr cframe = w->cframe, exc;

	if (t->walk.owner_shim || !w->n || (p->walked[w->n - 1].frame & bits) != bits ||
	    !pyoff_has(t->layout.tstate.exc_info) || !pyoff_has(t->layout.gen.frame) ||
	    rmem_read_u64(p->mem, th->tstate + pyoff_get(t->layout.tstate.exc_info), &exc) < 0)
		return false;
	for (uint32_t i = 0; i + 1 < w->n; i++)
		if (is_entered(p, t, th, w, i, cframe))
			cframe = previous_cframe(p, t, th, cframe);
	return pystack_begins_in(p, t, th, w, cframe, w->n - 1) &&
	       pystack_is_exc_of(p, t, th, w, exc);
}

/* After name_frames(), which counted on from @k. */
static void find_anchors(struct pystack *p, const struct pystack_target *t, struct thread *th,
			 const struct pywalk *w, uint32_t k, struct pystack_result *r)
{
	raddr cframe = w->cframe;

	for (uint32_t i = 0; i < w->n && r->n_anchors < PYWALK_MAX_FRAMES; i++) {
		const struct pyframe *f = &p->walked[i];
		struct pystack_anchor a = { .at = f->frame & ~(raddr)PYFRAME_BITS };

		if (t->walk.lasti_unit) {
			k++;
			if (!is_linked_by_c(p->seen[i].code) &&
			    !pyawait_throws(p->mem, &t->layout, f))
				p->anchors[r->n_anchors++] =
					(struct pystack_anchor){ .at = PYSTACK_IN_LOOP, .n = k };
			continue;
		}
		k += !(f->frame & PYFRAME_SHIM) && pystack_has_begun(p->seen[i].code, f);
		if (!(f->frame & PYFRAME_SHIM) && !is_entered(p, t, th, w, i, cframe))
			continue;
		a.n = k;
		if (!(f->frame & PYFRAME_SHIM)) {
			a.at = cframe;
			cframe = previous_cframe(p, t, th, cframe);
		}
		p->anchors[r->n_anchors++] = a;
	}
}

/* --- together --- */

void pystack_know(struct pystack *p, raddr at, struct bytes bytes)
{
	p->known_at = at;
	p->known = bytes;
}

void pystack_want(struct pystack *p, raddr at, size_t n)
{
	p->want_at = at;
	p->want_n = n;
}

struct rmem *pystack_memory(struct pystack *p)
{
	return &p->batch.base;
}

void pystack_stands(struct pystack *p, const struct pystack_place *place)
{
	p->place = *place;
}

static void begin(struct pystack *p, struct rmem *below)
{
	p->stamp++;
	rmem_batch_init(&p->batch, below, p->bytes);
	rmem_batch_put(&p->batch, p->known_at, p->known);
	p->stack_at = p->known_at;
	p->stack = p->known;
	p->known = (struct bytes){ 0 };
	p->mem = &p->batch.base;
}

/* After name_frames(), which found the code of each. True: the newest function's has not begun. */
static bool has_unbegun(const struct pystack *p, const struct pywalk *w)
{
	uint32_t i = 0;

	while (i < w->n && (p->walked[i].frame & PYFRAME_SHIM))
		i++;
	return i < w->n && !pystack_has_begun(p->seen[i].code, &p->walked[i]);
}

/* Names the frames that were walked, behind those that there are, if they are the thread's. */
static enum pystack_end take_walk(struct pystack *p, const struct pystack_target *t,
				  struct thread *th, const struct pywalk *w,
				  struct pystack_result *r)
{
	uint32_t named = r->n;
	enum pystack_end end;

	if (w->end == PYWALK_FAULT)
		return PYSTACK_FAULT;
	if (w->end == PYWALK_BROKEN && !pystack_is_exposed(p, t, w))
		return PYSTACK_BROKEN;
	codes_verify(p, t, th, w->n);
	end = name_frames(p, t, w->n, &named);
	if (end == PYSTACK_BADCODE)
		return end;
	if (!pystack_is_linked(p, t, th, w)) {
		if (!pystack_is_live(p, t, th, w))
			return PYSTACK_BROKEN;
		r->switching = true;
	}
	if (pystack_compiled(p, t->program)->program != t->program)
		*pystack_compiled(p, t->program) =
			(struct pycompiled){ .program = t->program };
	if (!r->n && t->layout.version >= JIT_SINCE && !t->layout.free_threaded &&
	    !t->no_jit)
		p->frames[0].flags |=
			PYSTACK_MAY_BE_JITTED | (has_unbegun(p, w) ? PYSTACK_CALLS : 0);
	r->n = named;
	return end;
}

/* The same of the caller's frames, where an activation was published that is not filled in.
 * @end: what became of the walk from there. */
static enum pystack_end take_caller(struct pystack *p, const struct pystack_target *t,
				    struct thread *th, enum pystack_end end, struct pywalk *w,
				    struct pystack_result *r)
{
	struct pystack_anchor entered = { .at = w->cframe, .n = r->n };
	struct pywalk caller = *w;

	if (!pystack_entering(p, t, th, p->max_frames - r->n, &caller))
		return end;
	if (t->walk.cf_frame == PYWALK_NONE) { /* its shim, and it is linked already */
		entered.at = caller.cframe;
		entered.n +=
			p->seen[0].code && pystack_has_begun(p->seen[0].code, &p->walked[0]);
	}
	*w = caller;
	/* Where a generator is run by who is in the activation already, none is entered. */
	if ((entered.at != caller.cframe || t->walk.cf_frame == PYWALK_NONE) &&
	    r->n_anchors < PYWALK_MAX_FRAMES)
		p->anchors[r->n_anchors++] = entered;
	return name_frames(p, t, w->n, &r->n);
}

/* One state's frames, behind those that there are. Its plan was fetched. *@at:
 * place_of_walk(). */
static enum pystack_end read_state(struct pystack *p, const struct pystack_target *t,
				   struct thread *th, struct pystack_result *r, raddr *at)
{
	uint32_t before = r->n;
	enum pystack_end end;
	struct pywalk w;

	pystack_fetch_chunk(p, t, th);
	codes_begin(p, t, th);
	w = pyframe_walk(p->mem, &t->walk, th->tstate, p->walked, p->max_frames - before);
	/* Below a compiled function there may be nothing. */
	if (w.end == PYWALK_BROKEN &&
	    (is_compiled(p, t, w.n - 1, true) || begins_thread(p, t, th, &w)))
		w.end = PYWALK_BOTTOM;
	/* throw() has linked the last one, and to nothing. */
	if (w.end == PYWALK_BOTTOM && w.n &&
	    pyawait_throws(p->mem, &t->layout, &p->walked[w.n - 1]))
		w.end = PYWALK_LIMIT;
	*at = place_of_walk(p, t, th->tstate, &w);
	if (!th->level) {
		r->tstate = th->tstate;
		r->first = w.first;
		r->number = (pid_t)th->number;
	}
	pystack_plan_next(th, t, p->walked, &w);
	end = take_walk(p, t, th, &w, r);
	if (end != PYSTACK_OK && end != PYSTACK_NOPYTHON)
		end = take_caller(p, t, th, end, &w, r);
	if (end != PYSTACK_OK && end != PYSTACK_NOPYTHON)
		return end;
	/* It was cut before the first frame that has begun: there may be others. */
	if (end == PYSTACK_NOPYTHON && w.end == PYWALK_LIMIT && !r->n)
		return PYSTACK_BROKEN;
	r->truncated = w.end == PYWALK_LIMIT;
	if (end == PYSTACK_OK)
		find_anchors(p, t, th, &w, before, r);
	return end;
}

/* All states that run on the thread: the stack of each one below that of the next. */
static enum pystack_end read_nest(struct pystack *p, const struct pystack_target *t,
				  struct thread *th0, pid_t inner, enum nest_search how,
				  struct pystack_result *r)
{
	pid_t tid = th0->tid;
	int n = nest_states(p, t, th0, inner, how);

	if (n == -EXDEV)
		return PYSTACK_ELSEWHERE;
	if (n < 0)
		return n == -EFAULT ? PYSTACK_FAULT : PYSTACK_BROKEN;
	for (int i = 0; i < n && !r->truncated; i++) {
		struct thread *th = pystack_thread(p, t->program, tid, (uint32_t)i);
		raddr at;
		enum pystack_end end = read_state(p, t, th, r, &at);

		if (end != PYSTACK_OK && end != PYSTACK_NOPYTHON)
			return end;
	}
	return r->n ? PYSTACK_OK : PYSTACK_NOPYTHON;
}

/* A result before anything is read. */
static struct pystack_result nothing_of(const struct pystack *p, const struct pystack_target *t)
{
	return (struct pystack_result){ .frames = p->frames, .anchors = p->anchors, .of = t };
}

/* The state that was known, or that bears the number; if it does not run here, any other. */
static enum pystack_end read_one(struct pystack *p, const struct pystack_target *t,
				 struct thread *th, pid_t inner, struct pystack_result *r)
{
	const struct state_row row = { .number = th->number, .pthread = th->pthread };
	enum pystack_end end, other;
	enum place place;
	raddr at;

	end = read_state(p, t, th, r, &at);
	if (end == PYSTACK_NOPYTHON)
		return read_nest(p, t, th, inner, NEST_QUICK, r);
	place = at || place_is_number(p, th, th->number, inner) ?
			place_of(p, t, th, &row, at, inner) :
			PLACE_OURS;
	if (place == PLACE_OURS)
		return end;
	*r = nothing_of(p, t);
	/* Who looks at all states would not find it either. */
	if (place == PLACE_UNKNOWN && at == PLACE_LOST)
		return PYSTACK_ELSEWHERE;
	other = read_nest(p, t, th, inner, NEST_DEEP, r);
	return other == PYSTACK_NOPYTHON && place == PLACE_UNKNOWN ? PYSTACK_ELSEWHERE : other;
}

static enum pystack_end read_thread(struct pystack *p, const struct pystack_target *t,
				    struct thread *th, pid_t inner, struct pystack_result *r)
{
	enum nest_search how;
	enum pystack_end end = find_tstate(p, t, th, inner, &how);

	if (end == PYSTACK_NOPYTHON)
		return read_nest(p, t, th, inner, how, r);
	if (end != PYSTACK_OK)
		return end;
	return nest_wanted(p, t, th) ? read_nest(p, t, th, inner, NEST_ALL, r) :
				       read_one(p, t, th, inner, r);
}

/* A state that was freed may bear the number yet, without a frame or with what others have
 * written there since; the thread may have another. Where nobody counts states, one without a
 * frame is taken for freed. */
static bool is_outdated(struct pystack *p, const struct pystack_target *t, struct thread *th,
			enum pystack_end end)
{
	uint64_t unique;

	if (pyframe_threads_unique(p->mem, &t->walk, &unique) < 0 || !unique)
		return end == PYSTACK_NOPYTHON;
	return unique != th->none_unique;
}

struct pystack_result pystack_read(struct pystack *p, const struct pystack_target *t,
				   struct rmem *below, pid_t tid, pid_t inner)
{
	struct pystack_result r = nothing_of(p, t);
	struct thread *th = pystack_thread(p, t->program, tid, 0);
	raddr known = th->tstate;

	th->pid = t->pid;
	p->code_lost = false;
	begin(p, below);
	r.end = read_thread(p, t, th, inner, &r);
	if (r.end != PYSTACK_OK && known && th->tstate == known &&
	    is_outdated(p, t, th, r.end)) {
		th->tstate = 0;
		r = nothing_of(p, t);
		r.end = read_thread(p, t, th, inner, &r);
	}
	p->place = (struct pystack_place){ 0 };
	/* The C library puts a thread's struct pthread where its stack ends. */
	r.root = tid == t->pid ? t->root : th->pthread;
	r.code_lost = p->code_lost;
	if (r.end != PYSTACK_OK)
		r.n = r.n_anchors = 0;
	return r;
}

struct pystack_result pystack_read_parked(struct pystack *p, const struct pystack_target *t,
					  struct rmem *below, const struct pyframe *f,
					  uint32_t n_all)
{
	struct pystack_result r = nothing_of(p, t);
	struct thread none = { .program = t->program };
	uint32_t n = MIN(n_all, p->max_frames);

	r.truncated = n < n_all;
	p->code_lost = false;
	begin(p, below);
	codes_begin(p, t, &none);
	for (uint32_t i = 0; i < n; i++)
		p->walked[i] = f[n_all - 1 - i];
	codes_verify(p, t, &none, n);
	r.end = name_frames(p, t, n, &r.n);
	r.code_lost = p->code_lost;
	return r;
}

uint32_t pystack_frames_to(const struct pystack *p, raddr frame)
{
	uint32_t k = p->named_before;

	for (uint32_t i = 0; i < p->n_named; i++) {
		const struct pyframe *f = &p->walked[i];

		if (f->frame & PYFRAME_SHIM)
			continue;
		k += p->seen[i].code && pystack_has_begun(p->seen[i].code, f);
		if (pystack_frame_at(p, i) == frame)
			return k;
	}
	return 0;
}

bool pystack_unchanged(const struct pystack_result *r, struct rmem *m)
{
	const struct pywalk_layout *l = &r->of->walk;
	raddr at;

	if (!r->tstate)
		return true;
	if (rmem_read_u64(m, r->tstate + l->ts_frame, &at) < 0)
		return false;
	if (l->cf_frame != PYWALK_NONE && rmem_read_u64(m, at + l->cf_frame, &at) < 0)
		return false;
	return at == r->first;
}
