/* SPDX-License-Identifier: MIT
 *
 * waits_list - who sleeps, by /proc, where no record told it: at the begin, at a join, and after a
 * ring was too full.
 */
#include "capture/waits_int.h"

#include "base/base.h"
#include "base/stats.h"
#include "capture/waits.h"
#include "sys/proc.h"

static const uint64_t LIST_NS = 1000000000; /* between two that look for who is missing */

/* A ring or a queue had no room for some record since the last tick. */
void waits_doubt(struct waits *w)
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
void waits_settle_some(struct waits *w, uint64_t until)
{
	for (size_t i = 0; i < w->table.n; i++) {
		struct wait *wait = &w->table.all[i], over;
		uint64_t now = now_ns();

		if (!wait->asleep || !wait->doubtful)
			continue;
		if (waits_own_ns() > until)
			return;
		wait->doubtful = false;
		if (!proc_thread_ended(wait->pid, wait->tid))
			continue;
		wait_table_in(&w->table, wait->tid, now, true, &over);
		waits_give(w, &over, now);
	}
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
	waits_leaves(w, pid, tid, w->start_ns, false, &over);
}

/* Who sleeps when the recording begins. */
static void list_threads(void *arg, struct target *t)
{
	all_asleep(arg, t->pid, since_start);
}

void waits_list(struct waits *w)
{
	struct reader *r = w->slot.reader;

	epoch_enter(&r->c->targets->epoch, &r->slot->targets);
	targets_each(r->c->targets, list_threads, w);
	epoch_leave(&r->slot->targets);
}

static void since_now(struct waits *w, pid_t pid, pid_t tid, uint64_t before)
{
	struct wait over;

	waits_leaves(w, pid, tid, before, false, &over);
}

static void list_missing(struct waits *w, pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0, more = 0;

	if (proc_tasks(pid, &tids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (!wait_table_asleep(&w->table, tids[i]))
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

	if (w->at++ != w->listed || waits_own_ns() > l->until)
		return;
	w->listed++;
	list_missing(w, t->pid);
}

/* That a thread fell asleep may be told by no record: who does, and is not known to, does so since
 * now. At most once a second, and for so much of our CPU time at once. */
void waits_list_again(struct waits *w, uint64_t until)
{
	struct reader *r = w->slot.reader;
	struct listing l = { w, until };

	if (!w->unlisted || (!w->listed && now_ns() - w->listed_ns < LIST_NS))
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
