/* SPDX-License-Identifier: MIT
 *
 * waits_told - what readers and the control thread tell the thread that reads waits, and the waits
 * that are over by it.
 */
#include "capture/waits_int.h"

#include <sys/eventfd.h>

#include "base/array.h"
#include "base/base.h"
#include "base/stats.h"
#include "sys/proc.h"
#include "targets/births.h"

enum {
	DRAIN_NS = 3000000, /* readers have it to pass on what their rings hold */
	DRAIN_STEP_NS = 50000,
};

/* --- what is over --- */

uint32_t waits_state(const struct wait *wait, char state)
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
	*q = (struct q_sample){ .sample = { .time = MAX(end, w->table.since),
					    .period = weight,
					    .pid = wait->pid,
					    .tid = wait->tid,
					    .prov = PROV_TORN },
				.wait = waits_state(wait, 0),
				.unread = true };
	queue_commit(&w->slot.queue);
}

static void give_read(struct waits *w, const struct wait *wait, uint64_t end, uint64_t weight)
{
	struct q_wait *q = queue_reserve(&w->slot.queue, Q_WAIT, sizeof(*q));
	uint64_t out = waits_since(w, wait);

	if (!q) /* the resolver misses it (waiting_misses()) */
		return;
	/* Its end may be told late: it stands behind the sample all the same. */
	*q = (struct q_wait){
		.time = MAX(end, out), .out = out, .weight = weight, .tid = wait->tid
	};
	queue_commit(&w->slot.queue);
}

void waits_give(struct waits *w, const struct wait *wait, uint64_t end)
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
bool waits_collect(struct waits *w)
{
	bool all = wake_readers(w);

	for (uint32_t i = 0; i < w->c->n_slots; i++)
		keep_all(w, &w->post.in[i]);
	keep_all(w, &w->joined);
	if (w->n_late)
		qsort(w->late, w->n_late, sizeof(*w->late), by_time);
	return all;
}

void waits_leaves(struct waits *w, pid_t pid, pid_t tid, uint64_t time, bool preempted,
		   struct wait *over)
{
	if (!wait_table_out(&w->table, pid, tid, time, preempted, over))
		atomic_store(&w->post.blind, true);
}

/* A thread ends, and *@over with it. Behind that it leaves its CPU once more, which the reader of
 * another one may have told before: that is no wait in this order either. */
static void take_end(struct waits *w, const struct wait_message *m, struct wait *over)
{
	const struct wait *last = wait_table_asleep(&w->table, m->tid);

	if (last && births_ending(w->c->births, m->tid, last->out)) {
		wait_table_in(&w->table, m->tid, last->out, true, over);
		take_back(w, over, over->out);
		over->ticks = 0;
		return;
	}
	/* That it left a CPU before its end may be told later. */
	if (m->pid)
		wait_table_know(&w->table, m->pid, m->tid);
	wait_table_in(&w->table, m->tid, m->time, true, over);
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
			waits_leaves(w, m->pid, m->tid, m->time, m->type == WAIT_MSG_PREEMPTED,
			       &over);
		break;
	case WAIT_MSG_ASLEEP:
		/* Whatever switches told before: some of them may have been nobody's. Its end may
		 * have been told before. */
		if (!proc_thread_ended(m->pid, m->tid))
			waits_leaves(w, m->pid, m->tid, m->time, false, &over);
		break;
	case WAIT_MSG_REGS:
		wait_table_regs(&w->table, m->tid, m->time, m->regs, m->n_regs);
		return;
	case WAIT_MSG_ENDED:
		take_end(w, m, &over);
		break;
	default:
		wait_table_in(&w->table, m->tid, m->time, false, &over);
	}
	waits_give(w, &over, m->time);
}

/* What was told of the time until @until; @all that happened. */
void waits_apply_until(struct waits *w, uint64_t until, bool all)
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
void waits_end_strangers(struct waits *w, uint64_t at)
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
			waits_give(w, &over, at);
	}
}
