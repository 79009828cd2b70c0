/* SPDX-License-Identifier: MIT */
#include "pystack.h"

#include <errno.h>

enum {
	N_THREADS = 2048, /* power of two; entries that collide are replaced */
	N_CODES = 16384,  /* power of two; emptied when three quarters full */
	N_REGIONS = 32,
	REGION_GAP = 4096,  /* a gap costs no more than one more piece of a batch */
	REGION_MAX = 64 << 10,
	REGION_AGE = 8,	    /* walks that a region is kept for without being touched */
	PLAN_AGE = 256,	    /* walks after which the plan is made anew */
	SLACK = 1024,	    /* a few frames more than last time */
	TSTATE_BYTES = 512,
	FIND_MAX = 4096, /* threads looked at while one is held */
	CHUNK_MAX = 256 << 10,
};

/* Memory that recent walks of a thread touched. */
struct region {
	raddr lo, hi;
	uint32_t walk; /* the last one that did */
};

/* One thread and the plan for its next walk: its data stack, C stack, frames on
 * the heap and code objects, near ones merged. */
struct thread {
	pid_t pid, tid;
	raddr tstate;
	bool none; /* a complete search found no thread state ... */
	uint64_t none_unique; /* ... while the lists looked like this */
	raddr limit; /* end of the data-stack chunk */
	raddr interp;
	uint32_t versions; /* its count of code objects at the last walk, 0: unknown */
	bool steady;	   /* the same as at the walk before */
	bool distrust;	   /* that count was caught out: not what we take it for */
	uint32_t walks, n_regions;
	struct region region[N_REGIONS];
};

struct code {
	pid_t pid;
	uint32_t stamp; /* the sample that verified it */
	raddr at;
	struct pycode_print print;
	uint64_t id;
	uint32_t bytecode, firsttraceable, length; /* bytes, code units, bytes */
	raddr interp;
	uint32_t versions; /* the interpreter's count when last verified, 0: none */
	bool bad;
};

struct pystack {
	struct rmem_batch batch;
	struct rmem_record record;
	struct rmem *mem; /* what this sample reads through */
	void (*new_code)(void *arg, uint64_t id, const struct pycode_copy *c);
	void *arg;
	uint32_t max_frames, stamp, n_codes;
	uint64_t next_id;
	struct thread *threads;
	struct code *codes;
	struct pyframe *walked;
	struct pystack_frame *frames;
	struct pycode_copy *copy;
	unsigned char *bytes;
};

struct pystack *pystack_create(uint32_t max_frames,
			       void (*new_code)(void *, uint64_t,
						const struct pycode_copy *),
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
	p->copy = calloc(1, PYCODE_COPY_MAX);
	p->bytes = calloc(1, BATCH_BYTES);
	if (!p->threads || !p->codes || !p->walked || !p->frames || !p->copy || !p->bytes) {
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
	rmem_batch_fetch(&p->batch);
}

/* The current data-stack chunk lies in [chunk, top): bring what the plan did not. */
static void fetch_chunk(struct pystack *p, const struct pystack_target *t,
			struct thread *th)
{
	raddr at[3]; /* datastack_chunk, datastack_top, datastack_limit */
	raddr from;

	if (!pyoff_has(t->layout.tstate.datastack_chunk) ||
	    rmem_read(p->mem, th->tstate + pyoff_get(t->layout.tstate.datastack_chunk), at,
		      sizeof(at)) < 0)
		return;
	if (at[1] <= at[0] || at[1] - at[0] > CHUNK_MAX)
		return;
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

static bool joins(const struct region *r, raddr lo, raddr hi)
{
	return lo < r->hi + REGION_GAP && r->lo < hi + REGION_GAP &&
	       MAX(r->hi, hi) - MIN(r->lo, lo) <= REGION_MAX;
}

static void plan_touch(struct thread *th, raddr lo, raddr hi)
{
	struct region *r = th->region, *end = r + th->n_regions;

	if (hi <= lo)
		return;
	while (r < end && !joins(r, lo, hi))
		r++;
	if (r == end) {
		if (th->n_regions == N_REGIONS)
			return;
		*r = (struct region){ .lo = lo, .hi = hi };
		th->n_regions++;
	}
	r->lo = MIN(r->lo, lo);
	r->hi = MAX(r->hi, hi);
	r->walk = th->walks;
}

/* Where the count of code objects ever made lies; 0: nowhere. A tape does without,
 * so that each of its samples holds all that it rests on. */
static raddr versions_at(const struct pystack *p, const struct pystack_target *t,
			 const struct thread *th)
{
	if (th->distrust || p->mem == &p->record.base)
		return 0;
	if (t->code_versions)
		return t->code_versions;
	if (!th->interp || !pyoff_has(t->layout.interp.code_versions))
		return 0;
	return th->interp + pyoff_get(t->layout.interp.code_versions);
}

/* What this walk touched, and what earlier ones did not long ago. */
static void plan_next(const struct pystack *p, struct thread *th,
		      const struct pystack_target *t, const struct pywalk *w)
{
	const struct pyframe *f = p->walked;
	uint32_t n = 0;

	if (++th->walks % PLAN_AGE == 0)
		th->n_regions = 0;
	if (w->cframe)
		plan_touch(th, w->cframe, w->cframe + 24); /* sizeof(_PyCFrame), 3.11 */
	for (uint32_t i = 0; i < w->n; i++) {
		raddr at = f[i].frame & ~(raddr)PYFRAME_BITS;

		plan_touch(th, at, at + t->walk.fr_size);
		if (!th->steady && !(f[i].frame & PYFRAME_SHIM) &&
		    (i == 0 || f[i].code != f[i - 1].code))
			plan_touch(th, f[i].code, f[i].code + t->layout.code.size);
	}
	if (versions_at(p, t, th))
		plan_touch(th, versions_at(p, t, th), versions_at(p, t, th) + 4);
	for (uint32_t i = 0; i < th->n_regions; i++)
		if (th->walks - th->region[i].walk < REGION_AGE)
			th->region[n++] = th->region[i];
	th->n_regions = n;
}

/* Where a version has no counter, a fingerprint reads names and line table too. */
static void plan_fingerprint(struct thread *th, const struct pylayout *l,
			     const unsigned char *head)
{
	struct rmem_vec v[PYCODE_PARTS];
	size_t n = pycode_fingerprint_reads(l, head, v);

	for (size_t i = 0; i < n; i++)
		plan_touch(th, v[i].at, v[i].at + v[i].n);
}

/* --- the thread state --- */

static bool tstate_is(struct pystack *p, const struct pystack_target *t, raddr ts,
		      pid_t inner)
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
	th->none = r == -ESRCH && th->none_unique;
	if (r == -ESRCH)
		return PYSTACK_NOPYTHON;
	if (r < 0) {
		th->tstate = 0;
		return PYSTACK_FAULT;
	}
	return PYSTACK_OK;
}

/* --- code objects --- */

/* While that count stands still, no address can have become another code's, and what
 * was verified stays true. */
static void read_versions(struct pystack *p, const struct pystack_target *t,
			  struct thread *th)
{
	raddr interp = 0, at;
	uint32_t now = 0;

	if (rmem_read_u64(p->mem, th->tstate + pyoff_get(t->layout.tstate.interp), &interp) < 0)
		interp = 0;
	th->steady = interp == th->interp;
	th->interp = interp;
	at = versions_at(p, t, th);
	if (!at || rmem_read(p->mem, at, &now, sizeof(now)) < 0)
		now = 0;
	th->steady &= now && now == th->versions;
	th->versions = now;
}

static bool still_verified(const struct code *c, const struct thread *th)
{
	return c->id && !c->bad && c->versions && c->versions == th->versions &&
	       c->interp == th->interp;
}

static struct code *code_slot(struct pystack *p, pid_t pid, raddr at)
{
	uint64_t h = (at >> 4 ^ (uint64_t)pid << 40) * 0x9e3779b97f4a7c15u;
	uint32_t i = (uint32_t)(h >> 50) & (N_CODES - 1);

	for (; p->codes[i].at; i = (i + 1) & (N_CODES - 1))
		if (p->codes[i].at == at && p->codes[i].pid == pid)
			return &p->codes[i];
	if (p->n_codes >= N_CODES / 4 * 3) {
		memset(p->codes, 0, N_CODES * sizeof(*p->codes));
		p->n_codes = 0;
		return code_slot(p, pid, at);
	}
	p->n_codes++;
	p->codes[i] = (struct code){ .at = at, .pid = pid };
	return &p->codes[i];
}

static void copy_code(struct pystack *p, const struct pystack_target *t, struct code *c,
		      const unsigned char *head)
{
	c->bad = pycode_copy(p->mem, &t->layout, c->at, head, p->copy) < 0;
	if (c->bad)
		return;
	c->print = p->copy->print;
	c->bytecode = p->copy->bytecode;
	c->firsttraceable = p->copy->firsttraceable;
	/* ob_size, in code units, follows ob_type. */
	c->length = 2 * load_u32(head + pyoff_get(t->layout.object.type) + 8);
	c->id = p->next_id++;
	p->new_code(p->arg, c->id, p->copy);
}

/* A code object's own number is below the count, or the count is none. */
static void note_versions(const struct pystack_target *t, struct thread *th, struct code *c,
			  const unsigned char *head)
{
	if (th->versions && pyoff_has(t->layout.code.version) &&
	    load_u32(head + pyoff_get(t->layout.code.version)) >= th->versions) {
		th->distrust = true;
		th->versions = 0;
	}
	c->versions = th->versions;
	c->interp = th->interp;
}

/* The verified entry for a code object, or NULL when it can't be trusted. */
static struct code *verify_code(struct pystack *p, const struct pystack_target *t,
				struct thread *th, raddr at)
{
	struct code *c = code_slot(p, t->pid, at);
	unsigned char head[PYCODE_HEAD_MAX];
	struct pycode_print print;

	if (still_verified(c, th))
		return c;
	if (c->stamp == p->stamp)
		return c->bad ? NULL : c;
	c->stamp = p->stamp;
	c->bad = true;
	if ((at & 7) || rmem_read(p->mem, at, head, t->layout.code.size) < 0)
		return NULL;
	plan_fingerprint(th, &t->layout, head);
	if (pycode_fingerprint(p->mem, &t->layout, head, &print) < 0)
		return NULL;
	if (c->print.a == print.a && c->print.b == print.b && c->id)
		c->bad = false;
	else
		copy_code(p, t, c, head);
	note_versions(t, th, c, head);
	return c->bad ? NULL : c;
}

/* All heads that are not held yet, in one call. */
static void fetch_codes(struct pystack *p, const struct pystack_target *t,
			const struct thread *th, uint32_t n)
{
	raddr last = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct pyframe *f = &p->walked[i];

		if ((f->frame & PYFRAME_SHIM) || f->code == last)
			continue;
		last = f->code;
		if (still_verified(code_slot(p, t->pid, f->code), th))
			continue;
		rmem_batch_want(&p->batch, f->code, t->layout.code.size);
	}
	rmem_batch_fetch(&p->batch);
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

static enum pystack_end name_frames(struct pystack *p, const struct pystack_target *t,
				    struct thread *th, uint32_t n, uint32_t *ret)
{
	uint32_t k = 0, lasti;

	for (uint32_t i = 0; i < n; i++) {
		const struct code *c;

		if (p->walked[i].frame & PYFRAME_SHIM)
			continue;
		c = verify_code(p, t, th, p->walked[i].code);
		if (!c || !lasti_of(c, p->walked[i].instr, &lasti))
			return PYSTACK_BADCODE;
		/* CPython's own rule for frames that are not there yet; for 3.13+ it
		 * drops the static _Py_InitCleanup below each __init__. */
		if (k > 0 && lasti < 2 * c->firsttraceable)
			continue;
		p->frames[k++] = (struct pystack_frame){ .code_id = c->id, .lasti = lasti };
	}
	*ret = k;
	return k ? PYSTACK_OK : PYSTACK_NOPYTHON;
}

/* --- together --- */

static void begin(struct pystack *p, struct rmem *below,
		  void (*saw)(void *, raddr, const void *, size_t, int), void *saw_arg)
{
	p->stamp++;
	rmem_batch_init(&p->batch, below, p->bytes);
	p->mem = &p->batch.base;
	if (saw) {
		rmem_record_init(&p->record, &p->batch.base, saw, saw_arg);
		p->mem = &p->record.base;
	}
}

struct pystack_result
pystack_read(struct pystack *p, const struct pystack_target *t, struct rmem *below,
	     pid_t tid, pid_t inner,
	     void (*saw)(void *, raddr, const void *, size_t, int), void *saw_arg)
{
	struct pystack_result r = { .frames = p->frames };
	struct thread *th = thread_of(p, t->pid, tid);
	struct pywalk w;

	begin(p, below, saw, saw_arg);
	r.end = find_tstate(p, t, th, inner);
	if (r.end != PYSTACK_OK)
		return r;
	r.tstate = th->tstate;
	fetch_chunk(p, t, th);
	read_versions(p, t, th);
	w = pyframe_walk(p->mem, &t->walk, th->tstate, p->walked, p->max_frames);
	r.first = w.first;
	plan_next(p, th, t, &w);
	if (w.end == PYWALK_FAULT || w.end == PYWALK_BROKEN) {
		r.end = w.end == PYWALK_FAULT ? PYSTACK_FAULT : PYSTACK_BROKEN;
		return r;
	}
	r.truncated = w.end == PYWALK_LIMIT;
	fetch_codes(p, t, th, w.n);
	r.end = name_frames(p, t, th, w.n, &r.n);
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
