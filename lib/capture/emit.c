/* SPDX-License-Identifier: MIT
 *
 * emit - what a reader found, into its queues. Never waits: what has no room is
 * counted.
 */
#include <sys/eventfd.h>

#include "capture/slots.h"
#include "base/clock.h"
#include "base/stats.h"
#include "capture/reader_int.h"

enum { CODE_GENERATION_SHIFT = 40, CODE_SLOT_SHIFT = 52 };

void emit_lost(struct stats *s, uint64_t n)
{
	STATS_ADD(s, lost, n);
	STATS_ADD(s, queue_full, n);
}

/* The first number of a slot's generation. */
static uint64_t first_code(const struct cpu_slot *slot, uint64_t generation)
{
	return ((uint64_t)slot->index << CODE_SLOT_SHIFT) +
	       (generation << CODE_GENERATION_SHIFT);
}

/* What makes the numbers of codes unique over all readers that have samples in a queue. */
static uint64_t code_mark(const struct reader *r)
{
	return first_code(r->slot, r->slot->generation);
}

void emit_generation(struct cpu_slot *slot)
{
	uint32_t last = slot->generation;
	struct q_codes_gone *q;

	slot->generation = last % EMIT_GENERATIONS + 1;
	q = last ? queue_reserve(&slot->queue, Q_CODES_GONE, sizeof(*q)) : NULL;
	if (!q) /* without room they go as they age, or as their numbers are given again */
		return;
	*q = (struct q_codes_gone){ .time = now_ns(),
				    .from = first_code(slot, last),
				    .below = first_code(slot, last + 1) };
	queue_commit(&slot->queue);
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

bool emit_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct reader *r = arg;
	size_t n = pycode_copy_size(c);
	unsigned char *p = queue_reserve(&r->slot->queue, Q_CODE, sizeof(id) + n);

	id |= code_mark(r);
	if (!p)
		return false;
	memcpy(p, &id, sizeof(id));
	memcpy(p + sizeof(id), c, n);
	queue_commit(&r->slot->queue);
	return true;
}

static bool keep_code(void *arg, uint64_t id, uint64_t was)
{
	struct reader *r = arg;
	uint64_t mark = code_mark(r);
	struct q_code_kept *q = queue_reserve(&r->slot->queue, Q_CODE_KEPT, sizeof(*q));

	if (!q)
		return false;
	*q = (struct q_code_kept){ .id = id | mark, .was = was | mark };
	queue_commit(&r->slot->queue);
	return true;
}

void emit_codes_gone(struct reader *r)
{
	uint64_t below = pystack_age_codes(r->ps, keep_code, r);
	struct q_codes_gone *q;

	if (!below)
		return;
	q = queue_reserve(&r->slot->queue, Q_CODES_GONE, sizeof(*q));
	if (!q) /* the next time tells of these as well */
		return;
	/* Those of earlier readers of the slot, too. */
	*q = (struct q_codes_gone){ .time = now_ns(),
				    .from = first_code(r->slot, 0),
				    .below = below | code_mark(r) };
	queue_commit(&r->slot->queue);
}

bool emit_control(struct reader *r, enum ctl_type type, struct ctl_msg m)
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
	return p;
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
					      .event = watch_event_of(r->c, r->slot, id) };
	}
}

static struct sample sample_of(const struct reader *r, const struct pending *p)
{
	const struct perf_sample *s = &p->s;

	return (struct sample){ .time = s->time,
				.period = s->period ? s->period : fixed_period(r, p),
				.ip = s->ip,
				.addr = s->addr,
				.pid = s->pid,
				.tid = s->tid,
				.cpu = s->cpu,
				.event = p->event,
				.misc = s->misc,
				.prov = p->prov,
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

void emit_sample(struct reader *r, const struct pending *p, const struct walk *w)
{
	bool python = p->prov == PROV_EXACT || p->prov == PROV_LATE;
	const struct pystack_result *res = &w->res;
	const struct perf_sample *s = &p->s;
	struct q_sample head = { 0 }, *q;

	emit_name(r, s);
	head.sample = sample_of(r, p);
	head.sample.gil = (uint8_t)w->gil;
	head.user_ip = s->have_user ? s->user_ip : 0;
	head.wait = r->wait;
	head.undecided = p->open;
	head.program = p->open ? w->published : NULL;
	head.n_kernel = s->n_kchain;
	head.n_python = python ? res->n : 0;
	head.n_anchors = python && r->c->native ? res->n_anchors : 0;
	head.n_reads = r->c->session->how[p->event].read ? s->n_reads : 0;
	head.sample.truncated = head.n_python && res->truncated;
	rest_size(r, p, w, &head);
	if (head.n_python && res->switching)
		q_drop_stack(&head);
	if (head.n_stack && queue_scarce(&r->slot->queue)) {
		q_drop_stack(&head);
		STATS_ADD(r->c->stats, stack_dropped, 1);
	}
	q = queue_reserve(&r->slot->queue, Q_SAMPLE, q_bytes(&head));
	if (!q) {
		emit_lost(r->c->stats, 1);
		return;
	}
	*q = head;
	q->n_kernel = copy_kernel(s, q_kernel(q));
	copy_python(r, res, q);
	copy_reads(r, s, q);
	rest_copy(r, s, q);
	if (head.sample.truncated)
		STATS_ADD(r->c->stats, truncated, 1);
	if (head.n_python && res->joined == PYSTACK_JOINED_SEVERAL)
		STATS_ADD(r->c->stats, awaited_by_several, 1);
	if (head.n_python && res->joined == PYSTACK_JOINED_PART)
		STATS_ADD(r->c->stats, awaiting_unknown, 1);
	if (head.n_python && res->joined == PYSTACK_JOINED_NOT)
		STATS_ADD(r->c->stats, tasks_unknown, 1);
	count_sample(r);
	queue_commit(&r->slot->queue);
}
