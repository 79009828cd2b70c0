/* SPDX-License-Identifier: MIT
 *
 * scan - what a reader does with each record of its ring.
 */
#include <errno.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/stats.h"
#include "capture/hold.h"
#include "capture/reader_int.h"
#include "capture/wait_post.h"
#include "targets/births.h"
#include "watch/proof.h"

/* Clock and PMU overflows hit the code they name; other software events and tracepoints happen
 * in the kernel while it works for that code, also those that say user mode (sys_enter_*). */
static bool event_in_kernel(const struct perf_event_attr *a)
{
	return a->type == PERF_TYPE_TRACEPOINT ||
	       (a->type == PERF_TYPE_SOFTWARE && !perf_event_is_clock(a));
}

static bool is_switch(const struct perf_event_attr *a)
{
	return a->type == PERF_TYPE_SOFTWARE && a->config == PERF_COUNT_SW_CONTEXT_SWITCHES;
}

/* The witness's record bears its id, and so does one of the user's own context-switches
 * events: for events of one kind the kernel fills in what they share once
 * (perf_prepare_sample). That one is longer. */
static uint32_t twin_of_witness(const struct session *session)
{
	uint32_t event = 0;

	while (event < session->n_events && !is_switch(&session->events[event].attr))
		event++;
	return event;
}

static bool is_wanted(const struct reader_config *c, pid_t pid, pid_t tid)
{
	return watch_wants(c, tid) && (c->split || ours_has(c->ours, pid));
}

static void pass_on(struct reader *r, const struct proof_switch *sw)
{
	if (r->c->waits && is_wanted(r->c, sw->pid, sw->tid))
		wait_post_switch(r->c->waits, r->slot, sw->pid, sw->tid, sw->time, sw->out,
				 sw->preempt);
}

static void scan_switch(struct reader *r, const struct proof_switch *sw)
{
	pass_on(r, sw);
	if (sw->out)
		proof_note_out(r->c, r->slot, sw->tid, sw->time);
	else
		proof_note_in(r->c, r->slot, sw->tid, sw->time);
	for (uint32_t i = 0; i < r->n_pend; i++) {
		struct hold *h = &r->pend[i].hold;

		if (r->pend[i].s.tid != sw->tid)
			continue;
		if (!sw->out) {
			h->backlog = true;
			if (h->t_out && !h->preempted && !r->pend[i].t_in)
				r->pend[i].t_in = sw->time;
		} else if (!h->t_out || r->c->capture->comes_back(h)) {
			h->t_out = sw->time;
			r->way_out = MAX(r->way_out, sw->time - h->t0);
			h->preempted = sw->preempt;
		}
	}
}

/* The thread leaves the CPU: with the registers that its samples saw? Not 0 if @h is another
 * event's. */
static int scan_witness(struct reader *r, const struct perf_event_header *h)
{
	struct perf_sample s;

	if (perf_decode_witness(h, r->c->counter, &s) < 0)
		return -EBADMSG;
	if (r->c->waits && s.regs && is_wanted(r->c, s.pid, s.tid))
		wait_post_regs(r->c->waits, r->slot, s.tid, s.time, s.regs);
	for (uint32_t i = 0; i < r->n_pend; i++) {
		struct pending *p = &r->pend[i];

		if (p->s.tid != s.tid || p->hold.witness != WITNESS_NONE || !p->s.regs ||
		    !s.regs)
			continue;
		p->hold.witness = hold_witness(p, s.regs);
		if (r->c->counter)
			hold_counted(r->c->stats, p, &s);
	}
	if (r->c->table)
		scan_switch(r, &(struct proof_switch){
				       .tid = s.tid, .time = s.time, .out = true });
	return 0;
}

/* While events were still being opened. */
static bool before_start(const struct reader *r, uint64_t time)
{
	return time < atomic_load_explicit(&r->c->start_ns, memory_order_relaxed);
}

static bool outside(const struct reader *r, uint64_t time)
{
	return before_start(r, time) ||
	       time >= atomic_load_explicit(&r->c->end_ns, memory_order_relaxed);
}

/* A read may hang here: nothing is taken yet of the record that wants the room. */
static void make_room(struct reader *r)
{
	for (uint32_t i = 0; i < r->n_pend; i++)
		r->pend[i].hold.backlog = true;
	r->c->capture->flush(r);
}

/* Which event's sample @h is. Where another profiler has a software event of that kind on the
 * same CPU or thread, the kernel gives our record the id of theirs (it fills in once what the
 * events of one occurrence share): a witness is told by its length then. *@early: one that a
 * thread takes although CPUs will. n_events or more: none that is wanted, and if it is a
 * witness, it has served. */
static uint32_t event_of_sample(struct reader *r, const struct perf_event_header *h,
				bool *early)
{
	const struct session *session = r->c->session;
	uint32_t event = h->size >= 16 ? watch_event_of(r->c, r->slot, load_u64(h + 1)) :
					 EVENT_IDS_UNKNOWN;

	if ((event == session->n_events || event == EVENT_IDS_UNKNOWN) && r->c->witness &&
	    scan_witness(r, h) == 0)
		return (uint32_t)session->n_events;
	if (event == session->n_events)
		return twin_of_witness(session);
	if (event == EVENT_IDS_UNKNOWN && r->c->table && session->n_events == 1)
		return 0;
	*early = event > session->n_events && event != EVENT_IDS_UNKNOWN;
	if (*early)
		event -= session_early_number(session, 0);
	if (event > session->n_events)
		STATS_ADD(r->c->stats, unknown, 1);
	return event;
}

/* A sample that waits for its thread to be read. */
static void add_pending(struct reader *r, const struct perf_sample *s, uint32_t event,
			uint64_t pos)
{
	const struct session *session = r->c->session;
	struct pending *p;

	/* The thread ran since, and no record told of its coming back. */
	for (uint32_t i = 0; i < r->n_pend; i++)
		if (r->pend[i].s.tid == s->tid && r->pend[i].hold.t_out && r->c->table)
			r->pend[i].hold.backlog = true;
	p = &r->pend[r->n_pend++];
	*p = (struct pending){ .pos = pos, .s = *s, .event = event };
	p->hold.t0 = s->time;
	p->hold.in_kernel =
		(s->misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER ||
		event_in_kernel(&session->events[event].attr);
	if (is_switch(&session->events[event].attr))
		p->hold.witness = WITNESS_SAME; /* its own */
	p->hold.ending = p->hold.in_kernel && births_ending(r->c->births, s->tid, s->time);
	p->probe = session->how[event].probe;
	p->jumps = session->how[event].jumps;
}

/* Does a sample belong to what the event counted? On CPUs all of it does, whoever ran there,
 * but of a clock's only what the targets ran is known (record/recorder_balance). */
static bool in_books(const struct reader *r, uint32_t event, bool wanted)
{
	const struct reader_config *c = r->c;

	return wanted || (c->ours && !c->split &&
			  !perf_event_is_clock(&c->session->events[event].attr));
}

static void scan_sample(struct reader *r, const struct perf_event_header *h, uint64_t pos)
{
	bool early = false, wanted, twin;
	uint32_t event = event_of_sample(r, h, &early);
	struct perf_sample s;

	if (event >= r->c->session->n_events ||
	    perf_decode_sample(h, r->c->sample_type, &s) < 0)
		return;
	wanted = cpu_events_want(r, s.pid, s.tid, s.time);
	twin = cpu_events_twin(r, event, early, s.time);
	/* Events count until they are switched off, after the end. */
	if (!before_start(r, s.time) && !twin && in_books(r, event, wanted))
		cpu_events_seen(r, event, s.period);
	if (!wanted) {
		cpu_events_drop(r, s.pid, s.time);
	} else if (twin || outside(r, s.time)) {
		STATS_ADD(r->c->stats, outside, 1);
	} else if (s.time <
		   atomic_load_explicit(&r->slot->handover.since, memory_order_relaxed)) {
		STATS_ADD(r->c->stats, shed, 1);
	} else {
		r->sampled |= (uint32_t)!early << event;
		if (!early)
			cpu_events_taken(r, s.pid, event);
		add_pending(r, &s, event, pos);
	}
}

/* True: @pid, forked at @time, joined by itself before that was read in its parent's ring. */
static bool has_joined(const struct reader_config *c, pid_t pid, uint64_t time)
{
	const struct target *t = c->strangers ? targets_find(c->targets, pid) : NULL;

	return t && t->since_ns > time;
}

/* True: @s is about a process of ours. A child is what its parent is, whoever had its number. */
static bool concerns(struct reader *r, const struct side *s)
{
	const struct reader_config *c = r->c;
	bool born = s->kind == SIDE_FORK && s->pid != s->u.fork.ppid;

	/* The kernel's own maps have no process. */
	if (!c->ours || s->pid < 0 || s->kind == SIDE_LOST || s->kind == SIDE_THROTTLE)
		return true;
	cpu_events_learn(r, born ? s->u.fork.ppid : s->pid, s->time);
	if (born && has_joined(c, s->pid, s->time))
		return c->split || proof_inherits(c, s->pid, s->u.fork.ppid, s->time);
	if (born)
		ours_set(c->ours, s->pid, proof_inherits(c, s->pid, s->u.fork.ppid, s->time));
	if (c->split || ours_has(c->ours, s->pid))
		return true;
	/* Worth another look, when it is sampled. */
	if (born || s->kind == SIDE_MMAP || (s->kind == SIDE_COMM && s->u.comm.exec))
		ours_set(c->strangers, s->pid, false);
	/* It mapped what may hold an interpreter: who sleeps before it is sampled waits all the
	 * same. */
	if (c->waits && s->kind == SIDE_MMAP && births_python(c->births, s->pid) == s->time)
		cpu_events_stranger(r, s->pid, s->time);
	return false;
}

/* What was lost before the reader emptied the ring for the first time is told by the first
 * record after that, whenever it comes. A reader that came to it late lost what the recording
 * should have. */
static bool lost_outside(const struct reader *r, const struct side *s, uint64_t pos)
{
	return s->kind == SIDE_LOST && (outside(r, s->time) || pos == r->first_pos);
}

static void tell_of_thread(struct reader *r, const struct side *s)
{
	if (s->kind == SIDE_FORK && s->pid == s->u.fork.ppid)
		emit_control(r, CTL_THREAD, (struct ctl_msg){ .pid = s->pid, .ptid = s->tid });
	else if (s->kind == SIDE_EXIT)
		emit_control(r, CTL_ENDED, (struct ctl_msg){ .pid = s->pid, .ptid = s->tid });
}

/* A process that gives its threads new names all the time would fill our queue: false, it has done
 * so too often within a second. Where the kernel's table tells names, it is asked for this one when
 * the thread is sampled (emit_name()). */
static bool may_rename(struct reader *r, const struct side *s)
{
	enum { A_SECOND = 5000 };
	uint64_t *free_ns = &r->renamed_ns[hash_u64((uint32_t)s->pid) % READER_RENAMED];

	if (s->time < *free_ns) {
		ours_set(r->c->named, s->tid, false);
		STATS_ADD(r->c->stats, renamed, 1);
		return false;
	}
	*free_ns = clock_spend(*free_ns, s->time, 1000000000 / A_SECOND);
	return true;
}

static void wake_namer(struct reader_config *c)
{
	if (c->namer_kick > 0 && !atomic_exchange(&c->named_due, true))
		eventfd_write(c->namer_kick, 1);
}

static void scan_other(struct reader *r, const struct perf_event_header *h, uint64_t pos)
{
	struct side s;
	bool known = perf_decode_side(h, &s) == 0;

	births_note(r->c->births, &r->slot->ring, pos, h,
		    (const unsigned char *)h + h->size - PERF_TRAILER);

	if (known && lost_outside(r, &s, pos))
		return;
	/* Also of a process that has ended by now, and is no target any more. */
	if (known && s.kind == SIDE_EXIT && r->c->waits)
		wait_post_ended(r->c->waits, r->slot,
				is_wanted(r->c, s.pid, s.tid) ? s.pid : 0, s.tid, s.time);
	if (known && !concerns(r, &s))
		return;
	if (known && s.kind == SIDE_COMM && !s.u.comm.exec && !may_rename(r, &s))
		return;
	/* What the kernel lost is in the books also where the queue has no room for the
	 * record. */
	if (!emit_side(r, h) && known && s.kind == SIDE_LOST)
		STATS_ADD(r->c->stats, lost, s.u.lost.n);
	if (!known)
		return;
	/* Its number may be, or become, another thread's. */
	if (s.kind == SIDE_FORK || s.kind == SIDE_EXIT)
		ours_set(r->c->named, s.tid, false);
	if (s.kind == SIDE_FORK)
		wake_namer(r->c);
	if (s.kind == SIDE_FORK && r->c->early)
		cpu_events_birth(r);
	if (r->c->tell_threads)
		tell_of_thread(r, &s);
	if (s.kind == SIDE_FORK && s.pid != s.u.fork.ppid)
		emit_control(r, CTL_FORK,
			     (struct ctl_msg){ s.pid, s.u.fork.ppid, s.u.fork.ptid, s.time });
	else if (s.kind == SIDE_COMM && s.u.comm.exec)
		emit_control(r, CTL_EXEC, (struct ctl_msg){ .pid = s.pid, .time = s.time });
	else if (s.kind == SIDE_EXIT && s.pid == s.tid)
		emit_control(r, CTL_EXIT, (struct ctl_msg){ .pid = s.pid });
}

const struct perf_event_header *scan_look(struct reader *r, uint64_t pos)
{
	r->bounced = r->n_pend ? r->bounced : 0;
	return perf_ring_at(&r->slot->ring, pos, r->bounce + r->bounced);
}

static bool is_bounced(const struct reader *r, const struct perf_event_header *h)
{
	return (const unsigned char *)h == r->bounce + r->bounced;
}

/* True: there is no room for the sample @h beside those that wait. */
static bool is_full(const struct reader *r, const struct perf_event_header *h)
{
	return r->n_pend == PEND_MAX ||
	       (is_bounced(r, h) && r->bounced + h->size > PERF_RECORD_BYTES);
}

/* A sample that waits points into the record @h at @pos: it stays where it is. */
static void keep_record(struct reader *r, const struct perf_event_header *h, uint64_t pos)
{
	if (r->n_pend && r->pend[r->n_pend - 1].pos == pos && is_bounced(r, h))
		r->bounced += (h->size + 7u) & ~7u;
}

uint64_t scan_record(struct reader *r, uint64_t pos)
{
	const struct perf_event_header *h = scan_look(r, pos);
	struct proof_switch sw;

	if (h && h->type == PERF_RECORD_SAMPLE && is_full(r, h)) {
		make_room(r);
		h = scan_look(r, pos);
	}
	if (!h)
		return perf_ring_head(&r->slot->ring);
	if (h->type == PERF_RECORD_SAMPLE)
		scan_sample(r, h, pos);
	else if (proof_is_switch(h, (const unsigned char *)h + h->size - PERF_TRAILER, &sw))
		scan_switch(r, &sw);
	else if (h->type != PERF_RECORD_SWITCH && h->type != PERF_RECORD_SWITCH_CPU_WIDE)
		scan_other(r, h, pos);
	keep_record(r, h, pos);
	return pos + h->size;
}

void scan_take_over(struct reader *r, const struct reader *was)
{
	for (uint32_t i = 0; i < was->n_pend; i++) {
		uint64_t pos = was->pend[i].pos;
		const struct perf_event_header *h = scan_look(r, pos);
		struct pending *p = &r->pend[r->n_pend];

		*p = was->pend[i];
		p->early = false; /* it waits for its stop again */
		if (!h || perf_decode_sample(h, r->c->sample_type, &p->s) < 0)
			continue; /* never: it was decoded before */
		r->n_pend++;
		keep_record(r, h, pos);
	}
	r->pos = was->pos;
	r->sampled = was->sampled;
	r->pace = was->pace;
}
