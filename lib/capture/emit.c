/* SPDX-License-Identifier: MIT
 *
 * emit - what a reader found, into its queues. Never waits: what has no room is
 * counted.
 */
#include <sys/eventfd.h>

#include "../perf_decode.h"
#include "../stats.h"
#include "../tape.h"
#include "reader_int.h"

enum { CODE_GENERATION_SHIFT = 40, CODE_SLOT_SHIFT = 52 };

void emit_lost(uint64_t n)
{
	STATS_ADD(lost, n);
	STATS_ADD(queue_full, n);
}

uint64_t emit_mark(uint32_t index, uint32_t generation)
{
	uint64_t of_index = (uint64_t)index << CODE_SLOT_SHIFT;

	return of_index | (uint64_t)generation << CODE_GENERATION_SHIFT;
}

static uint64_t code_mark(const struct reader *r)
{
	return emit_mark(r->slot->index, r->slot->generation);
}

void emit_side(struct reader *r, const struct perf_event_header *h)
{
	void *p = queue_reserve(&r->slot->queue, Q_SIDE, h->size);

	if (!p) {
		STATS_ADD(side_lost, 1);
		return;
	}
	memcpy(p, h, h->size);
	queue_commit(&r->slot->queue);
}

bool emit_copy(struct queue *q, uint64_t id, const struct pycode_copy *c)
{
	size_t n = pycode_copy_size(c);
	unsigned char *p = queue_reserve(q, Q_CODE, sizeof(id) + n);

	if (!p)
		return false;
	memcpy(p, &id, sizeof(id));
	memcpy(p + sizeof(id), c, n);
	queue_commit(q);
	return true;
}

void emit_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct reader *r = arg;

	if (!emit_copy(&r->slot->queue, id | code_mark(r), c))
		r->code_lost = true;
}

static void tape(struct reader *r, enum tape_type type, const void *head, size_t head_n,
		 struct bytes body)
{
	uint32_t tag[2] = { type, (uint32_t)head_n };
	unsigned char *p;

	p = queue_reserve(&r->slot->queue, Q_TAPE, sizeof(tag) + head_n + body.n);
	if (!p)
		return;
	memcpy(p, tag, sizeof(tag));
	memcpy(p + sizeof(tag), head, head_n);
	if (body.n)
		memcpy(p + sizeof(tag) + head_n, body.at, body.n);
	queue_commit(&r->slot->queue);
}

void emit_read(void *arg, raddr at, const void *bytes, size_t n, int ret)
{
	struct reader *r = arg;
	struct tape_read head = { .at = at, .n = n, .ret = ret, .cpu = r->slot->index };

	tape(r, TAPE_READ, &head, sizeof(head),
	     (struct bytes){ .at = bytes, .n = ret == 0 ? n : 0 });
}

void emit_control(struct reader *r, enum ctl_type type, struct ctl_msg m)
{
	struct ctl_msg *p = queue_reserve(&r->slot->ctl, type, sizeof(*p));

	if (p) {
		*p = m;
		queue_commit(&r->slot->ctl);
	}
	eventfd_write(r->c->kick, 1);
}

/* The kernel's addresses without the context markers. */
static uint32_t copy_kernel(const struct perf_sample *s, uint64_t *to)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_kchain; i++) {
		uint64_t ip = load_u64(s->kchain + 8 * (size_t)i);

		if (ip < PERF_CONTEXT_MAX)
			to[n++] = ip;
	}
	return n;
}

static uint64_t fixed_period(const struct reader *r, const struct pending *p)
{
	return r->c->session->events[p->event].attr.sample_period;
}

/* Room for a sample with @n bytes behind it: for oldend, if its stack can be finished, else
 * for the resolver. */
static struct q_sample *reserve(struct reader *r, const struct pystack_result *res, bool deep,
				size_t n)
{
	struct q_deep *d;

	if (!deep)
		return queue_reserve(&r->slot->queue, Q_SAMPLE, sizeof(struct q_sample) + n);
	d = queue_reserve(&r->slot->deep, Q_SAMPLE, sizeof(*d) + n);
	if (!d)
		return NULL;
	d->junction = res->junction;
	return &d->q;
}

static void commit(struct reader *r, bool deep)
{
	queue_commit(deep ? &r->slot->deep : &r->slot->queue);
	if (deep)
		eventfd_write(r->c->oldend_kick, 1);
}

void emit_sample(struct reader *r, const struct pending *p, enum provenance prov,
		 const struct pystack_result *res)
{
	const struct perf_event_header *h = perf_ring_at(&r->slot->ring, p->pos, r->bounce);
	uint32_t n = prov == PROV_EXACT || prov == PROV_LATE ? res->n : 0;
	bool truncated = n && res->truncated, deep = truncated && r->c->oldends;
	uint64_t mark = code_mark(r);
	struct pystack_frame *f;
	struct perf_sample s;
	struct q_sample *q;

	if (perf_decode_sample(h, r->c->sample_type, &s) < 0)
		return;
	q = reserve(r, res, deep, 8 * (size_t)s.n_kchain + n * sizeof(*f));
	if (!q) {
		emit_lost(1);
		return;
	}
	*q = (struct q_sample){
		.sample = { .time = s.time,
			    .period = s.period ? s.period : fixed_period(r, p),
			    .ip = s.ip,
			    .addr = s.addr,
			    .pid = s.pid,
			    .tid = s.tid,
			    .cpu = s.cpu,
			    .event = p->event,
			    .misc = s.misc,
			    .prov = prov,
			    .truncated = truncated,
			    .late_ns = p->hold.t_end - s.time },
		.user_ip = s.have_user ? s.user_ip : 0,
		.n_python = n,
	};
	q->n_kernel = copy_kernel(&s, (uint64_t *)(q + 1));
	f = (struct pystack_frame *)((uint64_t *)(q + 1) + q->n_kernel);
	for (uint32_t i = 0; i < n; i++) {
		f[i] = res->frames[i];
		f[i].code_id |= mark;
	}
	if (truncated && !deep)
		STATS_ADD(truncated, 1);
	commit(r, deep);
}

void emit_tape(struct reader *r, const struct pending *p, enum provenance prov,
	       const struct pystack_result *res, pid_t tid, pid_t inner)
{
	const struct perf_event_header *h = perf_ring_at(&r->slot->ring, p->pos, r->bounce);
	struct tape_record rec = { .event = p->event, .cpu = (uint32_t)r->slot->cpu };
	struct tape_verdict v = {
		.prov = prov,
		.truncated = res->truncated,
		.pid = p->pid,
		.tid = tid,
		.tid_inner = inner,
		.cpu = r->slot->index,
		.late_ns = p->hold.t_end - p->time,
	};

	tape(r, TAPE_RECORD, &rec, sizeof(rec),
	     (struct bytes){ .at = (const void *)h, .n = h->size });
	tape(r, TAPE_VERDICT, &v, sizeof(v), (struct bytes){ 0 });
}
