/* SPDX-License-Identifier: MIT
 *
 * wait_table - which threads are off their CPU, since when, and what their waits stand for.
 */
#include "capture/wait_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/base.h"

/* From a record of a thread's registers to that of the switch itself; and how much later than a
 * thread's end a record of before it may be read, from another CPU's ring. */
enum { REGS_NS = 1000000, ENDED_NS = 1000000000 };

void wait_table_deinit(struct wait_table *t)
{
	idmap_deinit(&t->by_tid);
	free(t->all);
	*t = (struct wait_table){ 0 };
}

static struct wait *find(const struct wait_table *t, pid_t tid)
{
	uint32_t i = idmap_get(&t->by_tid, (uint64_t)tid);

	return i == IDMAP_NONE ? NULL : &t->all[i];
}

struct wait *wait_table_know(struct wait_table *t, pid_t pid, pid_t tid)
{
	struct wait *w = find(t, tid);

	if (w) {
		w->pid = pid ? pid : w->pid;
		return w;
	}
	if (!array_reserve(&t->all, &t->cap, t->n + 1, sizeof(*t->all)) ||
	    idmap_set(&t->by_tid, (uint64_t)tid, (uint32_t)t->n) < 0)
		return NULL;
	w = &t->all[t->n++];
	*w = (struct wait){ .pid = pid, .tid = tid };
	return w;
}

const struct wait *wait_table_asleep(const struct wait_table *t, pid_t tid)
{
	const struct wait *w = find(t, tid);

	return w && w->asleep ? w : NULL;
}

/* The last one takes its place. */
static void forget(struct wait_table *t, struct wait *w)
{
	idmap_forget(&t->by_tid, (uint64_t)w->tid);
	*w = t->all[--t->n];
	if (w != &t->all[t->n])
		idmap_set(&t->by_tid, (uint64_t)w->tid, (uint32_t)(w - t->all));
}

struct wait *wait_table_out(struct wait_table *t, pid_t pid, pid_t tid, uint64_t time,
			    bool preempted, struct wait *over)
{
	struct wait *w = wait_table_know(t, pid, tid);

	over->ticks = 0;
	if (!w)
		return NULL;
	/* Its coming onto a CPU was not seen. */
	if (w->asleep && w->out < time)
		*over = *w;
	else if (w->asleep || time < w->in)
		return w;
	w->asleep = true;
	w->ended = false;
	w->preempted = preempted;
	w->tried = w->read = w->late = w->doubtful = false;
	w->regs_known = w->regs_ns >= w->in && time - w->regs_ns < REGS_NS;
	w->ticks = 0;
	w->weight = w->given = 0;
	w->out = w->began = time;
	return w;
}

void wait_table_regs(struct wait_table *t, pid_t tid, uint64_t time, const uint64_t *regs,
		     size_t n)
{
	struct wait *w = wait_table_know(t, 0, tid);

	/* The reader of a CPU that it has left before may tell of that later. */
	if (!w || n > WAIT_REGS || time < w->in || time < w->regs_ns)
		return;
	memcpy(w->regs, regs, n * sizeof(*regs));
	w->regs_ns = time;
}

void wait_table_in(struct wait_table *t, pid_t tid, uint64_t time, bool ended,
		   struct wait *over)
{
	struct wait *w = find(t, tid);

	over->ticks = 0;
	if (!w)
		return;
	if (w->asleep && w->out <= time) {
		*over = *w;
		w->asleep = false;
	}
	if (w->in > time)
		return;
	w->in = time;
	w->ended = ended && !w->asleep;
}

size_t wait_table_tick(struct wait_table *t, uint64_t time, uint64_t distance)
{
	size_t n = 0;

	t->longest = MAX(t->longest, distance);
	for (size_t i = t->n; i--;) {
		struct wait *w = &t->all[i];

		if (w->ended && w->in + ENDED_NS <= time) {
			forget(t, w);
			continue;
		}
		if (!w->asleep || w->began >= time)
			continue;
		w->ticks++;
		w->weight += distance;
		n++;
	}
	return n;
}

void wait_table_anew(const struct wait_table *t, struct wait *w, uint64_t time, struct wait *over)
{
	*over = *w;
	w->given += wait_table_weight(t, w, time);
	w->tried = w->read = w->late = w->regs_known = false;
	w->out = time;
}

uint64_t wait_table_weight(const struct wait_table *t, const struct wait *w, uint64_t end)
{
	uint64_t began = MAX(w->began, t->since), length = end > began ? end - began : 0;
	uint64_t all = w->ticks && length > t->longest ? length : w->weight;

	return all - MIN(all, w->given);
}
