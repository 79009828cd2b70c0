/* SPDX-License-Identifier: MIT
 *
 * emit - what a reader found, into its queues. Never waits: what has no room is
 * counted.
 */
#include <sys/eventfd.h>

#include "../perf_decode.h"
#include "../slots.h"
#include "../stats.h"
#include "reader_int.h"

enum { CODE_GENERATION_SHIFT = 40, CODE_SLOT_SHIFT = 52 };

void emit_lost(struct stats *s, uint64_t n)
{
	STATS_ADD(s, lost, n);
	STATS_ADD(s, queue_full, n);
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

bool emit_side(struct reader *r, const struct perf_event_header *h)
{
	void *p = queue_reserve(&r->slot->queue, Q_SIDE, h->size);

	if (!p) {
		STATS_ADD(r->c->stats, side_lost, 1);
		return false;
	}
	memcpy(p, h, h->size);
	queue_commit(&r->slot->queue);
	return true;
}

struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	char name[RUN_TABLE_NAME];
	struct {
		uint32_t pid, tid;
		uint64_t time, cpu, id;
	} trailer;
};
_Static_assert(sizeof(struct comm_record) == 8 + 8 + RUN_TABLE_NAME + PERF_TRAILER, "no gaps");

/* The thread of @s is called what it was called at its sample: told before its first one, for
 * nobody has looked at threads that sleep. */
static void emit_name(struct reader *r, const struct perf_sample *s)
{
	struct comm_record c = {
		.header = { .type = PERF_RECORD_COMM, .size = sizeof(c) },
		.pid = (uint32_t)s->pid,
		.tid = (uint32_t)s->tid,
		.trailer = { .pid = (uint32_t)s->pid,
			     .tid = (uint32_t)s->tid,
			     .time = s->time - 1 },
	};

	if (!r->c->named || ours_has(r->c->named, s->tid) ||
	    !run_table_name(r->c->table, s->tid, c.name))
		return;
	if (emit_side(r, &c.header))
		ours_set(r->c->named, s->tid, true);
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

void emit_control(struct reader *r, enum ctl_type type, struct ctl_msg m)
{
	struct ctl_msg *p = queue_reserve(&r->slot->ctl, type, sizeof(*p));

	if (p) {
		*p = m;
		if (type == CTL_LOOK)
			atomic_fetch_add(&r->c->asked, 1);
		queue_commit(&r->slot->ctl);
	} else {
		STATS_ADD(r->c->stats, side_lost, 1);
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

/* A sample whose stack can be finished is @deep. */
static struct queue *queue_for(struct reader *r, bool deep)
{
	return deep ? &r->slot->deep : &r->slot->queue;
}

/* Room for a sample with what @head says: for oldend, if its stack can be finished, else for
 * the resolver. */
static struct q_sample *reserve(struct reader *r, const struct pystack_result *res, bool deep,
				const struct q_sample *head)
{
	size_t n = q_bytes(head);
	struct q_deep *d;

	if (!deep)
		return queue_reserve(queue_for(r, deep), Q_SAMPLE, n);
	d = queue_reserve(queue_for(r, deep), Q_SAMPLE, sizeof(*d) - sizeof(d->q) + n);
	if (!d)
		return NULL;
	d->junction = res->junction;
	return &d->q;
}

static void commit(struct reader *r, bool deep)
{
	queue_commit(queue_for(r, deep));
	if (deep)
		eventfd_write(r->c->oldend_kick, 1);
}

static void copy_python(const struct reader *r, const struct pystack_result *res,
			struct q_sample *q)
{
	struct pystack_frame *to = q_python(q);
	uint64_t mark = code_mark(r);

	for (uint32_t i = 0; i < q->n_python; i++) {
		to[i] = res->frames[i];
		to[i].code_id |= mark;
	}
	if (q->n_anchors)
		memcpy(q_anchors(q), res->anchors, q->n_anchors * sizeof(*res->anchors));
}

static void copy_reads(struct reader *r, const struct perf_sample *s, struct q_sample *q)
{
	struct counts_read *to = q_reads(q);

	for (uint32_t i = 0; i < q->n_reads; i++) {
		uint64_t id = load_u64(s->reads + 16 * (size_t)i + 8);

		to[i] = (struct counts_read){ .id = id,
					      .value = load_u64(s->reads + 16 * (size_t)i),
					      .event = reader_event_of(r, id) };
	}
}

static struct sample sample_of(const struct reader *r, const struct pending *p,
			       enum provenance prov, const struct perf_sample *s)
{
	return (struct sample){ .time = s->time,
				.period = s->period ? s->period : fixed_period(r, p),
				.ip = s->ip,
				.addr = s->addr,
				.pid = s->pid,
				.tid = s->tid,
				.cpu = s->cpu,
				.event = p->event,
				.misc = s->misc,
				.prov = prov,
				.late_ns = p->hold.t_end - s->time };
}

/* What was done by the first sample that any reader queued. */
static void count_sample(struct reader *r)
{
	struct reader_config *c = r->c;

	if (!atomic_load_explicit(&c->first_seen, memory_order_relaxed) &&
	    !atomic_exchange(&c->first_seen, true))
		slots_work(c, &c->first);
	work_add(WORK_samples, 1);
}

void emit_sample(struct reader *r, const struct pending *p, enum provenance prov,
		 const struct pystack_result *res, const struct undecided *open)
{
	const struct perf_event_header *h = perf_ring_at(&r->slot->ring, p->pos, r->bounce);
	bool python = prov == PROV_EXACT || prov == PROV_LATE, truncated, deep;
	struct q_sample head = { 0 }, *q;
	struct perf_sample s;

	if (perf_decode_sample(h, r->c->sample_type, &s) < 0)
		return;
	emit_name(r, &s);
	head.sample = sample_of(r, p, prov, &s);
	head.user_ip = s.have_user ? s.user_ip : 0;
	head.undecided = open != NULL;
	head.program = open ? open->program : NULL;
	head.n_kernel = s.n_kchain;
	head.n_python = python ? res->n : 0;
	head.n_anchors = python && r->c->native ? res->n_anchors : 0;
	head.n_reads = r->c->session->how[p->event].read ? s.n_reads : 0;
	head.sample.truncated = truncated = head.n_python && res->truncated;
	deep = truncated && r->c->oldends;
	rest_size(r, &s, res, p->held, &head);
	if (head.n_python && res->switching)
		q_drop_stack(&head);
	if (head.n_stack && queue_scarce(queue_for(r, deep))) {
		q_drop_stack(&head);
		STATS_ADD(r->c->stats, stack_dropped, 1);
	}
	q = reserve(r, res, deep, &head);
	if (!q) {
		emit_lost(r->c->stats, 1);
		return;
	}
	*q = head;
	q->n_kernel = copy_kernel(&s, q_kernel(q));
	copy_python(r, res, q);
	copy_reads(r, &s, q);
	rest_copy(r, &s, q);
	if (truncated && !deep)
		STATS_ADD(r->c->stats, truncated, 1);
	count_sample(r);
	commit(r, deep);
}
