/* SPDX-License-Identifier: MIT */
#include "resolver.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "../output/sink.h"
#include "clock.h"
#include "perf_decode.h"
#include "profile.h"
#include "stats.h"
#include "symbolize.h"

enum { TICK_MS = 70, CYCLE_TICKS = 2, MAX_STACK = PYWALK_MAX_FRAMES + 512 };

/* A queued record that waits for its place in time. */
struct item {
	uint64_t time, seq;
	uint32_t type, n;
	unsigned char *data;
};

struct resolver {
	struct resolver_config c;
	_Atomic size_t n_queues;
	struct profile *profile;
	struct symbolizer *symbols;
	struct item *items;
	size_t n_items, cap_items;
	uint64_t seq;
	bool want_names;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	_Atomic int failed;
	struct resolver_counts counts;
	struct frame frames[MAX_STACK];
};

struct resolver *resolver_create(const struct resolver_config *c)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->c = *c;
	r->n_queues = c->n_queues;
	r->profile = profile_create();
	r->symbols = symbolizer_create();
	for (size_t i = 0; i < c->n_sinks; i++)
		if (c->sinks[i]->ops->needs & SINK_NEEDS_NAMES)
			r->want_names = true;
	if (r->profile && r->symbols) {
		/* 50 ms for the kernel's symbols: now, not in the middle of a recording. */
		if (r->want_names && (c->session->flags & SESSION_KERNEL))
			symbolize_kernel(r->symbols, 0);
		return r;
	}
	resolver_destroy(r);
	return NULL;
}

void resolver_destroy(struct resolver *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_items; i++)
		free(r->items[i].data);
	free(r->items);
	profile_destroy(r->profile);
	symbolizer_destroy(r->symbols);
	free(r);
}

void resolver_add_queue(struct resolver *r, struct queue *q)
{
	r->c.queues[r->n_queues] = q;
	r->n_queues++;
}

int resolver_failed(const struct resolver *r)
{
	return atomic_load(&r->failed);
}

static void note_failure(struct resolver *r, const struct sink *s, int ret)
{
	if (ret < 0 || s->failed)
		atomic_store(&r->failed, s->failed ? s->failed : ret);
}

/* --- one sample --- */

static void push(struct resolver *r, size_t *n, struct frame f)
{
	if (*n < MAX_STACK)
		r->frames[(*n)++] = f;
}

static void push_kernel(struct resolver *r, size_t *n, const uint64_t *ip, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		push(r, n,
		     (struct frame){
			     .kind = FRAME_KERNEL,
			     .ip = ip[i],
			     .name = r->want_names ? symbolize_kernel(r->symbols, ip[i]) :
						     NULL,
		     });
}

/* The user address where the thread was: the sampled one, or where it entered the
 * kernel. The eval loop's own stands for the Python frame and is left out. */
static void push_leaf(struct resolver *r, size_t *n, const struct q_sample *q)
{
	const struct sample *s = &q->sample;
	bool user = (s->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
	uint64_t ip = user ? s->ip : q->user_ip;
	bool frames = s->prov == PROV_EXACT || s->prov == PROV_LATE;

	if (!ip || (!r->c.native && s->prov != PROV_NOPYTHON))
		return;
	if (frames && !r->c.full && symbolize_is_eval(r->symbols, s->pid, ip))
		return;
	push(r, n,
	     (struct frame){
		     .kind = FRAME_NATIVE,
		     .ip = ip,
		     .name = r->want_names ? symbolize_user(r->symbols, s->pid, ip) : NULL,
	     });
}

/* False: a code that was never queued, which must not happen. */
static bool push_python(struct resolver *r, size_t *n, const struct pystack_frame *f,
			uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct frame frame = { .kind = FRAME_PYTHON };

		frame.func = profile_lookup(r->profile, f[i].code_id, f[i].lasti, &frame.line);
		if (!frame.func)
			return false;
		push(r, n, frame);
	}
	return true;
}

static void give_sample(struct resolver *r, struct q_sample *q)
{
	const uint64_t *kernel = (const uint64_t *)(q + 1);
	struct sample *s = &q->sample;
	struct stack stack = { .frames = r->frames };

	push_kernel(r, &stack.n, kernel, q->n_kernel);
	push_leaf(r, &stack.n, q);
	if (!push_python(r, &stack.n, (const void *)(kernel + q->n_kernel), q->n_python)) {
		STATS_ADD(torn_badcode, 1);
		s->prov = PROV_TORN;
		stack.n = 0;
		push_kernel(r, &stack.n, kernel, q->n_kernel);
		push_leaf(r, &stack.n, q);
	}
	if (s->prov == PROV_LATE || s->prov == PROV_TORN)
		push(r, &stack.n,
		     (struct frame){
			     .kind = FRAME_MARKER,
			     .name = s->prov == PROV_LATE ? "[late]" : "[torn]",
		     });
	r->counts.by_prov[s->prov]++;
	for (size_t i = 0; i < r->c.n_sinks; i++)
		note_failure(r, r->c.sinks[i],
			     r->c.sinks[i]->ops->sample(r->c.sinks[i], s, &stack));
}

/* --- what is not a sample --- */

static void give_side(struct resolver *r, const struct perf_event_header *h)
{
	struct side s;

	if (perf_decode_side(h, &s) < 0)
		return;
	if (s.kind == SIDE_LOST)
		STATS_ADD(lost, s.u.lost.n);
	else if (s.kind == SIDE_THROTTLE)
		STATS_ADD(throttled, 1);
	symbolizer_side(r->symbols, &s);
	for (size_t i = 0; i < r->c.n_sinks; i++)
		if (r->c.sinks[i]->ops->side)
			note_failure(r, r->c.sinks[i],
				     r->c.sinks[i]->ops->side(r->c.sinks[i], &s));
}

static void give_tape(struct resolver *r, const unsigned char *p, size_t n)
{
	uint32_t type = load_u32(p), head = load_u32(p + 4);

	if (n < 8 || head > n - 8)
		return;
	for (size_t i = 0; i < r->c.n_sinks; i++)
		if (r->c.sinks[i]->ops->raw)
			note_failure(r, r->c.sinks[i],
				     r->c.sinks[i]->ops->raw(
					     r->c.sinks[i], type,
					     (struct bytes){ .at = p + 8, .n = head },
					     (struct bytes){ .at = p + 8 + head,
							     .n = n - 8 - head }));
}

static void give(struct resolver *r, struct item *i)
{
	if (i->type == Q_SAMPLE)
		give_sample(r, (struct q_sample *)(void *)i->data);
	else
		give_side(r, (const struct perf_event_header *)(void *)i->data);
}

/* --- order --- */

static uint64_t time_of(uint32_t type, const unsigned char *data, size_t n)
{
	struct side s;

	if (type == Q_SAMPLE)
		return ((const struct q_sample *)(const void *)data)->sample.time;
	(void)n;
	return perf_decode_side((const void *)data, &s) < 0 ? 0 : s.time;
}

static void keep(struct resolver *r, uint32_t type, const unsigned char *data, size_t n)
{
	struct item *it;

	if (r->n_items == r->cap_items) {
		size_t cap = r->cap_items ? r->cap_items * 2 : 1024;
		struct item *items = realloc(r->items, cap * sizeof(*items));

		if (!items) {
			STATS_ADD(lost, type == Q_SAMPLE);
			return;
		}
		r->items = items;
		r->cap_items = cap;
	}
	it = &r->items[r->n_items];
	*it = (struct item){ .time = time_of(type, data, n), .seq = r->seq++, .type = type };
	it->data = malloc(n);
	if (!it->data) {
		STATS_ADD(lost, type == Q_SAMPLE);
		return;
	}
	memcpy(it->data, data, n);
	it->n = (uint32_t)n;
	r->n_items++;
}

static void take_record(struct resolver *r, const struct queue_record *rec)
{
	size_t n = rec->n - sizeof(*rec);

	switch (rec->type) {
	case Q_CODE:
		profile_code(r->profile, load_u64(rec->data), (const void *)(rec->data + 8),
			     n - 8);
		break;
	case Q_TAPE:
		give_tape(r, rec->data, n);
		break;
	default:
		keep(r, rec->type, rec->data, n);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Hand on everything older than @horizon. */
static void release(struct resolver *r, uint64_t horizon)
{
	size_t n = 0;

	if (r->n_items)
		qsort(r->items, r->n_items, sizeof(*r->items), by_time);
	while (n < r->n_items && r->items[n].time < horizon) {
		give(r, &r->items[n]);
		free(r->items[n++].data);
	}
	if (!n)
		return;
	r->n_items -= n;
	memmove(r->items, r->items + n, r->n_items * sizeof(*r->items));
	for (size_t i = 0; i < r->c.n_sinks; i++)
		if (r->c.sinks[i]->ops->round)
			note_failure(r, r->c.sinks[i],
				     r->c.sinks[i]->ops->round(r->c.sinks[i]));
}

static void drain(struct resolver *r)
{
	const struct queue_record *rec;

	for (size_t i = 0; i < r->n_queues; i++)
		while ((rec = queue_peek(r->c.queues[i]))) {
			take_record(r, rec);
			queue_pop(r->c.queues[i]);
		}
}

static void *resolver_main(void *arg)
{
	struct resolver *r = arg;
	struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
	uint64_t before = 0, now;

	/* What a reader took from its ring before the last cycle began has reached
	 * the queue by now: older records are complete and can go. */
	while (!atomic_load(&r->stop)) {
		now = now_ns();
		drain(r);
		release(r, before);
		before = now;
		for (int i = 0; i < CYCLE_TICKS; i++) {
			nanosleep(&tick, NULL);
			if (r->c.tick)
				r->c.tick(r->c.tick_arg);
		}
	}
	drain(r);
	release(r, UINT64_MAX);
	return NULL;
}

int resolver_start(struct resolver *r)
{
	int e = pthread_create(&r->thread, NULL, resolver_main, r);

	r->started = e == 0;
	return -e;
}

void resolver_stop(struct resolver *r, struct resolver_counts *ret)
{
	if (r->started) {
		atomic_store(&r->stop, true);
		pthread_join(r->thread, NULL);
		r->started = false;
	}
	*ret = r->counts;
}
