/* SPDX-License-Identifier: MIT */
#include "reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include "../perf_decode.h"
#include "../pystack.h"
#include "../stats.h"
#include "../tape.h"
#include "proof.h"

#define READER_WAKE SIGUSR2

enum {
	PEND_MAX = 64,
	GAP_START_NS = 150000, /* until the machine's own gap is known */
	GAP_MIN_NS = 40000,
	CODE_GENERATION_SHIFT = 40, CODE_SLOT_SHIFT = 52,
};
static const uint64_t SECOND = 1000000000;

/* A sample that waits for its thread to be read. */
struct pending {
	uint64_t pos; /* of its record in the ring */
	pid_t pid, tid;
	uint64_t time;
	uint32_t event;
	bool in_kernel;
	struct hold hold;
};

struct reader {
	struct reader_config *c;
	struct cpu_slot *slot;
	pthread_t thread;
	_Atomic bool stop;

	/* Odd while inside a remote read of @reading; the control thread may then
	 * swing it to ABANDONED, after which this thread may touch nothing. */
	_Atomic uint64_t guard;
	_Atomic int reading;

	struct pystack *ps;
	struct rmem live;
	struct rmem_live below;
	struct pending pend[PEND_MAX];
	uint32_t n_pend;
	uint64_t pos;	   /* in our ring: everything before it is dealt with */
	uint64_t *cursor;  /* in the others' rings */
	uint64_t gap_ns;   /* running estimate of t0 -> t_out in user code */
	uint64_t window_ns, held_ns; /* hold budget: this second's */
	bool code_lost;
	unsigned char bounce[PERF_RECORD_BYTES];
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* --- the guarded reader of remote memory --- */

static const uint64_t ABANDONED = ~(uint64_t)0;

static uint64_t guard_enter(struct reader *r)
{
	uint64_t g = atomic_load_explicit(&r->guard, memory_order_relaxed) + 1;

	atomic_store_explicit(&r->guard, g, memory_order_release);
	return g;
}

static void guard_leave(struct reader *r, uint64_t g)
{
	if (!atomic_compare_exchange_strong(&r->guard, &g, g + 1))
		pthread_exit(NULL); /* abandoned: another reader owns the slot now */
}

static int guarded_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct reader *r = container_of(m, struct reader, live);
	uint64_t g = guard_enter(r);
	int ret = rmem_read(&r->below.base, at, buf, n);

	guard_leave(r, g);
	return ret;
}

static size_t guarded_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct reader *r = container_of(m, struct reader, live);
	uint64_t g = guard_enter(r);
	size_t ret = rmem_readv(&r->below.base, v, n);

	guard_leave(r, g);
	return ret;
}

static const struct rmem_ops guarded_ops = {
	.name = "guarded",
	.read = guarded_read,
	.readv = guarded_readv,
};

/* --- to the resolver and the control thread --- */

static void count_lost(uint64_t n)
{
	STATS_ADD(lost, n);
	STATS_ADD(queue_full, n);
}

static void queue_bytes(struct reader *r, enum q_type type, struct bytes a, struct bytes b)
{
	unsigned char *p = queue_reserve(&r->slot->queue, type, a.n + b.n);

	if (!p) {
		count_lost(type == Q_SAMPLE);
		return;
	}
	if (a.n)
		memcpy(p, a.at, a.n);
	if (b.n)
		memcpy(p + a.n, b.at, b.n);
	queue_commit(&r->slot->queue);
}

static void new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct reader *r = arg;
	size_t n = pycode_copy_size(c);
	unsigned char *p = queue_reserve(&r->slot->queue, Q_CODE, sizeof(id) + n);

	if (!p) {
		r->code_lost = true;
		return;
	}
	id |= (uint64_t)r->slot->generation << CODE_GENERATION_SHIFT |
	      (uint64_t)r->slot->index << CODE_SLOT_SHIFT;
	memcpy(p, &id, sizeof(id));
	memcpy(p + sizeof(id), c, n);
	queue_commit(&r->slot->queue);
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

static void saw_read(void *arg, raddr at, const void *bytes, size_t n, int ret)
{
	struct reader *r = arg;
	struct tape_read head = { .at = at, .n = n, .ret = ret, .cpu = r->slot->index };

	tape(r, TAPE_READ, &head, sizeof(head),
	     (struct bytes){ .at = bytes, .n = ret == 0 ? n : 0 });
}

static void tell_control(struct reader *r, enum ctl_type type, pid_t pid, pid_t ppid)
{
	struct ctl_msg *m = queue_reserve(&r->slot->ctl, type, sizeof(*m));

	if (m) {
		*m = (struct ctl_msg){ .pid = pid, .ppid = ppid };
		queue_commit(&r->slot->ctl);
	}
	eventfd_write(r->c->kick, 1);
}

/* --- scanning the ring --- */

static uint32_t event_of(const struct reader_config *c, uint64_t id)
{
	uint32_t i;

	if (c->session->n_events == 1)
		return 0;
	for (i = (uint32_t)id & c->id_mask; c->ids[i] && c->ids[i] != id;)
		i = (i + 1) & c->id_mask;
	return c->ids[i] ? c->id_event[i] : 0;
}

/* Clock and PMU overflows hit the code they name; other software events happen
 * in the kernel while it works for that code. */
static bool event_in_kernel(const struct perf_event_attr *a)
{
	return a->type == PERF_TYPE_SOFTWARE && a->config != PERF_COUNT_SW_CPU_CLOCK &&
	       a->config != PERF_COUNT_SW_TASK_CLOCK;
}

static void flush(struct reader *r);

static void scan_sample(struct reader *r, const struct perf_event_header *h, uint64_t pos)
{
	struct perf_sample s;
	struct pending *p;

	if (perf_decode_sample(h, r->c->callchain, &s) < 0)
		return;
	if (s.time < atomic_load_explicit(&r->c->start_ns, memory_order_relaxed)) {
		STATS_ADD(early, 1);
		return;
	}
	if (r->n_pend == PEND_MAX) {
		for (uint32_t i = 0; i < r->n_pend; i++)
			r->pend[i].hold.backlog = true;
		flush(r);
	}
	p = &r->pend[r->n_pend++];
	*p = (struct pending){ .pos = pos, .pid = s.pid, .tid = s.tid, .time = s.time };
	p->event = event_of(r->c, s.id);
	p->hold.t0 = s.time;
	p->hold.in_kernel = (s.misc & PERF_RECORD_MISC_CPUMODE_MASK) !=
				    PERF_RECORD_MISC_USER ||
			    event_in_kernel(&r->c->session->events[p->event].attr);
}

static void scan_switch(struct reader *r, const struct proof_switch *sw)
{
	if (!sw->out)
		proof_note_in(r->c, sw->tid, sw->time);
	for (uint32_t i = 0; i < r->n_pend; i++) {
		struct hold *h = &r->pend[i].hold;

		if (r->pend[i].tid != sw->tid)
			continue;
		if (!sw->out) {
			h->backlog = true;
		} else if (!h->t_out) {
			h->t_out = sw->time;
			h->preempted = sw->preempt;
		}
	}
}

static void scan_other(struct reader *r, const struct perf_event_header *h)
{
	struct side s;

	queue_bytes(r, Q_SIDE, (struct bytes){ .at = (const void *)h, .n = h->size },
		    (struct bytes){ 0 });
	if (perf_decode_side(h, &s) < 0)
		return;
	if (s.kind == SIDE_FORK && s.pid != s.u.fork.ppid)
		tell_control(r, CTL_FORK, s.pid, s.u.fork.ppid);
	else if (s.kind == SIDE_COMM && s.u.comm.exec) {
		pystack_forget(r->ps, s.pid);
		tell_control(r, CTL_EXEC, s.pid, 0);
	} else if (s.kind == SIDE_EXIT && s.pid == s.tid)
		tell_control(r, CTL_EXIT, s.pid, 0);
}

static uint64_t scan_record(struct reader *r, uint64_t pos)
{
	const struct perf_event_header *h = perf_ring_at(&r->slot->ring, pos, r->bounce);
	struct proof_switch sw;

	if (!h)
		return perf_ring_head(&r->slot->ring);
	if (h->type == PERF_RECORD_SAMPLE)
		scan_sample(r, h, pos);
	else if (proof_is_switch(h, (const unsigned char *)h + h->size - PERF_TRAILER, &sw))
		scan_switch(r, &sw);
	else if (h->type != PERF_RECORD_SWITCH)
		scan_other(r, h);
	return pos + h->size;
}

/* --- reading and judging --- */

/* Has the thread come onto any CPU since it left ours? */
static bool ran_since(struct reader *r, pid_t tid, uint64_t since)
{
	struct reader_config *c = r->c;
	uint64_t own = r->pos;

	if (proof_ran_in_ring(r->slot, &own, tid, since))
		return true;
	for (uint32_t i = 0; i < c->n_slots; i++)
		if (i != r->slot->index &&
		    proof_ran_in_ring(&c->slots[i], &r->cursor[i], tid, since))
			return true;
	return proof_ran_noted(c, tid, since);
}

static void count_judgement(enum judgement j)
{
	switch (j) {
	case JUDGE_BACKLOG:
		STATS_ADD(late_backlog, 1);
		break;
	case JUDGE_GAP:
		STATS_ADD(late_gap, 1);
		break;
	case JUDGE_VOLUNTARY:
		STATS_ADD(late_voluntary, 1);
		break;
	case JUDGE_RAN:
		STATS_ADD(late_ran, 1);
		break;
	case JUDGE_NOSWITCH:
		STATS_ADD(late_noswitch, 1);
		break;
	case JUDGE_CAPTURE:
		STATS_ADD(late_capture, 1);
		break;
	default:
		break;
	}
}

static enum provenance torn(enum pystack_end end)
{
	if (end == PYSTACK_FAULT)
		STATS_ADD(torn_fault, 1);
	else if (end == PYSTACK_BROKEN)
		STATS_ADD(torn_broken, 1);
	else
		STATS_ADD(torn_badcode, 1);
	return PROV_TORN;
}

/* The gap between an event in user code and the switch away from it is the
 * machine's own (interrupt, inter-processor interrupt, scheduler): learn it. */
static void learn_gap(struct reader *r, const struct hold *h)
{
	uint64_t gap = h->t_out - h->t0;

	if (h->in_kernel || !h->t_out || gap > GAP_START_NS)
		return;
	r->gap_ns = r->gap_ns ? (r->gap_ns * 15 + gap) / 16 : gap;
}

static uint64_t gap_max(const struct reader *r)
{
	return r->gap_ns ? MAX(GAP_MIN_NS, MIN(GAP_START_NS, r->gap_ns * 4)) : GAP_START_NS;
}

static enum provenance provenance_of(struct reader *r, struct pending *p,
				     const struct pystack_result *res, bool unchanged)
{
	enum judgement j;

	if (res->end == PYSTACK_NOPYTHON)
		return PROV_NOPYTHON;
	if (res->end != PYSTACK_OK)
		return torn(res->end);
	p->hold.gap_max_ns = gap_max(r);
	j = r->c->capture->judge(&p->hold);
	learn_gap(r, &p->hold);
	if (j == JUDGE_EXACT)
		return PROV_EXACT;
	if (!unchanged) {
		STATS_ADD(torn_moved, 1);
		return PROV_TORN;
	}
	count_judgement(j);
	return PROV_LATE;
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

static void emit(struct reader *r, const struct pending *p, enum provenance prov,
		 const struct pystack_result *res)
{
	const struct perf_event_header *h = perf_ring_at(&r->slot->ring, p->pos, r->bounce);
	uint32_t n = prov == PROV_EXACT || prov == PROV_LATE ? res->n : 0;
	uint64_t mark = (uint64_t)r->slot->generation << CODE_GENERATION_SHIFT |
			(uint64_t)r->slot->index << CODE_SLOT_SHIFT;
	struct pystack_frame *f;
	struct perf_sample s;
	struct q_sample *q;
	size_t fixed;

	if (perf_decode_sample(h, r->c->callchain, &s) < 0)
		return;
	fixed = sizeof(*q) + 8 * (size_t)s.n_kchain;
	q = queue_reserve(&r->slot->queue, Q_SAMPLE, fixed + n * sizeof(*f));
	if (!q) {
		count_lost(1);
		return;
	}
	*q = (struct q_sample){
		.sample = { .time = s.time, .period = s.period, .ip = s.ip,
			    .addr = s.addr, .pid = s.pid, .tid = s.tid, .cpu = s.cpu,
			    .event = p->event, .misc = s.misc, .prov = prov,
			    .truncated = n && res->truncated,
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
	if (q->sample.truncated)
		STATS_ADD(truncated, 1);
	queue_commit(&r->slot->queue);
}

static void emit_tape(struct reader *r, const struct pending *p, enum provenance prov,
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

/* Why no walk can be tried; PYSTACK_OK: it can. Counts what it finds. */
static enum pystack_end readable(struct reader *r, struct target *t, pid_t pid)
{
	int state = t ? atomic_load_explicit(&t->state, memory_order_acquire) :
			TARGET_PENDING;

	switch (state) {
	case TARGET_PYTHON:
		return PYSTACK_OK;
	case TARGET_NOPYTHON:
		return PYSTACK_NOPYTHON;
	case TARGET_QUARANTINED:
		STATS_ADD(torn_quarantined, 1);
		return PYSTACK_END_N;
	default:
		if (!t)
			tell_control(r, CTL_UNKNOWN, pid, 0);
		STATS_ADD(torn_notready, 1);
		return PYSTACK_END_N;
	}
}

static struct pystack_result read_stack(struct reader *r, pid_t pid, pid_t tid,
					struct target *t, pid_t *inner)
{
	struct pystack_result res = { .end = readable(r, t, pid) };

	if (res.end != PYSTACK_OK)
		return res;
	*inner = target_inner_tid(t, tid);
	if (!*inner) {
		tell_control(r, CTL_UNKNOWN, pid, 0);
		STATS_ADD(torn_notready, 1);
		res.end = PYSTACK_END_N;
		return res;
	}
	rmem_live_init(&r->below, pid);
	atomic_store_explicit(&r->reading, pid, memory_order_relaxed);
	r->code_lost = false;
	res = pystack_read(r->ps, &t->py, &r->live, tid, *inner,
			   r->c->tape ? saw_read : NULL, r);
	if (r->code_lost)
		pystack_forget(r->ps, pid);
	return res;
}

/* All pending samples of one thread: one read serves them, for nothing that
 * Python does lies between several events of one instant. */
static void process_thread(struct reader *r, uint32_t first)
{
	pid_t pid = r->pend[first].pid, tid = r->pend[first].tid, inner = tid;
	struct target *t = targets_find(r->c->targets, pid);
	struct pystack_result res = { .end = PYSTACK_END_N };
	uint64_t t_out = 0, t_end;
	bool ran, unchanged = true;

	if (!t && !r->c->follow) {
		STATS_ADD(foreign, 1);
		return;
	}
	res = read_stack(r, pid, tid, t, &inner);
	for (uint32_t i = first; i < r->n_pend; i++)
		if (r->pend[i].tid == tid)
			t_out = r->pend[i].hold.t_out;
	ran = ran_since(r, tid, t_out ? t_out : r->pend[first].time);
	if (ran || !t_out)
		unchanged = res.end != PYSTACK_OK || pystack_unchanged(&res, &t->py, &r->live);
	t_end = now_ns();
	r->held_ns += t_end - (t_out ? t_out : t_end);
	for (uint32_t i = first; i < r->n_pend; i++) {
		struct pending *p = &r->pend[i];
		enum provenance prov = PROV_TORN;

		if (p->tid != tid)
			continue;
		p->tid = 0;
		p->hold.ran = ran;
		p->hold.t_end = t_end;
		if (res.end != PYSTACK_END_N)
			prov = provenance_of(r, p, &res, unchanged);
		if (r->code_lost && res.n) {
			count_lost(1);
			continue;
		}
		emit(r, p, prov, &res);
		if (r->c->tape)
			emit_tape(r, p, prov, &res, tid, inner);
	}
}

static void flush(struct reader *r)
{
	for (uint32_t i = 0; i < r->n_pend; i++)
		if (r->pend[i].tid)
			process_thread(r, i);
	r->n_pend = 0;
}

/* --- the hold budget --- */

/* Nanoseconds left of a second whose budget is used up, else 0. */
static uint64_t over_budget(struct reader *r)
{
	uint64_t now = now_ns();

	if (now - r->window_ns >= SECOND) {
		r->window_ns = now;
		r->held_ns = 0;
	}
	if (r->held_ns * 100 < r->c->hold_budget * SECOND)
		return 0;
	return SECOND - (now - r->window_ns);
}

/* Let the targets run; what is sampled meanwhile is counted, not read. */
static void shed(struct reader *r, uint64_t left)
{
	struct timespec t = { .tv_nsec = (long)MIN(left, SECOND / 100) };

	atomic_store_explicit(&r->c->over_budget, true, memory_order_relaxed);
	nanosleep(&t, NULL);
	STATS_ADD(shed, r->n_pend);
	r->n_pend = 0;
}

/* --- the thread --- */

static bool drain(struct reader *r, uint64_t shed_left)
{
	uint64_t head = perf_ring_head(&r->slot->ring);
	bool any = r->pos != head;

	while (r->pos < head) {
		r->pos = scan_record(r, r->pos);
		if (shed_left && r->n_pend) {
			STATS_ADD(shed, r->n_pend);
			r->n_pend = 0;
		}
	}
	flush(r);
	perf_ring_consume(&r->slot->ring, r->pos);
	return any;
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	bool busy = true;

	if (r->c->capture->thread_begin(r->slot->cpu) < 0)
		STATS_ADD(late_capture, 0);
	while (!atomic_load_explicit(&r->stop, memory_order_acquire)) {
		/* Switch records do not wake us: look now and then, so that they do
		 * not fill the ring. */
		struct pollfd ring = { .fd = r->slot->ring.fd, .events = POLLIN };
		uint64_t left;

		poll(&ring, 1, busy ? 200 : 1000);
		left = over_budget(r);
		if (left)
			shed(r, left);
		busy = drain(r, left);
	}
	drain(r, 0);
	return NULL;
}

static void reader_destroy(struct reader *r)
{
	if (!r)
		return;
	pystack_destroy(r->ps);
	free(r->cursor);
	free(r);
}

static void on_wake(int sig)
{
	(void)sig;
}

int reader_start(struct reader_config *c, struct cpu_slot *slot)
{
	struct sigaction wake = { .sa_handler = on_wake };
	struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	sigaction(READER_WAKE, &wake, NULL);
	r->c = c;
	r->slot = slot;
	r->live.ops = &guarded_ops;
	r->pos = perf_ring_tail(&slot->ring);
	r->cursor = calloc(c->n_slots, sizeof(*r->cursor));
	r->ps = pystack_create(c->max_frames, new_code, r);
	slot->generation++;
	if (!r->cursor || !r->ps ||
	    pthread_create(&r->thread, NULL, reader_main, r)) {
		reader_destroy(r);
		return -ENOMEM;
	}
	slot->reader = r;
	return 0;
}

void reader_stop(struct cpu_slot *slot)
{
	struct reader *r = slot->reader;

	if (!r)
		return;
	atomic_store_explicit(&r->stop, true, memory_order_release);
	/* Ends its poll(); one that comes just before the poll costs its timeout. */
	pthread_kill(r->thread, READER_WAKE);
	pthread_join(r->thread, NULL);
	reader_destroy(r);
	slot->reader = NULL;
}

pid_t reader_stuck(struct reader_config *c, struct cpu_slot *slot)
{
	struct reader *r = slot->reader;
	uint64_t g = atomic_load_explicit(&r->guard, memory_order_acquire);
	pid_t pid;

	if (!(g & 1) || g != slot->watch) {
		slot->watch = g;
		return 0;
	}
	pid = atomic_load_explicit(&r->reading, memory_order_relaxed);
	if (!atomic_compare_exchange_strong(&r->guard, &g, ABANDONED))
		return 0;
	/* Its memory stays: the kernel may still write into it. */
	pthread_detach(r->thread);
	slot->reader = NULL;
	slot->watch = 0;
	return pid;
}
