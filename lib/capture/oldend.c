/* SPDX-License-Identifier: MIT */
#include "oldend.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "../clock.h"
#include "../stats.h"
#include "births.h"
#include "proof.h"
#include "reader_int.h"

enum {
	QUEUE_BYTES = 16 << 20, /* 1 s of whole stacks, 8000 deep, at 99 Hz */
	OLD_NS = 20000000,	/* samples of that age are passed on as they are */
	JOIN_NS = 20000000,
};

/* One thread; what it owns stays when it is abandoned. */
struct worker {
	struct oldend *o;
	pthread_t thread;
	_Atomic int tid; /* 0: not running yet */
	struct guarded mem;
	uint64_t *cursors; /* proof_mapped() */
	struct pystack *ps;
	uint64_t mark; /* emit_mark() */
	bool code_lost;
	struct worker *next; /* in o->stuck */
};

struct oldend {
	struct reader_config *c;
	struct guard guard;
	struct queue out;
	struct worker *worker, *stuck;
	uint32_t generation;
	_Atomic bool stop;
};

static void new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct worker *w = arg;

	if (!emit_copy(&w->o->out, id | w->mark, c))
		w->code_lost = true;
}

/* Is @t what the process was at @s, and still is? */
static bool is_program(const struct worker *w, const struct target *t, const struct sample *s)
{
	return s->time >= t->begun_ns && births_execed(w->o->c->births, s->pid) <= t->begun_ns;
}

static struct pystack_result read_rest(struct worker *w, const struct q_deep *d)
{
	const struct sample *s = &d->q.sample;
	struct target *t = targets_find(w->o->c->targets, s->pid);
	struct pystack_result r = { .end = PYSTACK_END_N };

	if (!t || atomic_load_explicit(&t->state, memory_order_acquire) != TARGET_PYTHON ||
	    now_ns() - s->time > OLD_NS || !is_program(w, t, s))
		return r;
	guarded_target(&w->mem, s->pid);
	w->code_lost = false;
	r = pystack_read_rest(w->ps, &t->py, &w->mem.base, s->tid, &d->junction);
	if (w->code_lost)
		pystack_forget(w->ps, t->py.program);
	/* From the junction to the frame above it they take several chunks of the data
	 * stack, which CPython maps and unmaps. So both can't have been left and made again,
	 * on others, without a new one. */
	if (w->code_lost || proof_mapped(w->o->c, w->cursors, s->tid, s->time) ||
	    !is_program(w, t, s))
		r.end = PYSTACK_END_N;
	return r;
}

/* False: no room. */
static bool pass_joined(struct oldend *o, const struct q_deep *d,
			const struct pystack_result *rest, uint64_t mark)
{
	size_t head = (size_t)((char *)q_anchors(&d->q) - (const char *)&d->q);
	size_t bytes = q_bytes(&d->q), more = rest->n * sizeof(*rest->frames);
	struct q_sample *q = queue_reserve(&o->out, Q_SAMPLE, bytes + more);
	struct pystack_frame *f = (void *)((char *)q + head);

	if (!q)
		return false;
	memcpy(q, &d->q, head);
	memcpy(f + rest->n, q_anchors(&d->q), bytes - head);
	for (uint32_t i = 0; i < rest->n; i++) {
		f[i] = rest->frames[i];
		f[i].code_id |= mark;
	}
	q->n_python += rest->n;
	q->sample.truncated = rest->truncated;
	q->sample.late_ns = now_ns() - q->sample.time;
	if (q->sample.prov == PROV_EXACT)
		STATS_ADD(o->c->stats, late_deep, 1);
	q->sample.prov = PROV_LATE;
	queue_commit(&o->out);
	STATS_ADD(o->c->stats, truncated, rest->truncated);
	return true;
}

static void pass_cut(struct oldend *o, const struct q_deep *d)
{
	void *q = queue_reserve(&o->out, Q_SAMPLE, q_bytes(&d->q));

	if (!q) {
		emit_lost(o->c->stats, 1);
		return;
	}
	memcpy(q, &d->q, q_bytes(&d->q));
	queue_commit(&o->out);
	STATS_ADD(o->c->stats, truncated, 1);
	STATS_ADD(o->c->stats, old_end_gone, 1);
}

/* @w NULL: nothing is read any more. */
static void take_all(struct oldend *o, struct worker *w)
{
	const struct queue_record *rec;

	for (uint32_t i = 0; i < atomic_load(&o->c->n_slots); i++)
		while ((rec = queue_peek(&o->c->slots[i].deep))) {
			const struct q_deep *d = (const void *)rec->data;
			struct pystack_result rest = { .end = PYSTACK_END_N };

			if (w)
				rest = read_rest(w, d);
			if (rest.end != PYSTACK_OK || !pass_joined(o, d, &rest, w->mark))
				pass_cut(o, d);
			queue_pop(&o->c->slots[i].deep);
		}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct oldend *o = w->o;
	bool last = false;
	eventfd_t n;

	atomic_store_explicit(&w->tid, gettid(), memory_order_relaxed);
	work_shared = &o->c->others;
	while (!last) {
		last = atomic_load_explicit(&o->stop, memory_order_acquire);
		take_all(o, w);
		if (!last)
			eventfd_read(o->c->oldend_kick, &n);
	}
	return NULL;
}

static void worker_destroy(struct worker *w)
{
	if (!w)
		return;
	pystack_destroy(w->ps);
	free(w->cursors);
	free(w);
}

struct oldend *oldend_create(struct reader_config *c)
{
	struct oldend *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->c = c;
	c->oldend_kick = eventfd(0, EFD_CLOEXEC);
	if (c->oldend_kick >= 0 && queue_init(&o->out, QUEUE_BYTES) == 0)
		return o;
	oldend_destroy(o);
	return NULL;
}

void oldend_destroy(struct oldend *o)
{
	if (!o)
		return;
	queue_deinit(&o->out);
	if (o->c->oldend_kick >= 0)
		close(o->c->oldend_kick);
	free(o);
}

struct queue *oldend_queue(struct oldend *o)
{
	return &o->out;
}

int oldend_start(struct oldend *o)
{
	struct worker *w;

	if (o->generation == EMIT_GENERATIONS)
		return -EAGAIN;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->o = o;
	w->mark = emit_mark(o->c->cap_slots, ++o->generation);
	guarded_init(&w->mem, &o->guard, o->c->kick);
	/* The junction is read again, as the first of them. */
	w->ps = pystack_create(o->c->max_frames - READER_FRAMES + 1, new_code, w);
	w->cursors = calloc(o->c->cap_slots, sizeof(*w->cursors));
	if (!w->ps || !w->cursors || pthread_create(&w->thread, NULL, worker_main, w)) {
		worker_destroy(w);
		return -ENOMEM;
	}
	o->worker = w;
	return 0;
}

static bool ends_soon(struct worker *w)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += JOIN_NS;
	until.tv_sec += until.tv_nsec / (long)SECOND;
	until.tv_nsec %= (long)SECOND;
	return pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

void oldend_stop(struct oldend *o)
{
	if (!o)
		return;
	atomic_store_explicit(&o->stop, true, memory_order_release);
	eventfd_write(o->c->oldend_kick, 1);
	while (o->worker && !oldend_stuck(o))
		if (ends_soon(o->worker)) {
			worker_destroy(o->worker);
			o->worker = NULL;
		}
	take_all(o, NULL);
}

bool oldend_reads(const struct oldend *o)
{
	return o && guard_look(&o->guard) & 1;
}

pid_t oldend_stuck(struct oldend *o)
{
	pid_t pid = o && o->worker ? guard_stuck(&o->guard, atomic_load(&o->worker->tid)) : 0;

	if (!pid)
		return 0;
	o->worker->next = o->stuck;
	o->stuck = o->worker;
	o->worker = NULL;
	return pid;
}

pid_t oldend_returned(struct oldend *o)
{
	struct worker **p = o ? &o->stuck : NULL, *w;
	pid_t pid;

	while (p && *p && !atomic_load_explicit(&(*p)->mem.returned, memory_order_acquire))
		p = &(*p)->next;
	if (!p || !*p)
		return 0;
	w = *p;
	*p = w->next;
	pid = w->mem.below.pid;
	pthread_join(w->thread, NULL);
	worker_destroy(w);
	return pid;
}

bool oldend_haunted(const struct oldend *o)
{
	return o && o->stuck;
}
