/* SPDX-License-Identifier: MIT */
#include "capture/reader.h"
#include "sys/harden.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "sys/cpus.h"
#include "base/nudge.h"
#include "base/sparse.h"
#include "base/stats.h"
#include "targets/births.h"
#include "capture/hold.h"
#include "watch/proof.h"
#include "capture/taping.h"
#include "capture/wait_post.h"

enum { JOIN_NS = 50000000, STACK_BYTES = 512 << 10 };

/* --- scanning the ring --- */

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

/* Before the recording began: while events were still being opened. */
static bool outside(const struct reader *r, uint64_t time)
{
	return time < atomic_load_explicit(&r->c->start_ns, memory_order_relaxed) ||
	       time >= atomic_load_explicit(&r->c->end_ns, memory_order_relaxed);
}

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

	if (r->n_pend == PEND_MAX)
		make_room(r);
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
	bool early = false, wanted, in_time;
	uint32_t event = event_of_sample(r, h, &early);
	struct perf_sample s;

	if (event >= r->c->session->n_events ||
	    perf_decode_sample(h, r->c->sample_type, &s) < 0)
		return;
	wanted = cpu_events_want(r, s.pid, s.tid, s.time);
	in_time = !outside(r, s.time) && !cpu_events_twin(r, event, early, s.time);
	if (in_time && in_books(r, event, wanted))
		cpu_events_seen(r, event, s.period);
	if (!wanted) {
		cpu_events_drop(r, s.pid, s.time);
	} else if (!in_time) {
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

/* Did @pid, forked at @time, join by itself before we read of that in its parent's CPU's ring? */
static bool has_joined(const struct reader_config *c, pid_t pid, uint64_t time)
{
	const struct target *t = c->strangers ? targets_find(c->targets, pid) : NULL;

	return t && t->since_ns > time;
}

/* Is @s about a process of ours? A child is what its parent is, whoever had its number. */
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
 * record after that, whenever it comes. */
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
		wait_post_ended(r->c->waits, r->slot, s.tid, s.time);
	if (known && !concerns(r, &s))
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
	else if (h->type != PERF_RECORD_SWITCH && h->type != PERF_RECORD_SWITCH_CPU_WIDE)
		scan_other(r, h, pos);
	return pos + h->size;
}

/* --- the hold budget --- */

enum { SHED_MS = 10, IDLE_MS = -1, THREADS_MS = 3 };

/* Nanoseconds left of a second whose budget is used up, else 0. */
static uint64_t over_budget(struct reader *r)
{
	uint64_t now = r->woke_ns = now_ns();
	uint64_t quiet =
		atomic_load_explicit(&r->slot->handover.quiet_until, memory_order_acquire);

	if (quiet) /* until the tracer has ended it */
		return quiet > now ? quiet - now : 1;
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
	atomic_store_explicit(&r->c->over_budget, true, memory_order_relaxed);
	r->c->capture->shed(r, left);
	hold_shed(r);
}

/* --- the thread --- */

bool reader_drain(struct reader *r, uint64_t shed_left, bool last)
{
	const struct capture_ops *capture = r->c->capture;
	uint64_t head;
	bool any;

	epoch_enter(&r->c->targets->epoch, &r->slot->targets);
	/* First: the samples of a thread that is held lie before the head then. */
	capture->scan(r);
	head = perf_ring_head(&r->slot->ring);
	any = r->pos != head;
	if (r->tap)
		r->tap->drain(r, head, shed_left, last);
	tap_held(r);
	while (r->pos < head) {
		r->pos = scan_record(r, r->pos);
		if (shed_left && r->n_pend)
			hold_shed(r);
	}
	if (last)
		capture->flush(r);
	else
		capture->read(r);
	proof_consume(r->c, r->slot, r->n_pend ? r->pend[0].pos : r->pos);
	capture->resume(r);
	if (!r->early.tid) { /* else it is judged in a later drain */
		epoch_leave(&r->slot->targets);
		emit_codes_gone(r);
	}
	return any || r->n_pend;
}

static void begin(struct reader *r)
{
	r->unfit = r->c->capture->thread_begin(r->c->plan, r->slot->cpu) < 0;
}

/* Switch records do not wake us, nor do samples that stop nobody: look now and then, so that
 * they do not fill the ring. When a look has found nothing the control thread looks instead
 * (reader_wake()), and the kernel wakes us when the ring is half full of whatever. */
static void wait_for_records(struct reader *r, bool busy, bool shedding)
{
	int ms = r->c->tell_threads ? THREADS_MS : busy ? r->c->capture->wait_ms : IDLE_MS;
	struct epoll_event ev;

	if (shedding)
		ms = SHED_MS;
	atomic_store_explicit(&r->asleep, ms < 0, memory_order_relaxed);
	epoll_wait(r->wake, &ev, 1, ms);
}

static void read_until_stopped(struct reader *r)
{
	uint64_t left = 0, since;
	bool busy = true;

	atomic_store_explicit(&r->tid, gettid(), memory_order_relaxed);
	work_own = &r->slot->work;
	harden_thread(HARDEN_READER, 0);
	begin(r);
	pystack_warm(r->ps);
	/* A ring that is full already wakes nobody. */
	since = now_ns();
	reader_drain(r, 0, false);
	atomic_store_explicit(&r->slot->drained_ns, since, memory_order_release);
	r->first_pos = r->pos;
	if (atomic_fetch_add(&r->c->n_ready, 1) + 1 == r->c->n_slots)
		sem_post(&r->c->all_ready);
	while (!atomic_load_explicit(&r->stop, memory_order_acquire)) {
		bool away;

		wait_for_records(r, busy, left);
		work_add(WORK_wakeups, 1);
		away = r->c->capture->moved_away(r);
		r->unfit = r->unfit || away;
		left = over_budget(r);
		if (left)
			shed(r, left);
		busy = reader_drain(r, left, false);
		atomic_store_explicit(&r->slot->drained_ns, r->woke_ns, memory_order_release);
		if (away)
			begin(r);
	}
	r->unfit = r->unfit || r->c->capture->moved_away(r);
	reader_drain(r, 0, true);
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	jmp_buf end;

	r->mem.end = &end;
	if (setjmp(end) == 0) /* else abandoned: @r is gone, or will be */
		read_until_stopped(r);
	return NULL;
}

void reader_destroy(struct reader *r)
{
	if (!r)
		return;
	taping_destroy(r->taping);
	proof_stat_files_close(&r->stat_files);
	if (r->wake >= 0)
		close(r->wake);
	free(r->block);
}

/* Edge-triggered epoll asks a ring once for each wake-up, poll() twice. -1: none. */
static int wait_on(int ready, int posted)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd >= 0 && (epoll_ctl(fd, EPOLL_CTL_ADD, ready, &ev) < 0 ||
			(posted >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, posted, &ev) < 0))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* What wakes the reader of @slot besides its ring; -1: nothing. */
static int poked_by(const struct reader_config *c, const struct cpu_slot *slot)
{
	return c->waits && slot->index < c->cap_slots ? c->waits->poke[slot->index] :
							slot->handover.posted;
}

size_t reader_bytes(const struct reader_config *c)
{
	return sparse_room(sizeof(struct reader)) +
	       sparse_room(c->cap_slots * sizeof(uint64_t)) + pystack_bytes();
}

/* Not the 8 MiB of a shell's limit, of which a kernel may make 2 MiB resident at once. */
static int start_thread(struct reader *r)
{
	pthread_attr_t attr;
	int code;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	code = pthread_create(&r->thread, &attr, reader_main, r);
	pthread_attr_destroy(&attr);
	return code;
}

/* It writes down all that it meets. */
static bool begin_tape(struct reader *r)
{
	r->taping = taping_create();
	r->tap = &taping_ops;
	r->mem.saw = taping_saw;
	r->mem.saw_arg = r;
	return r->taping;
}

struct reader *reader_create(struct reader_config *c, struct cpu_slot *slot)
{
	/* One that was given up may still use the slot's. */
	void *own = slot->room ? NULL : sparse_alloc(reader_bytes(c));
	struct reader *r = slot->room ? slot->room : own;

	slot->room = NULL;
	if (!r)
		return NULL;
	r->block = own;
	r->cursor = (void *)((char *)r + sparse_room(sizeof(*r)));
	r->c = c;
	r->slot = slot;
	guarded_init(&r->mem, &slot->guard, c->kick);
	r->pos = perf_ring_tail(&slot->ring);
	r->random = now_ns() | 1;
	r->look_at = slot->index;
	r->ps = pystack_place((char *)r->cursor +
				      sparse_room(c->cap_slots * sizeof(*r->cursor)),
			      c->max_frames, emit_code, r);
	r->wake = wait_on(slot->ring.fd, poked_by(c, slot));
	slot->generation++;
	epoch_join(&c->targets->epoch, &slot->targets);
	if (r->wake >= 0 && (!c->tape || begin_tape(r)))
		return r;
	reader_destroy(r);
	return NULL;
}

int reader_start(struct reader_config *c, struct cpu_slot *slot)
{
	struct reader *r;

	if (slot->generation == EMIT_GENERATIONS) /* its code numbers are used up */
		return -EAGAIN;
	r = reader_create(c, slot);
	if (!r)
		return -ENOMEM;
	if (start_thread(r)) {
		reader_destroy(r);
		return -ENOMEM;
	}
	slot->reader = r;
	return 0;
}

/* On its CPU a target of the same priority may run forever. */
static void let_run(struct reader *r)
{
	struct sched_param normal = { 0 };
	cpu_set_t any;

	memset(&any, 0xff, sizeof(any));
	pthread_setaffinity_np(r->thread, sizeof(any), &any);
	/* Without the flag that it has, this would take a right (sched(7)). */
	pthread_setschedparam(r->thread, SCHED_OTHER | SCHED_RESET_ON_FORK, &normal);
}

static bool ends_soon(struct reader *r)
{
	struct timespec until;

	nudge(r->thread);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += JOIN_NS;
	until.tv_sec += until.tv_nsec / (long)SECOND;
	until.tv_nsec %= (long)SECOND;
	return pthread_timedjoin_np(r->thread, NULL, &until) == 0;
}

void reader_stop(struct cpu_slot *slot)
{
	struct reader *r = slot->reader;

	if (!r)
		return;
	atomic_store_explicit(&r->stop, true, memory_order_release);
	let_run(r);
	/* One inside a read that hangs is abandoned, now as ever. */
	while (!ends_soon(r))
		if (reader_stuck(slot))
			return;
	reader_destroy(r);
	slot->reader = NULL;
	atomic_store(&slot->drained_ns, UINT64_MAX);
}

void reader_nudge(struct cpu_slot *slot)
{
	nudge(slot->reader->thread);
}

void reader_wake(struct cpu_slot *slot)
{
	if (slot->reader &&
	    atomic_load_explicit(&slot->reader->asleep, memory_order_relaxed) &&
	    perf_ring_head(&slot->ring) != perf_ring_tail(&slot->ring))
		reader_nudge(slot);
}

pid_t reader_stuck(struct cpu_slot *slot)
{
	pid_t pid = guard_stuck(&slot->guard, atomic_load(&slot->reader->tid));

	if (!pid)
		return 0;
	/* When its read returns it ends, without another look at a target. */
	epoch_leave(&slot->targets);
	/* Its memory stays: the kernel may still write into it. */
	slot->reader->next = slot->stuck;
	slot->stuck = slot->reader;
	slot->reader = NULL;
	atomic_store(&slot->drained_ns, UINT64_MAX);
	return pid;
}

pid_t reader_returned(struct cpu_slot *slot)
{
	struct reader **p = &slot->stuck, *r;
	pid_t pid;

	while (*p && !atomic_load_explicit(&(*p)->mem.returned, memory_order_acquire))
		p = &(*p)->next;
	r = *p;
	if (!r)
		return 0;
	*p = r->next;
	pid = r->mem.below.pid;
	pthread_join(r->thread, NULL);
	reader_destroy(r);
	return pid;
}
