/* SPDX-License-Identifier: MIT */
#include "pystack.h"

#include <errno.h>

#include "pystack_int.h"

struct pystack *pystack_create(uint32_t max_frames,
			       void (*new_code)(void *, uint64_t, const struct pycode_copy *),
			       void *arg)
{
	struct pystack *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->max_frames = MIN(max_frames, PYWALK_MAX_FRAMES);
	p->new_code = new_code;
	p->next_id = 1;
	p->arg = arg;
	p->threads = calloc(N_THREADS, sizeof(*p->threads));
	p->codes = calloc(N_CODES, sizeof(*p->codes));
	p->walked = calloc(PYWALK_MAX_FRAMES, sizeof(*p->walked));
	p->frames = calloc(PYWALK_MAX_FRAMES, sizeof(*p->frames));
	p->seen = calloc(PYWALK_MAX_FRAMES, sizeof(*p->seen));
	p->anchors = calloc(PYWALK_MAX_FRAMES, sizeof(*p->anchors));
	p->copy = calloc(1, PYCODE_COPY_MAX);
	p->bytes = calloc(1, BATCH_BYTES);
	if (!p->threads || !p->codes || !p->walked || !p->frames || !p->seen || !p->copy ||
	    !p->anchors || !p->bytes) {
		pystack_destroy(p);
		return NULL;
	}
	return p;
}

void pystack_destroy(struct pystack *p)
{
	if (!p)
		return;
	free(p->threads);
	free(p->codes);
	free(p->walked);
	free(p->frames);
	free(p->seen);
	free(p->anchors);
	free(p->copy);
	free(p->bytes);
	free(p);
}

static struct thread *thread_of(struct pystack *p, pid_t pid, pid_t tid)
{
	uint32_t h = (uint32_t)tid * 2654435761u;
	struct thread *th = &p->threads[h >> 21 & (N_THREADS - 1)];

	if (th->tid != tid || th->pid != pid)
		*th = (struct thread){ .pid = pid, .tid = tid };
	return th;
}

void pystack_forget(struct pystack *p, pid_t pid)
{
	for (size_t i = 0; i < N_THREADS; i++)
		if (p->threads[i].pid == pid)
			p->threads[i] = (struct thread){ 0 };
	for (size_t i = 0; i < N_CODES; i++)
		if (p->codes[i].pid == pid)
			p->codes[i].id = 0;
}

/* --- the plan --- */

static void fetch_plan(struct pystack *p, const struct thread *th)
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

/* The current data-stack chunk lies in [chunk, top): bring what the plan did not. */
static void fetch_chunk(struct pystack *p, const struct pystack_target *t, struct thread *th)
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

	if (hi <= lo)
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

/* What this walk touched, and what earlier ones did not long ago. */
static void plan_next(struct thread *th, const struct pystack_target *t,
		      const struct pyframe *f, const struct pywalk *w)
{
	uint32_t n = 0;

	if (++th->walks % PLAN_AGE == 0)
		th->n_regions = 0;
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

/* --- the thread state --- */

static bool tstate_is(struct pystack *p, const struct pystack_target *t, raddr ts, pid_t inner)
{
	uint64_t id;

	return rmem_read_u64(p->mem, ts + t->walk.ts_tid, &id) == 0 && id == (uint64_t)inner;
}

/* PYSTACK_OK: th->tstate is this thread's, and the plan's reads are there. */
static enum pystack_end find_tstate(struct pystack *p, const struct pystack_target *t,
				    struct thread *th, pid_t inner)
{
	uint64_t unique;
	int r;

	if (th->tstate) {
		fetch_plan(p, th);
		if (tstate_is(p, t, th->tstate, inner))
			return PYSTACK_OK;
		*th = (struct thread){ .pid = th->pid, .tid = th->tid };
		rmem_batch_reset(&p->batch);
	}
	if (th->none && pyframe_threads_unique(p->mem, &t->walk, &unique) == 0 &&
	    unique == th->none_unique)
		return PYSTACK_NOPYTHON;
	r = pyframe_find_thread(p->mem, &t->walk, (uint64_t)inner, FIND_MAX, &th->tstate,
				&th->none_unique);
	/* A main thread may be a child's: its state gets its number some time after the fork
	 * (PyOS_AfterFork_Child()), and no count tells when. */
	th->none = r == -ESRCH && th->none_unique && th->tid != th->pid;
	if (r == -ESRCH)
		return PYSTACK_NOPYTHON;
	if (r < 0) {
		th->tstate = 0;
		return PYSTACK_FAULT;
	}
	return PYSTACK_OK;
}

/* Bytes into the bytecode. Before the first instruction prev_instr stands one
 * unit below it (3.11, 3.12): that is the function's first line. */
static bool lasti_of(const struct code *c, raddr instr, uint32_t *ret)
{
	uint64_t off = instr - (c->at + c->bytecode);

	if (off == (uint64_t)-2)
		off = 0;
	*ret = (uint32_t)off;
	return off < c->length;
}

/* CPython's own rule for frames that are not there yet, the newest too: it belongs to the
 * calling line until its first traceable instruction. For 3.12 on it drops the static
 * _Py_InitCleanup below each __init__. */
static bool begun(const struct code *c, const struct pyframe *f)
{
	int64_t off = (int64_t)(f->instr - (c->at + c->bytecode));

	return (f->frame & PYFRAME_GENERATOR) || off >= 2 * (int64_t)c->firsttraceable;
}

/* Those walked from number @from on. */
static enum pystack_end name_frames(struct pystack *p, uint32_t from, uint32_t n,
				    uint32_t *ret)
{
	uint32_t k = 0, lasti;

	for (uint32_t i = from; i < n; i++) {
		const struct code *c;

		if (p->walked[i].frame & PYFRAME_SHIM)
			continue;
		c = p->seen[i].code;
		if (!c || c->bad || !lasti_of(c, p->walked[i].instr, &lasti))
			return PYSTACK_BADCODE;
		if (!begun(c, &p->walked[i]))
			continue;
		p->frames[k++] = (struct pystack_frame){ .code_id = c->id, .lasti = lasti };
	}
	*ret = k;
	return k ? PYSTACK_OK : PYSTACK_NOPYTHON;
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

/* After name_frames(). */
static void find_anchors(struct pystack *p, const struct pystack_target *t, struct thread *th,
			 const struct pywalk *w, struct pystack_result *r)
{
	raddr cframe = w->cframe;
	uint32_t k = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		const struct pyframe *f = &p->walked[i];
		struct pystack_anchor a = { .at = f->frame & ~(raddr)PYFRAME_BITS };

		k += !(f->frame & PYFRAME_SHIM) && begun(p->seen[i].code, f);
		if (!(f->frame & (PYFRAME_SHIM | PYFRAME_ENTRY)))
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

static void begin(struct pystack *p, struct rmem *below,
		  void (*saw)(void *, raddr, const void *, size_t, int), void *saw_arg)
{
	p->stamp++;
	rmem_batch_init(&p->batch, below, p->bytes);
	rmem_batch_put(&p->batch, p->known_at, p->known);
	p->known = (struct bytes){ 0 };
	p->mem = &p->batch.base;
	if (saw) {
		rmem_record_init(&p->record, &p->batch.base, saw, saw_arg);
		p->mem = &p->record.base;
	}
}

static struct pystack_junction junction(const struct pystack *p, const struct pywalk *w,
					raddr tstate)
{
	uint32_t i = w->n - 1, functions = 0;

	while (i > 0 && functions < w->n / 2)
		functions += !(p->walked[--i].frame & (PYFRAME_GENERATOR | PYFRAME_SHIM));
	return (struct pystack_junction){ p->walked[w->n - 1], p->walked[i], w->next, tstate };
}

struct pystack_result pystack_read(struct pystack *p, const struct pystack_target *t,
				   struct rmem *below, pid_t tid, pid_t inner,
				   void (*saw)(void *, raddr, const void *, size_t, int),
				   void *saw_arg)
{
	struct pystack_result r = { .frames = p->frames, .anchors = p->anchors };
	struct thread *th = thread_of(p, t->pid, tid);
	struct pywalk w;

	begin(p, below, saw, saw_arg);
	r.end = find_tstate(p, t, th, inner);
	if (r.end != PYSTACK_OK)
		return r;
	r.tstate = th->tstate;
	fetch_chunk(p, t, th);
	codes_begin(p, t, th);
	w = pyframe_walk(p->mem, &t->walk, th->tstate, p->walked, p->max_frames);
	r.first = w.first;
	plan_next(th, t, p->walked, &w);
	if (w.end == PYWALK_FAULT || w.end == PYWALK_BROKEN) {
		r.end = w.end == PYWALK_FAULT ? PYSTACK_FAULT : PYSTACK_BROKEN;
		return r;
	}
	r.truncated = w.end == PYWALK_LIMIT;
	if (r.truncated && w.n)
		r.junction = junction(p, &w, r.tstate);
	codes_verify(p, t, th, w.n);
	r.end = name_frames(p, 0, w.n, &r.n);
	if (r.end != PYSTACK_BADCODE && !pystack_is_live(p, t, th, &w)) {
		r.end = PYSTACK_BROKEN;
		r.n = 0;
	}
	if (r.end == PYSTACK_OK)
		find_anchors(p, t, th, &w, &r);
	return r;
}

static bool same_frame(const struct pyframe *a, const struct pyframe *b)
{
	return a->frame == b->frame && a->code == b->code && a->instr == b->instr;
}

/* Of memory as it is now, not as it was when the walk began. */
static bool still_joins(const struct pystack_junction *j, const struct pystack_target *t,
			struct rmem *m)
{
	struct pyframe f, upper;
	struct pywalk w = pyframe_walk_on(m, &t->walk, j->frame.frame, &f, 1);

	return w.end == PYWALK_LIMIT && same_frame(&f, &j->frame) && w.next == j->next &&
	       pyframe_walk_on(m, &t->walk, j->upper.frame, &upper, 1).n == 1 &&
	       same_frame(&upper, &j->upper);
}

struct pystack_result pystack_read_rest(struct pystack *p, const struct pystack_target *t,
					struct rmem *below, pid_t tid,
					const struct pystack_junction *j)
{
	struct pystack_result r = { .end = PYSTACK_BROKEN, .frames = p->frames };
	struct thread *th = thread_of(p, t->pid, tid);
	struct pywalk w;

	begin(p, below, NULL, NULL);
	if (th->tstate != j->tstate)
		*th = (struct thread){ .pid = t->pid, .tid = tid, .tstate = j->tstate };
	fetch_plan(p, th);
	codes_begin(p, t, th);
	w = pyframe_walk_on(p->mem, &t->walk, j->frame.frame, p->walked, p->max_frames);
	plan_next(th, t, p->walked, &w);
	if (w.end == PYWALK_FAULT)
		r.end = PYSTACK_FAULT;
	if (w.end == PYWALK_FAULT || w.end == PYWALK_BROKEN || w.n < 2 ||
	    !same_frame(&p->walked[0], &j->frame) ||
	    (p->walked[1].frame & ~(raddr)PYFRAME_BITS) != j->next)
		return r;
	codes_verify(p, t, th, w.n);
	r.end = name_frames(p, 1, w.n, &r.n);
	r.truncated = w.end == PYWALK_LIMIT;
	if (r.end == PYSTACK_NOPYTHON) /* below the junction lies nothing but the end */
		r.end = PYSTACK_OK;
	if (!still_joins(j, t, below))
		r.end = PYSTACK_BROKEN;
	if (r.end != PYSTACK_OK)
		r.n = 0;
	return r;
}

bool pystack_unchanged(const struct pystack_result *r, const struct pystack_target *t,
		       struct rmem *m)
{
	raddr at;

	if (!r->tstate)
		return true;
	if (rmem_read_u64(m, r->tstate + t->walk.ts_frame, &at) < 0)
		return false;
	if (t->walk.cf_frame != PYWALK_NONE &&
	    rmem_read_u64(m, at + t->walk.cf_frame, &at) < 0)
		return false;
	return at == r->first;
}
