/* SPDX-License-Identifier: MIT
 *
 * waits - a thread that reads the stacks of those that sleep, at random moments.
 */
#include "capture/waits.h"

#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/draw.h"
#include "base/stats.h"
#include "capture/hold.h"
#include "capture/reader_int.h"
#include "capture/wait_post.h"
#include "capture/wait_table.h"
#include "sys/harden.h"
#include "sys/proc.h"
#include "targets/births.h"

enum {
	QUEUE_BYTES = 1 << 20, /* of each reader's messages */
	OUT_BYTES = 4 << 20,
	CTL_BYTES = 64 << 10,
	RING_BYTES = 1 << 20, /* of the ring that is none: it never is full */
	DRAIN_NS = 3000000,   /* readers have it to pass on what their rings hold */
	DRAIN_STEP_NS = 50000,
	READ_PART = 20, /* of the time between ticks, one part in so many for reads */
	READ_LEAST_NS = 1000000,
	LEAST_NS = 1000000,	 /* mean distance of ticks; a tick itself takes some 20 us */
	LONGEST_NS = 1000000000, /* between ticks, where reads take too long */
	LAST_NS = 1000000000,	 /* for reads at the end */
	NICE = -10,
};

struct waits {
	struct reader_config *c;
	struct cpu_slot slot;  /* of no CPU: its queues, its guard, its reader */
	struct wait_post post; /* what readers tell */
	struct queue joined;   /* struct wait_message of the control thread's */
	_Atomic bool stop;
	bool ended;
	_Atomic uint64_t told_ns;
	bool begun;
	uint64_t period_ns, base_ns, start_ns, last_ns;
	struct wait_table table;
	struct wait_message *late; /* that were told and are not dealt with */
	size_t n_late, cap_late;
	uint64_t blind_ns;  /* of the readers' config, at the last tick */
	bool unlisted;	    /* records may be missing: who sleeps is to be listed again */
	uint64_t listed_ns; /* when that began the last time */
	size_t listed, at;  /* so many targets were so far, and which one is next */
	bool short_of_time; /* waits ended unread since the last tick */
	size_t turn;	    /* whose stack is read first */
};

/* --- what is over --- */

/* By a signal or a tracer. */
static bool is_stopped(char state)
{
	return state == 'T' || state == 't';
}

static uint32_t state_of(const struct wait *wait, char state)
{
	return wait->preempted || state == 'R' ? Q_WAIT_RUNNABLE :
	       state == 'D'		       ? Q_WAIT_DISK :
	       is_stopped(state)	       ? Q_WAIT_STOPPED :
						 Q_WAIT_SLEEP;
}

/* Nobody could read it in time. */
static void give_unread(struct waits *w, const struct wait *wait, uint64_t end,
			uint64_t weight)
{
	struct q_sample *q = queue_reserve(&w->slot.queue, Q_SAMPLE, sizeof(*q));

	w->short_of_time = true;
	STATS_ADD(w->c->stats, waits_unread, 1);
	if (!q) {
		emit_lost(w->c->stats, 1);
		return;
	}
	*q = (struct q_sample){ .sample = { .time = end,
					    .period = weight,
					    .pid = wait->pid,
					    .tid = wait->tid,
					    .prov = PROV_TORN },
				.wait = state_of(wait, 0),
				.unread = true };
	queue_commit(&w->slot.queue);
}

static void give_read(struct waits *w, const struct wait *wait, uint64_t end, uint64_t weight)
{
	struct q_wait *q = queue_reserve(&w->slot.queue, Q_WAIT, sizeof(*q));

	if (!q) {
		emit_lost(w->c->stats, weight > 0);
		return;
	}
	*q = (struct q_wait){
		.time = end, .out = wait->out, .weight = weight, .tid = wait->tid
	};
	queue_commit(&w->slot.queue);
}

static void give(struct waits *w, const struct wait *wait, uint64_t end)
{
	uint64_t weight = wait_table_weight(&w->table, wait, end);

	if (wait->ticks && wait->read)
		give_read(w, wait, end, weight);
	else if (wait->ticks && weight)
		give_unread(w, wait, end, weight);
}

/* It stands for nothing, and whoever got its stack need not keep it. */
static void take_back(struct waits *w, const struct wait *wait, uint64_t end)
{
	if (wait->ticks && wait->read)
		give_read(w, wait, end, 0);
}

/* --- what readers told --- */

/* True: one of the @n rings is not read up to its place in @heads. */
static bool is_behind(const struct waits *w, const uint64_t *heads, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (perf_ring_tail(&w->c->slots[i].ring) < heads[i])
			return true;
	return false;
}

/* Have the readers pass on what their rings hold: records of switches wake none. False: one has
 * not come in time. */
static bool wake_readers(struct waits *w)
{
	const struct timespec step = { .tv_nsec = DRAIN_STEP_NS };
	uint64_t end = now_ns() + DRAIN_NS;
	uint64_t heads[CPUS_MAX];
	uint32_t n = MIN(w->c->n_slots, (uint32_t)CPUS_MAX);

	for (uint32_t i = 0; i < n; i++) {
		struct cpu_slot *s = &w->c->slots[i];

		heads[i] = perf_ring_head(&s->ring);
		if (perf_ring_tail(&s->ring) != heads[i] && w->post.poke[i] >= 0)
			eventfd_write(w->post.poke[i], 1);
	}
	/* Others may have had our CPU for all of that time: readers get a moment of it too. */
	while (is_behind(w, heads, n)) {
		nanosleep(&step, NULL);
		if (now_ns() >= end)
			return !is_behind(w, heads, n);
	}
	return true;
}

static void keep(struct waits *w, const struct queue_record *rec)
{
	size_t n = rec->n - sizeof(*rec);

	if (!array_reserve(&w->late, &w->cap_late, w->n_late + 1, sizeof(*w->late))) {
		atomic_store(&w->post.blind, true);
		return;
	}
	memcpy(&w->late[w->n_late++], rec->data, MIN(n, sizeof(*w->late)));
}

static int by_time(const void *a, const void *b)
{
	const struct wait_message *x = a, *y = b;

	return COMPARE(x->time, y->time) ?:
		       (y->type == WAIT_MSG_REGS) - (x->type == WAIT_MSG_REGS);
}

static void keep_all(struct waits *w, struct queue *q)
{
	const struct queue_record *rec;

	for (; (rec = queue_peek(q)); queue_pop(q))
		keep(w, rec);
}

/* False: not all that happened by now. */
static bool collect(struct waits *w)
{
	bool all = wake_readers(w);

	for (uint32_t i = 0; i < w->c->n_slots; i++)
		keep_all(w, &w->post.in[i]);
	keep_all(w, &w->joined);
	if (w->n_late)
		qsort(w->late, w->n_late, sizeof(*w->late), by_time);
	return all;
}

static void leaves(struct waits *w, pid_t pid, pid_t tid, uint64_t time, bool preempted,
		   struct wait *over)
{
	if (!wait_table_out(&w->table, pid, tid, time, preempted, over))
		atomic_store(&w->post.blind, true);
}

static void apply(struct waits *w, const struct wait_message *m)
{
	struct wait over = { 0 };

	switch (m->type) {
	case WAIT_MSG_OUT:
	case WAIT_MSG_PREEMPTED:
		/* The last time it leaves is no wait. */
		if (births_ending(w->c->births, m->tid, m->time))
			wait_table_in(&w->table, m->tid, m->time, true, &over);
		else
			leaves(w, m->pid, m->tid, m->time, m->type == WAIT_MSG_PREEMPTED,
			       &over);
		break;
	case WAIT_MSG_ASLEEP:
		/* Whatever switches told before: some of them may have been nobody's. Its end may
		 * have been told before. */
		if (!proc_thread_ended(m->pid, m->tid))
			leaves(w, m->pid, m->tid, m->time, false, &over);
		break;
	case WAIT_MSG_REGS:
		wait_table_regs(&w->table, m->tid, m->time, m->regs, m->n_regs);
		return;
	default:
		/* That it left a CPU before its end may be told later. */
		if (m->type == WAIT_MSG_ENDED && m->pid)
			wait_table_know(&w->table, m->pid, m->tid);
		wait_table_in(&w->table, m->tid, m->time, m->type == WAIT_MSG_ENDED, &over);
	}
	give(w, &over, m->time);
}

/* What was told of the time until @until; @all that happened. */
static void apply_until(struct waits *w, uint64_t until, bool all)
{
	size_t n = 0;

	while (n < w->n_late && w->late[n].time <= until)
		apply(w, &w->late[n++]);
	w->n_late -= n;
	if (n)
		memmove(w->late, w->late + n, w->n_late * sizeof(*w->late));
	if (all)
		atomic_store_explicit(&w->told_ns, until, memory_order_release);
}

/* Of who is no target any more nothing is passed on but the ends of its threads: its waits end
 * now. At the second tick, for an end may have come behind the first. What it has become by an
 * exec is nobody's business. */
static void end_strangers(struct waits *w, uint64_t at)
{
	bool all = !w->c->ours || w->c->split;

	for (size_t i = w->table.n; !all && i--;) {
		struct wait *wait = &w->table.all[i], over;
		bool was = wait->strange, nobodys;
		uint64_t execed;

		wait->strange = wait->asleep && !ours_has(w->c->ours, wait->pid);
		if (!wait->strange || !was)
			continue;
		execed = births_execed(w->c->births, wait->pid);
		nobodys = execed && execed <= wait->out;
		wait_table_in(&w->table, wait->tid, at, true, &over);
		if (nobodys)
			take_back(w, &over, at);
		else
			give(w, &over, at);
	}
}

/* --- a stack --- */

/* CPU time of this thread. */
static uint64_t own_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* Where it stands in user mode: as it left, or as the kernel says of who sleeps. */
static bool place_of(const struct wait *wait, const struct proc_wait *at,
		     uint64_t regs[ARCH_MAX_REGS])
{
	if (wait->regs_known) {
		memcpy(regs, wait->regs, arch_host->n_regs * sizeof(*regs));
		return true;
	}
	memset(regs, 0, ARCH_MAX_REGS * sizeof(*regs));
	regs[arch_host->sp] = at->sp;
	regs[arch_host->ip] = at->pc;
	return at->sp;
}

static bool is_asleep(const struct wait *wait)
{
	char state = proc_state(wait->pid, wait->tid);

	return state == 'S' || state == 'D' || is_stopped(state);
}

/* Whether it slept until now. A thread that this kernel hides may have left no record. */
static void prove(struct reader *r, struct walk *walk, const struct wait *wait)
{
	const bool asks = r->c->switches_hidden && !wait->preempted;
	const bool sleeps = !asks || is_asleep(wait);
	uint64_t hidden = wait->out | 4095; /* records of leaving are so exact */

	r->c->capture->release(r, walk);
	if (!sleeps)
		walk->ran = true;
	if (r->c->switches_hidden && proof_left_another(r->c, r->slot, wait->tid, hidden))
		walk->ran = true;
}

/* Who sleeps for the GIL does so in a futex that lies in it. */
static bool wants_gil(struct reader *r, const struct proc_wait *at, const struct walk *walk)
{
	const struct pystack_target *of = walk->res.of;

	return at->syscall == SYS_futex && walk->res.end == PYSTACK_OK &&
	       pygil_sleeps(&r->mem.base, &of->layout,
			    pygil_runtime(&of->layout, &of->walk), walk->res.tstate, at->arg);
}

static bool is_quarantined(const struct reader *r, pid_t pid)
{
	const struct target *t = targets_find(r->c->targets, pid);

	return t && atomic_load(&t->state) == TARGET_QUARANTINED;
}

/* Where it waits, in @at, if that can be told. That may hang, as reads of its memory may. */
static void ask_where(struct reader *r, const struct wait *wait, struct proc_wait *at)
{
	uint64_t turn;

	if (is_quarantined(r, wait->pid))
		return;
	guarded_target(&r->mem, wait->pid, wait->tid);
	turn = guarded_enter(&r->mem);
	if (proc_syscall(wait->pid, wait->tid, at) < 0)
		*at = (struct proc_wait){ .syscall = -1 };
	guarded_leave(&r->mem, turn);
}

/* Before its stack is read, so that what proves the stack proves this. Who was preempted wants
 * a CPU, and the kernel does not tell where such a thread stands. */
static uint32_t what_for(struct reader *r, const struct wait *wait, struct proc_wait *at)
{
	char state = 0;

	*at = (struct proc_wait){ .syscall = -1 };
	if (!wait->preempted) {
		state = proc_state(wait->pid, wait->tid);
		ask_where(r, wait, at);
	}
	return state_of(wait, state);
}

static void read_one(struct waits *w, struct wait *wait)
{
	struct reader *r = w->slot.reader;
	uint64_t regs[ARCH_MAX_REGS];
	struct pending *p = &r->pend[0];
	struct proc_wait at;
	struct walk walk;

	epoch_enter(&r->c->targets->epoch, &r->slot->targets);
	wait->tried = true; /* and no more, if that hangs */
	wait->late = false;
	r->wait = what_for(r, wait, &at);
	*p = (struct pending){ .s = { .time = wait->out,
				      .pid = wait->pid,
				      .tid = wait->tid,
				      .misc = PERF_RECORD_MISC_USER } };
	if (place_of(wait, &at, regs)) {
		p->s.regs = (const unsigned char *)regs;
		p->s.have_user = true;
		p->s.user_ip = p->s.ip = regs[arch_host->ip];
		p->s.user_sp = regs[arch_host->sp];
	}
	p->hold = (struct hold){ .t0 = wait->out, .t_out = wait->out, .in_kernel = true };
	r->n_pend = 1;
	if (hold_walk(r, p, &walk)) {
		if (r->wait == Q_WAIT_SLEEP && wants_gil(r, &at, &walk))
			r->wait = Q_WAIT_GIL;
		prove(r, &walk, wait);
		hold_judge(r, &walk);
		wait->tried = !walk.undecided;
		wait->late = walk.latest != JUDGE_EXACT && !wait->preempted;
	}
	wait->read = true;
	epoch_leave(&r->slot->targets);
	emit_codes_gone(r);
}

/* Nobody could tell whether it had slept until it was read, as where a ring was too full, and no
 * switch of it was told since: where it sleeps now is known of another wait that begins now. */
static void begin_anew(struct waits *w, struct wait *wait)
{
	uint64_t now = now_ns();
	struct wait over;

	if (!is_asleep(wait))
		return;
	wait_table_anew(&w->table, wait, now, &over);
	give(w, &over, now);
}

/* Whoever sleeps since before the recording began will still do so later. */
static bool is_fresh(const struct waits *w, const struct wait *wait)
{
	return wait->out > w->table.since;
}

/* True: it is time to read its stack. Where its program was not known yet it is read once more,
 * after 1, 2, 4 and so on ticks, and at the end; what comes later takes the place of what was
 * read. Where that was late it begins anew then, but not at the end. */
static bool is_due(const struct waits *w, const struct wait *wait)
{
	bool again = !(wait->ticks & (wait->ticks - 1)), last = atomic_load(&w->stop);

	if (!wait->asleep || !wait->ticks || (wait->tried && (!wait->late || last)))
		return false;
	return !wait->read || again || last;
}

/* Those that were taken and are not read, until we have used so much CPU time; who is left
 * over has another turn. */
static void read_some(struct waits *w, bool fresh, uint64_t until)
{
	size_t n = w->table.n;

	for (size_t i = 0; i < n; i++) {
		struct wait *wait = &w->table.all[(w->turn + i) % n];

		if (!is_due(w, wait) || is_fresh(w, wait) != fresh)
			continue;
		if (own_ns() > until) {
			w->turn = (w->turn + i) % n;
			return;
		}
		if (wait->tried)
			begin_anew(w, wait);
		else
			read_one(w, wait);
	}
}

/* A ring or a queue had no room for some record since the last tick. */
static void doubt(struct waits *w)
{
	bool lost = atomic_exchange(&w->post.blind, false);
	uint64_t blind_ns = atomic_load(&w->c->blind_ns);

	STATS_ADD(w->c->stats, side_lost, lost);
	for (size_t i = 0; (lost || blind_ns != w->blind_ns) && i < w->table.n; i++)
		w->table.all[i].doubtful = true;
	w->unlisted = w->unlisted || lost || blind_ns != w->blind_ns;
	w->blind_ns = blind_ns;
}

/* It may have been that of a thread's end: whoever is gone waits no more. */
static void settle_some(struct waits *w, uint64_t until)
{
	for (size_t i = 0; i < w->table.n; i++) {
		struct wait *wait = &w->table.all[i], over;
		uint64_t now = now_ns();

		if (!wait->asleep || !wait->doubtful)
			continue;
		if (own_ns() > until)
			return;
		wait->doubtful = false;
		if (!proc_thread_ended(wait->pid, wait->tid))
			continue;
		wait_table_in(&w->table, wait->tid, now, true, &over);
		give(w, &over, now);
	}
}

/* --- the thread --- */

/* What readers told by now needs its room: between ticks that are far apart. */
static void take_early(struct waits *w, uint64_t until)
{
	uint64_t now = now_ns();
	bool all = collect(w);

	apply_until(w, MIN(now, until), all);
}

static void sleep_until(struct waits *w, uint64_t ns)
{
	const struct timespec t = clock_time(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR &&
	       !atomic_load(&w->stop))
		take_early(w, ns);
}

/* Where reads take too long ticks come less often: then each stands for more. */
static void adapt(struct waits *w, bool over)
{
	if (over && w->short_of_time)
		w->period_ns = MIN(w->period_ns + w->period_ns / 4, (uint64_t)LONGEST_NS);
	else
		w->period_ns = MAX(w->period_ns - w->period_ns / 16, w->base_ns);
	w->short_of_time = false;
}

/* All that happened until @at, and a tick there. */
static void tick_at(struct waits *w, uint64_t at)
{
	uint64_t distance = at - w->last_ns;

	w->last_ns = at;
	apply_until(w, at, collect(w));
	end_strangers(w, at);
	wait_table_tick(&w->table, at, distance);
	doubt(w);
}

typedef void take_fn(struct waits *w, pid_t pid, pid_t tid, uint64_t before);

/* Tells @take of those of @tids that sleep, and when that was not known yet. */
static void each_asleep(struct waits *w, pid_t pid, const pid_t *tids, size_t n, take_fn *take)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t before = now_ns();
		char state = watch_wants(w->c, tids[i]) ? proc_state(pid, tids[i]) : 0;

		if (state && !strchr("RZX", state))
			take(w, pid, tids[i], before);
	}
}

/* The same of all threads of @pid. */
static void all_asleep(struct waits *w, pid_t pid, take_fn *take)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	if (proc_tasks(pid, &tids, &n) == 0)
		each_asleep(w, pid, tids, n, take);
	else if (proc_exists(pid))
		atomic_store(&w->post.blind, true);
}

static void since_start(struct waits *w, pid_t pid, pid_t tid, uint64_t before)
{
	struct wait over;

	(void)before;
	leaves(w, pid, tid, w->start_ns, false, &over);
}

/* Who sleeps when the recording begins. */
static void list_threads(void *arg, struct target *t)
{
	all_asleep(arg, t->pid, since_start);
}

static void since_now(struct waits *w, pid_t pid, pid_t tid, uint64_t before)
{
	struct wait over;

	leaves(w, pid, tid, before, false, &over);
}

static void list_missing(struct waits *w, pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0, more = 0;

	if (proc_tasks(pid, &tids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (!wait_table_sleeps(&w->table, tids[i]))
			tids[more++] = tids[i];
	each_asleep(w, pid, tids, more, since_now);
}

struct listing {
	struct waits *w;
	uint64_t until;
};

static void list_next(void *arg, struct target *t)
{
	const struct listing *l = arg;
	struct waits *w = l->w;

	if (w->at++ != w->listed || own_ns() > l->until)
		return;
	w->listed++;
	list_missing(w, t->pid);
}

/* That a thread fell asleep may be told by no record: who does, and is not known to, does so since
 * now. At most once a second, and for so much of our CPU time at once. */
static void list_again(struct waits *w, uint64_t until)
{
	struct reader *r = w->slot.reader;
	struct listing l = { w, until };

	if (!w->unlisted || (!w->listed && now_ns() - w->listed_ns < LONGEST_NS))
		return;
	if (!w->listed)
		w->listed_ns = now_ns();
	w->at = 0;
	epoch_enter(&r->c->targets->epoch, &r->slot->targets);
	targets_each(r->c->targets, list_next, &l);
	epoch_leave(&r->slot->targets);
	if (w->listed < w->at)
		return;
	w->listed = 0;
	w->unlisted = false;
}

static void begin(struct waits *w)
{
	struct reader *r = w->slot.reader;

	w->begun = true;
	epoch_enter(&r->c->targets->epoch, &r->slot->targets);
	targets_each(r->c->targets, list_threads, w);
	epoch_leave(&r->slot->targets);
	w->last_ns = w->table.since = w->start_ns;
}

static void tick(struct waits *w)
{
	uint64_t distance = draw_around(&w->slot.reader->random, w->period_ns);
	uint64_t at = w->last_ns + distance, until;

	sleep_until(w, at);
	if (atomic_load(&w->stop))
		return;
	tick_at(w, at);
	until = own_ns() + MAX(distance / READ_PART, (uint64_t)READ_LEAST_NS);
	read_some(w, true, until);
	read_some(w, false, until);
	adapt(w, own_ns() > until);
	settle_some(w, until);
	list_again(w, until);
}

/* Those that go on end now. */
static void give_rest(struct waits *w)
{
	for (size_t i = 0; i < w->table.n; i++)
		if (w->table.all[i].asleep)
			give(w, &w->table.all[i], w->last_ns);
	w->ended = true;
}

static void be_ordinary(void)
{
	const struct sched_param none = { 0 };

	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
	setpriority(PRIO_PROCESS, 0, NICE);
}

/* What began since the last tick had none: the end is as good a moment for one as any. Its
 * reads may take long. */
static void end(struct waits *w)
{
	uint64_t now = now_ns();

	be_ordinary();
	end_strangers(w, now);
	tick_at(w, now);
	read_some(w, true, own_ns() + LAST_NS);
	read_some(w, false, own_ns() + LAST_NS);
	settle_some(w, own_ns() + LAST_NS);
	give_rest(w);
}

static void run(struct waits *w)
{
	atomic_store_explicit(&w->slot.reader->tid, gettid(), memory_order_relaxed);
	atomic_store_explicit(&w->post.tid, gettid(), memory_order_relaxed);
	work_own = &w->slot.work;
	harden_thread(HARDEN_READER, 0);
	if (w->c->capture->waits_begin(w->c->plan) < 0)
		be_ordinary();
	if (!w->begun)
		begin(w);
	while (!atomic_load(&w->stop))
		tick(w);
	end(w);
}

static void *waits_main(void *arg)
{
	struct waits *w = arg;
	struct reader *r = w->slot.reader;
	jmp_buf ended;

	r->mem.end = &ended;
	if (setjmp(ended) == 0) /* else abandoned: @r will be gone */
		run(w);
	return NULL;
}

static int start_reader(struct waits *w)
{
	struct reader *r = reader_create(w->c, &w->slot);

	if (!r)
		return -ENOMEM;
	w->slot.reader = r;
	if (pthread_create(&r->thread, NULL, waits_main, w) == 0)
		return 0;
	w->slot.reader = NULL;
	reader_destroy(r);
	return -EAGAIN;
}

/* --- the control thread --- */

static bool make_slot(struct waits *w)
{
	struct cpu_slot *s = &w->slot;

	s->cpu = -1;
	s->index = w->c->cap_slots;
	s->handover.posted = -1;
	s->ring = (struct perf_ring){ .fd = eventfd(0, EFD_CLOEXEC),
				      .page = calloc(1, sizeof(*s->ring.page)),
				      .size = RING_BYTES };
	return s->ring.fd >= 0 && s->ring.page && queue_init(&s->queue, OUT_BYTES) == 0 &&
	       queue_init(&s->ctl, CTL_BYTES) == 0 && queue_init(&w->joined, QUEUE_BYTES) == 0;
}

struct wait_post *waits_post(struct waits *w)
{
	return &w->post;
}

struct waits *waits_create(struct reader_config *c)
{
	struct waits *w = calloc(1, sizeof(*w));
	bool made;

	if (!w)
		return NULL;
	w->c = c;
	w->post.in = calloc(c->cap_slots, sizeof(*w->post.in));
	w->post.poke = calloc(c->cap_slots, sizeof(*w->post.poke));
	made = make_slot(w) && w->post.in && w->post.poke;
	for (uint32_t i = 0; made && i < c->cap_slots; i++)
		w->post.poke[i] = -1;
	for (uint32_t i = 0; made && i < c->cap_slots; i++) {
		w->post.poke[i] = eventfd(0, EFD_CLOEXEC);
		made = w->post.poke[i] >= 0 && queue_init(&w->post.in[i], QUEUE_BYTES) == 0;
	}
	if (made)
		return w;
	waits_destroy(w);
	return NULL;
}

void waits_destroy(struct waits *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < w->c->cap_slots; i++) {
		if (w->post.poke && w->post.poke[i] > 0)
			close(w->post.poke[i]);
		if (w->post.in)
			queue_deinit(&w->post.in[i]);
	}
	reader_destroy(w->slot.reader);
	if (w->slot.ring.fd >= 0)
		close(w->slot.ring.fd);
	free(w->slot.ring.page);
	queue_deinit(&w->slot.queue);
	queue_deinit(&w->slot.ctl);
	queue_deinit(&w->joined);
	wait_table_deinit(&w->table);
	free(w->late);
	free(w->post.in);
	free(w->post.poke);
	free(w);
}

struct queue *waits_queue(struct waits *w)
{
	return &w->slot.queue;
}

struct queue *waits_messages(struct waits *w)
{
	return &w->slot.ctl;
}

int waits_start(struct waits *w, uint64_t period_ns, uint64_t start_ns)
{
	w->period_ns = w->base_ns = MAX(period_ns, (uint64_t)LEAST_NS);
	w->start_ns = start_ns;
	return start_reader(w);
}

static void since_join(struct waits *w, pid_t pid, pid_t tid, uint64_t before)
{
	struct wait_message *m = queue_reserve(&w->joined, 1, sizeof(*m));

	if (!m) {
		atomic_store(&w->post.blind, true);
		return;
	}
	*m = (struct wait_message){
		.time = before, .pid = pid, .tid = tid, .type = WAIT_MSG_ASLEEP
	};
	queue_commit(&w->joined);
}

void waits_joined(struct waits *w, pid_t pid)
{
	if (w)
		all_asleep(w, pid, since_join);
}

void waits_threads(struct waits *w, pid_t pid, const pid_t *tids, size_t n)
{
	if (w)
		each_asleep(w, pid, tids, n, since_join);
}

uint64_t waits_told_ns(const struct waits *w)
{
	return atomic_load_explicit(&w->told_ns, memory_order_acquire);
}

pid_t waits_watch(struct waits *w)
{
	pid_t pid = w->slot.reader ? reader_stuck(&w->slot) : 0;

	if (pid || w->slot.bare)
		w->slot.bare = start_reader(w) < 0;
	/* Else what readers tell has no room soon, and samples wait for it. */
	if (w->slot.bare && now_ns() - w->last_ns >= w->period_ns)
		tick_at(w, now_ns());
	return pid;
}

pid_t waits_returned(struct waits *w)
{
	return reader_returned(&w->slot);
}

bool waits_bare(const struct waits *w)
{
	return w->slot.bare;
}

bool waits_stuck(const struct waits *w)
{
	return w && w->slot.stuck;
}

void waits_stop(struct waits *w)
{
	if (!w)
		return;
	atomic_store(&w->stop, true);
	reader_stop(&w->slot);
	if (w->ended || !w->begun)
		return;
	/* It hangs in a read: what was not read by then stays unread. */
	tick_at(w, now_ns());
	give_rest(w);
}
