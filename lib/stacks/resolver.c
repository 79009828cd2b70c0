/* SPDX-License-Identifier: MIT */
#include "base/base.h"
#include "base/work.h"
#include "stacks/resolver.h"
#include "sys/ask.h"
#include "sys/harden.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "stacks/assemble.h"
#include "base/array.h"
#include "base/clock.h"
#include "stacks/inbox.h"
#include "stacks/thread_names.h"
#include "stacks/waiting.h"
#include "sample/perf_decode.h"
#include "sample/sink.h"
#include "base/stats.h"
#include "sample/tape.h"
#include "targets/target.h"

enum { TICK_MS = 70, HELD_TICKS = 2, WAIT_TICKS = 72, LAST_NICE = -10 };
enum { WAITS_SHARE = 4 }; /* of session.memory: a part for stacks of waits that are not over */

/* A queued record that waits for its place in time. */
struct item {
	uint64_t time, seq;
	struct inbox_item in;
};

struct resolver {
	struct resolver_config c;
	struct inbox *inbox;
	struct assembler *assembler;
	struct item *items;
	size_t n_items, cap_items;
	uint64_t seq;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	_Atomic unsigned failed; /* sinks that have, a bit each; they are given nothing more */
	unsigned told_failed;	 /* those of them that resolver_next_failed() told of */
	int n_waits;		 /* cycles in a row in which what is held stayed */
	struct epoch_user holds; /* targets, by samples that wait */
	struct resolver_counts counts;
	struct counts *reads; /* of groups */
	struct waiting waiting;
	struct thread_names names;
	uint64_t given_ns; /* all that is older was given, or comes too late */
};

struct resolver *resolver_create(const struct resolver_config *c)
{
	struct resolver *r = calloc(1, sizeof(*r));
	unsigned needs = sinks_need(c->sinks, c->n_sinks);

	if (!r)
		return NULL;
	r->c = *c;
	r->assembler = assembler_create(&(struct assembler_config){
		.native = c->native,
		.full = c->full,
		.unwinder = c->unwinder,
		.names = needs & SINK_NEEDS_NAMES,
		.ids = needs & SINK_NEEDS_IDS,
		.stays = c->session->flags & SESSION_STAYS,
		.places = c->session->places,
		.file_helper = c->session->file_helper,
		.files = c->files,
		.kernel_names = c->kernel_names,
		.stats = c->session->stats,
		.memory = c->session->memory,
		.file_memory = c->session->file_memory,
		.files_held = c->session->files_held,
	});
	if (c->targets) {
		epoch_join(&c->targets->epoch, &r->holds);
		epoch_enter(&c->targets->epoch, &r->holds);
	}
	r->inbox = inbox_create(c->queues, c->n_queues, c->session->stats);
	if (r->inbox && c->session->memory)
		inbox_limit(r->inbox, c->session->memory);
	r->waiting.most_frames = c->session->memory / WAITS_SHARE / sizeof(struct frame);
	r->reads = counts_create();
	if (r->assembler && r->inbox && r->reads)
		return r;
	resolver_destroy(r);
	return NULL;
}

void resolver_destroy(struct resolver *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_items; i++)
		inbox_free(r->inbox, &r->items[i].in);
	free(r->items);
	inbox_destroy(r->inbox);
	counts_destroy(r->reads);
	waiting_deinit(&r->waiting);
	thread_names_deinit(&r->names);
	assembler_destroy(r->assembler);
	free(r);
}

void resolver_add_queue(struct resolver *r, struct queue *q)
{
	inbox_add(r->inbox, q);
}

bool resolver_failed(const struct resolver *r)
{
	unsigned failed = atomic_load(&r->failed);

	for (size_t i = 0; failed && i < r->c.n_sinks; i++)
		if (r->c.sinks[i]->path && !(failed >> i & 1))
			return false;
	return failed;
}

const struct sink *resolver_next_failed(struct resolver *r)
{
	unsigned fresh = atomic_load(&r->failed) & ~r->told_failed;

	for (size_t i = 0; fresh >> i; i++)
		if (fresh >> i & 1) {
			r->told_failed |= 1u << i;
			return r->c.sinks[i];
		}
	return NULL;
}

/* The @i'th sink, or NULL: it has failed. */
static struct sink *sink_at(const struct resolver *r, size_t i)
{
	return atomic_load(&r->failed) >> i & 1 ? NULL : r->c.sinks[i];
}

static void note_failure(struct resolver *r, size_t i, int ret)
{
	struct sink *s = r->c.sinks[i];

	if (ret < 0 && !s->failed)
		s->failed = ret;
	if (s->failed)
		atomic_fetch_or(&r->failed, 1u << i);
}

/* --- one sample --- */

/* The innermost address is the event's, where it was in user code. */
static uint64_t leaf_of(const struct q_sample *q)
{
	bool user = (q->sample.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;

	return user ? q->sample.ip : q->user_ip;
}

static struct assemble_input input_of(const struct q_sample *q, struct unwind_regs *regs)
{
	struct assemble_input in = {
		.prov = q->sample.prov,
		.truncated = q->sample.truncated,
		.leaf = leaf_of(q),
		.kernel = q_kernel(q),
		.n_kernel = q->n_kernel,
		.python = q_python(q),
		.native = { .pid = q->sample.pid,
			    .time = q->sample.time,
			    .mem.piece[0] = { .at = q->stack_at,
					      .bytes = { q_stack(q), q->n_stack } },
			    .mem.piece[1] = { .at = q->far_at,
					      .bytes = { q_far(q), q->n_far } },
			    .anchor = q_anchors(q),
			    .n_anchors = q->n_anchors,
			    .n_python = q->n_python },
	};

	if (q->n_regs) {
		unwind_regs_perf(regs, q_regs(q));
		in.native.regs = regs;
	}
	return in;
}

static void give_one(struct resolver *r, const struct sample *s, const struct stack *stack)
{
	r->counts.by_prov[s->prov]++;
	for (size_t i = 0; i < r->c.n_sinks; i++) {
		struct sink *to = sink_at(r, i);

		r->c.sinks[i]->given++;
		if (to)
			note_failure(r, i, to->ops->sample(to, s, stack));
	}
}

/* The leader's sample is one of each member that has counted anything since. */
static void give_group(struct resolver *r, const struct q_sample *q, const struct stack *stack)
{
	for (uint32_t i = 0; i < q->n_reads; i++) {
		const struct counts_read *read = &q_reads(q)[i];
		struct sample s = q->sample;

		s.event = (uint32_t)read->event;
		s.period = counts_since(r->reads, s.tid, read);
		if (s.period && read->event < r->c.session->n_events)
			give_one(r, &s, stack);
	}
}

/* By now it is known whether the program had an interpreter then. Who ended before anybody could
 * look at it is known by what it had mapped. False: neither tells. */
static bool decide(struct resolver *r, struct q_sample *q)
{
	const struct sample *s = &q->sample;
	const struct target *t = q->program;

	if (!t && r->c.targets)
		t = targets_find(r->c.targets, s->pid);
	if (!(t && target_had_none(t, s->time)) &&
	    !assembler_without_python(r->assembler, s->pid))
		return false;
	q->sample.prov = PROV_NOPYTHON;
	return true;
}

/* A wait that is over. */
static void give_waited(struct resolver *r, struct waiting_one *one)
{
	STATS_ADD(r->c.session->stats, torn_notready, one->undecided);
	give_one(r, &one->sample, &(struct stack){ .n = one->n, .frames = one->frames });
	free(one->frames);
}

/* Somewhere a queue had no room for the ends of @n waits, whose samples are never given. */
static void lose_waits(struct resolver *r, uint64_t n)
{
	STATS_ADD(r->c.session->stats, lost, n);
	STATS_ADD(r->c.session->stats, queue_full, n);
}

/* One that is not is given when it is; one that nobody read stands alone. */
static void give_wait(struct resolver *r, const struct q_sample *q, const struct stack *stack,
		      bool undecided)
{
	bool misses = waiting_misses(&r->waiting, q->sample.tid, q->sample.time);
	int kept = waiting_keep(&r->waiting, &q->sample, stack, q->wait, undecided);
	struct waiting_one one;

	STATS_ADD(r->c.session->stats, unnamed, kept > 0);
	lose_waits(r, misses && kept >= 0);
	if (kept < 0)
		STATS_ADD(r->c.session->stats, unread, 1);
	else if (q->unread && waiting_take(&r->waiting, q->sample.tid, q->sample.time, &one))
		give_waited(r, &one);
}

static void end_wait(struct resolver *r, const struct q_wait *q)
{
	struct waiting_one one;

	/* Its sample was lost, and counted then. */
	if (!waiting_take(&r->waiting, q->tid, q->out, &one))
		return;
	if (!q->weight) {
		free(one.frames);
		return;
	}
	/* Outputs want samples in the order of time. */
	one.sample.time = q->time;
	one.sample.period = q->weight;
	give_waited(r, &one);
}

static void give_sample(struct resolver *r, struct q_sample *q)
{
	struct unwind_regs regs;
	struct assemble_input in;
	struct stack stack = { 0 };
	bool undecided = q->undecided && !decide(r, q);

	in = input_of(q, &regs);
	in.undecided = undecided;
	if (!assemble(r->assembler, &in, &stack)) {
		STATS_ADD(r->c.session->stats, torn_badcode, 1);
		in.prov = PROV_TORN;
		in.truncated = false;
		in.native.n_python = in.native.n_anchors = 0;
		assemble(r->assembler, &in, &stack);
	}
	undecided = undecided && in.prov == PROV_TORN;
	if (undecided && !q->wait)
		STATS_ADD(r->c.session->stats, torn_notready, 1);
	q->sample.prov = in.prov;
	if (q->wait)
		give_wait(r, q, &stack, undecided);
	else if (q->n_reads)
		give_group(r, q, &stack);
	else
		give_one(r, &q->sample, &stack);
}

/* --- what is not a sample --- */

static void give_raw(struct resolver *r, uint32_t type, struct bytes head, struct bytes body)
{
	for (size_t i = 0; i < r->c.n_sinks; i++) {
		struct sink *to = sink_at(r, i);

		if (to && to->ops->raw)
			note_failure(r, i, to->ops->raw(to, type, head, body));
	}
}

/* A record of our own making, of no event, is in no ring. */
static void tape_side(struct resolver *r, const struct perf_event_header *h)
{
	struct tape_head head = { .n = 0 };
	struct perf_trailer t;

	perf_decode_trailer((const unsigned char *)h + h->size - PERF_TRAILER, &t);
	if (t.id)
		return;
	tape_put_body(&head, TAPE_BYTES, h->size);
	give_raw(r, TAPE_SIDE, tape_head_bytes(&head),
		 (struct bytes){ (const void *)h, h->size });
}

static void give_sinks(struct resolver *r, const struct side *s)
{
	for (size_t i = 0; i < r->c.n_sinks; i++) {
		struct sink *to = sink_at(r, i);

		if (to && to->ops->side)
			note_failure(r, i, to->ops->side(to, s));
	}
}

static void give_side(struct resolver *r, const struct perf_event_header *h)
{
	struct side s, then;
	bool more;

	if (perf_decode_side(h, &s) < 0)
		return;
	tape_side(r, h);
	if (s.kind == SIDE_LOST)
		STATS_ADD(r->c.session->stats, lost, s.u.lost.n);
	else if (s.kind == SIDE_THROTTLE)
		STATS_ADD(r->c.session->stats, throttled, 1);
	else if (s.kind == SIDE_EXIT)
		counts_forget(r->reads, s.tid);
	assembler_side(r->assembler, &s);
	if (thread_names_side(&r->names, &s, &then, &more)) {
		/* A name is dated back; what sinks were given in time order stays so. */
		s.time = MAX(s.time, r->given_ns);
		give_sinks(r, &s);
	}
	if (more)
		give_sinks(r, &then);
}

static void give_tape(struct resolver *r, const unsigned char *p, size_t n)
{
	uint32_t type = load_u32(p), head = load_u32(p + 4);

	if (n < 8 || head > n - 8)
		return;
	give_raw(r, type, (struct bytes){ .at = p + 8, .n = head },
		 (struct bytes){ .at = p + 8 + head, .n = n - 8 - head });
}

/* All samples that had them were given. */
static void forget_codes(struct resolver *r, const struct q_codes_gone *q)
{
	profile_forget(assembler_profile(r->assembler), q->from, q->below);
}

static void give(struct resolver *r, const struct inbox_item *in)
{
	if (in->type == Q_SAMPLE)
		give_sample(r, (struct q_sample *)(void *)in->data);
	else if (in->type == Q_WAIT)
		end_wait(r, (const void *)in->data);
	else if (in->type == Q_CODES_GONE)
		forget_codes(r, (const void *)in->data);
	else
		give_side(r, (const struct perf_event_header *)(void *)in->data);
}

/* --- order --- */

static uint64_t time_of(uint32_t type, const unsigned char *data)
{
	struct side s;

	if (type == Q_SAMPLE)
		return ((const struct q_sample *)(const void *)data)->sample.time;
	if (type == Q_WAIT)
		return ((const struct q_wait *)(const void *)data)->time;
	if (type == Q_CODES_GONE)
		return ((const struct q_codes_gone *)(const void *)data)->time;
	return perf_decode_side((const void *)data, &s) < 0 ? 0 : s.time;
}

static void keep_code(struct resolver *r, const struct inbox_item *it)
{
	const struct q_code_kept *q = (const void *)it->data;

	profile_same(assembler_profile(r->assembler), q->id, q->was);
}

/* True: it is kept until what is older than it has come. */
static bool must_be_kept(uint32_t type)
{
	return type != Q_CODE && type != Q_CODE_KEPT && type != Q_TAPE;
}

/* Takes it over. */
static void take_item(struct resolver *r, const struct inbox_item *it)
{
	switch (it->type) {
	case Q_CODE:
		if (profile_code(assembler_profile(r->assembler), load_u64(it->data),
				 (const void *)(it->data + 8), it->n - 8) == -ENOMEM)
			STATS_ADD(r->c.session->stats, unread, 1);
		inbox_free(r->inbox, it);
		break;
	case Q_CODE_KEPT:
		keep_code(r, it);
		inbox_free(r->inbox, it);
		break;
	case Q_TAPE:
		give_tape(r, it->data, it->n);
		inbox_free(r->inbox, it);
		break;
	default:
		r->items[r->n_items++] = (struct item){ .time = time_of(it->type, it->data),
							.seq = r->seq++,
							.in = *it };
	}
}

/* Everything that was queued. */
static void take(struct resolver *r)
{
	_cleanup_free_ struct inbox_item *in = NULL;
	uint64_t samples, others;
	size_t n;
	bool room;

	inbox_take(r->inbox, &in, &n);
	inbox_dropped(r->inbox, &samples, &others);
	room = array_reserve(&r->items, &r->cap_items, r->n_items + n, sizeof(*r->items));
	for (size_t i = 0; i < n; i++) {
		if (room || !must_be_kept(in[i].type)) {
			take_item(r, &in[i]);
		} else {
			inbox_count_drop(in[i].type, &samples, &others);
			inbox_free(r->inbox, &in[i]);
		}
	}
	STATS_ADD(r->c.session->stats, lost, samples);
	STATS_ADD(r->c.session->stats, queue_full, samples);
	STATS_ADD(r->c.session->stats, side_lost, others);
}

static int by_time(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return COMPARE(x->time, y->time) ?: COMPARE(x->seq, y->seq);
}

/* Hand on everything older than @horizon. */
static void release(struct resolver *r, uint64_t horizon)
{
	size_t n = 0;

	if (r->n_items)
		qsort(r->items, r->n_items, sizeof(*r->items), by_time);
	while (n < r->n_items && r->items[n].time < horizon) {
		give(r, &r->items[n].in);
		inbox_free(r->inbox, &r->items[n++].in);
	}
	r->given_ns = horizon;
	if (!n)
		return;
	r->n_items -= n;
	memmove(r->items, r->items + n, r->n_items * sizeof(*r->items));
	for (size_t i = 0; i < r->c.n_sinks; i++) {
		struct sink *to = sink_at(r, i);

		if (to && to->ops->round)
			note_failure(r, i, to->ops->round(to));
	}
}

/* The time at @ns is there at once where the work has taken longer. */
static void sleep_until(uint64_t ns)
{
	const struct timespec t = { .tv_sec = (time_t)(ns / 1000000000),
				    .tv_nsec = (long)(ns % 1000000000) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Must what is held and older than @until stay? Who is busy elsewhere is not waited for for
 * ever. */
static bool must_wait(const struct resolver *r, uint64_t until)
{
	return r->c.waits && r->n_waits < WAIT_TICKS && r->c.waits(r->c.tick_arg, until);
}

/* Targets of samples that are taken from now on are above that (epoch.h). */
static uint64_t held_by_readers(const struct resolver *r)
{
	return r->c.targets ? epoch_safe(&r->c.targets->epoch, &r->holds) : 0;
}

/* The samples that still wait were taken after that was @held. */
static void hold_from(struct resolver *r, uint64_t held)
{
	if (held)
		epoch_move(&r->holds, held);
}

static void *resolver_main(void *arg)
{
	struct resolver *r = arg;
	uint64_t before[HELD_TICKS] = { 0 }, held[HELD_TICKS] = { 0 }, now, holds;
	bool wait;

	work_shared = r->c.work;
	harden_thread(HARDEN_RESOLVER, 0);
	ask_begin(NULL);
	setpriority(PRIO_PROCESS, 0, r->c.nice);
	/* What a reader took from its ring before the last two ticks began has reached the
	 * queue by now: older records are complete and can go, if no ring holds any. */
	for (size_t i = 0; !atomic_load(&r->stop); i = (i + 1) % HELD_TICKS) {
		holds = held_by_readers(r);
		now = now_ns();
		wait = !r->n_items || must_wait(r, before[i]); /* nothing is old yet */
		take(r);
		/* A reader that comes late may have asked just now. */
		if (!wait && !must_wait(r, before[i])) {
			release(r, before[i]);
			hold_from(r, held[i]);
			r->n_waits = 0;
		} else if (r->n_items) {
			r->n_waits++;
		}
		assembler_tidy(r->assembler, now);
		before[i] = now;
		held[i] = holds;
		sleep_until(now + TICK_MS * 1000000ull);
		if (r->c.tick)
			r->c.tick(r->c.tick_arg);
	}
	/* Somebody waits for the end. */
	setpriority(PRIO_PROCESS, 0, LAST_NICE);
	take(r);
	release(r, UINT64_MAX);
	lose_waits(r, r->waiting.n);
	ask_end();
	return NULL;
}

int resolver_start(struct resolver *r)
{
	int e = inbox_start(r->inbox);

	if (e < 0)
		return e;
	e = pthread_create(&r->thread, NULL, resolver_main, r);
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
