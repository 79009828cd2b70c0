/* SPDX-License-Identifier: MIT
 *
 * recorder_balance - at the end of a recording: do its samples stand for all that its events
 * counted?
 */
#include <sys/resource.h>

#include "record/books.h"
#include "sys/proc.h"
#include "record/recorder_int.h"
#include "base/stats.h"

/* True: what a process is told of its children is not expected, for they are no targets. Of a
 * scope's it depends on the children (recorder_join.c). */
static bool leaves_children(const struct recorder *r)
{
	return !r->o.follow && !r->o.scope;
}

/* What our own child has used, by its end as well: a zombie is no target any more. As
 * proc_use(). */
static int child_use(const struct recorder *r, struct proc_use *ret)
{
	struct cpu_ticks *all = leaves_children(r) ? &ret->own : &ret->children;
	uint64_t a_second = (uint64_t)sysconf(_SC_CLK_TCK);
	int code = proc_use(r->o.pids[0], ret);
	struct rusage u;

	if (code != -ESRCH || getrusage(RUSAGE_CHILDREN, &u) < 0)
		return code;
	*ret = (struct proc_use){ 0 };
	all->user = (uint64_t)u.ru_utime.tv_sec * a_second +
		    (uint64_t)u.ru_utime.tv_usec * a_second / 1000000;
	all->kernel = (uint64_t)u.ru_stime.tv_sec * a_second +
		      (uint64_t)u.ru_stime.tv_usec * a_second / 1000000;
	return 0;
}

/* A CPU's own clock also counts what others run there, and idleness; or not who left a cgroup.
 */
static bool runs_for_others(const struct recorder *r, const struct perf_event_attr *a)
{
	return r->plan.wide && perf_event_is_clock(a);
}

/* A clock counts in the kernel too, also where it is to take no samples there. */
static bool samples_a_part(const struct perf_event_attr *a)
{
	return perf_event_is_clock(a) && (a->exclude_kernel || a->exclude_user);
}

static uint64_t dropped(const struct recorder *r, size_t e)
{
	return r->by_table ? run_table_dropped(&r->table, (uint32_t)e) : 0;
}

/* Of those @n that are to be read, in order, what @rets and @use say; who is gone has no row, who
 * can't be looked at now has one. How many have one. */
static size_t ticks_fill(struct ticks_row *row, size_t n, const struct proc_use *use,
			 const ssize_t *rets)
{
	size_t k = 0, kept = 0;

	for (size_t i = 0; i < n; i++) {
		ssize_t ret = row[i].unread ? 0 : rets[k];

		row[kept] = row[i];
		if (!row[i].unread)
			row[kept].use = use[k++];
		row[kept].unread = row[kept].unread || ret < 0;
		kept += ret != -ESRCH;
	}
	return kept;
}

/* False: our own child, which is no target, has no row. */
static bool child_fill(const struct recorder *r, struct ticks_row *row)
{
	int ret = child_use(r, &row->use);

	row->pid = r->o.pids[0];
	row->unread = ret < 0;
	return ret != -ESRCH;
}

/* All that are targets now. Who has not run needs no second look: there may be many; but of who
 * may have ended the parent has been told by now. */
static void note_ticks(struct recorder *r, bool first)
{
	struct targets *t = &r->tracker.targets;
	size_t n_all = r->needs_ticks ? t->n_all + 1 : 0, n = 0, k = 0;
	_cleanup_free_ struct proc_use *use = calloc(n_all, sizeof(*use));
	_cleanup_free_ ssize_t *rets = calloc(n_all, sizeof(*rets));
	_cleanup_free_ pid_t *pids = calloc(n_all, sizeof(*pids));
	struct ticks_row *row = calloc(n_all, sizeof(*row));

	if (!n_all || !use || !rets || !pids || !row) {
		free(row);
		return;
	}
	for (size_t i = 0; i < t->n_all; i++) {
		struct target *target = t->all[i];

		if (targets_find(t, target->pid) != target)
			continue;
		row[n].pid = target->pid;
		row[n].unread = target->asleep && !target->doubt_ns && !first;
		if (!row[n++].unread)
			pids[k++] = target->pid;
	}
	proc_use_each(pids, k, use, rets);
	n = ticks_fill(row, n, use, rets);
	if (r->o.child && !targets_find(t, r->o.pids[0]))
		n += child_fill(r, &row[n]);
	for (size_t i = 0; i < n && leaves_children(r); i++)
		row[i].use.children = (struct cpu_ticks){ 0 };
	ticks_look(&r->ticks, row, n);
}

/* The last before the begin, for what is counted in between has no samples. */
static void count_before(struct recorder *r)
{
	for (size_t e = 0; e < r->session->n_events; e++) {
		/* A tracer's events wait for tracer_go(), and are its own until it ends. */
		if (!r->tracer && !runs_for_others(r, &r->session->events[e].attr))
			r->counted_before[e] = attach_count(&r->attach, e);
		r->dropped_before[e] = dropped(r, e);
	}
}

void recorder_begin_counting(struct recorder *r)
{
	for (size_t e = 0; e < r->session->n_events; e++) {
		const struct perf_event_attr *a = &r->session->events[e].attr;

		r->needs_ticks =
			r->needs_ticks || runs_for_others(r, a) || samples_a_part(a);
	}
	note_ticks(r, true);
	ticks_begin(&r->ticks);
	count_before(r);
}

void recorder_count_from_now(struct recorder *r, pid_t pid)
{
	struct proc_use use;
	int ret = r->needs_ticks ? proc_use(pid, &use) : -ESRCH;

	if (ret != -ESRCH)
		ticks_known(&r->ticks, pid, ret < 0 ? NULL : &use);
}

void recorder_note_ticks(struct recorder *r)
{
	note_ticks(r, false);
}

/* What the scheduler says that a clock would have counted in the targets. */
static uint64_t scheduled(const struct recorder *r, const struct perf_event_attr *a)
{
	const struct cpu_ticks *used = &r->ticks.used;
	uint64_t ticks = (a->exclude_user ? 0 : used->user) +
			 (a->exclude_kernel ? 0 : used->kernel);

	return (int64_t)ticks > 0 ? ticks * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK)) : 0;
}

/* The part of what @a counted that was where it takes samples, as the scheduler's ticks tell. */
static double sampled_part(const struct recorder *r, const struct perf_event_attr *a)
{
	uint64_t user = r->ticks.used.user, kernel = r->ticks.used.kernel;

	if (!samples_a_part(a) || user + kernel == 0 || (int64_t)user < 0 ||
	    (int64_t)kernel < 0)
		return 1;
	return (double)(a->exclude_user ? kernel : user) / (double)(user + kernel);
}

/* What was counted since the begin, and what samples there are of it. */
static struct book book_of(const struct recorder *r, size_t e)
{
	const struct perf_event_attr *a = &r->session->events[e].attr;
	uint64_t counted, before = r->counted_before[e];
	struct book b = { 0 };

	if (runs_for_others(r, a)) {
		b.counted = scheduled(r, a);
	} else {
		/* What events that took turns counted is estimated, and may become less. */
		counted = attach_count(&r->attach, e);
		counted -= MIN(counted, before);
		b.counted = (uint64_t)((double)counted * sampled_part(r, a));
		b.seen = dropped(r, e) - r->dropped_before[e];
	}
	b.period = perf_event_period(a);
	for (size_t i = 0; i < r->config.n_slots; i++) {
		b.seen += atomic_load(&r->config.slots[i].seen[e].n);
		b.stands_for += atomic_load(&r->config.slots[i].seen[e].period);
	}
	/* What the threads that -t names have used of their process's time nobody tells. */
	if (runs_for_others(r, a) && r->o.n_tids)
		b.counted = b.stands_for;
	return b;
}

void recorder_balance(const struct recorder *r, struct recorder_summary *ret)
{
	struct book books[SESSION_MAX_EVENTS] = { 0 };
	double expected = 0;
	bool drawn = false, part = false;
	char remedy[EVENT_PLACE_REMEDY];
	size_t n = 0;

	for (size_t e = 0; e < r->session->n_events; e++) {
		if (r->session->how[e].led)
			continue;
		drawn = drawn || r->plan.wide || r->session->how[e].on_cpus;
		part = part || samples_a_part(&r->session->events[e].attr);
		books[n] = book_of(r, e);
		expected += book_expected(&books[n++]);
	}
	ret->uncounted = books_uncounted(books, n,
					 STATS_GET(r->session->stats, lost) -
						 STATS_GET(r->session->stats, queue_full));
	if (!books_are_short((double)ret->uncounted, expected, drawn))
		return;
	note_say(&r->o.note,
		 "no sample stands for %.1f %% of what the events counted (uncounted): %s%s",
		 100 * (double)ret->uncounted / expected,
		 event_place_remedy(&r->place_facts, r->plan.wide ? PLACE_CPUS : r->place,
				    remedy),
		 part ? "; or the kernel's ticks tell user time wrongly, as of threads that "
			"run for less than a tick at a time" :
			"");
}
