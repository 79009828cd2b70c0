/* SPDX-License-Identifier: MIT
 *
 * recorder_balance - at the end of a recording: do its samples stand for all that its events
 * counted?
 */
#include "books.h"
#include "proc.h"
#include "recorder_int.h"
#include "stats.h"

/* By all that are targets now, and by children of theirs that have ended. */
static struct cpu_ticks ticks_now(struct recorder *r)
{
	struct targets *t = &r->tracker.targets;
	struct cpu_ticks sum = { 0 }, one;

	for (size_t i = 0; i < t->n_all; i++)
		if (targets_find(t, t->all[i]->pid) == t->all[i] &&
		    proc_times(t->all[i]->pid, &one.user, &one.kernel) == 0) {
			sum.user += one.user;
			sum.kernel += one.kernel;
		}
	return sum;
}

void recorder_begin_counting(struct recorder *r)
{
	for (size_t e = 0; e < r->session->n_events; e++)
		r->counted_before[e] = attach_count(&r->attach, e);
	r->ticks_before = ticks_now(r);
}

void recorder_end_counting(struct recorder *r)
{
	r->ticks_after = ticks_now(r);
}

/* A clock counts in the kernel too, also where it is to take no samples there: the part of
 * what it counted that was in user mode, as the scheduler's ticks tell. */
static double sampled_part(const struct recorder *r, const struct perf_event_attr *a)
{
	uint64_t user = r->ticks_after.user - r->ticks_before.user;
	uint64_t kernel = r->ticks_after.kernel - r->ticks_before.kernel;

	if (!perf_event_is_clock(a) || (!a->exclude_kernel && !a->exclude_user) ||
	    user + kernel == 0 || (int64_t)user < 0 || (int64_t)kernel < 0)
		return 1;
	return (double)(a->exclude_user ? kernel : user) / (double)(user + kernel);
}

/* What was counted since the begin, and what samples there are of it. */
static struct book book_of(const struct recorder *r, size_t e)
{
	const struct perf_event_attr *a = &r->session->events[e].attr;
	uint64_t counted = attach_count(&r->attach, e) - r->counted_before[e];
	struct book b = { .counted = (uint64_t)((double)counted * sampled_part(r, a)) };

	b.period = !a->freq		  ? a->sample_period :
		   perf_event_is_clock(a) ? 1000000000 / a->sample_freq :
					    0;
	for (size_t i = 0; i < r->config.n_slots; i++) {
		b.seen += atomic_load(&r->config.slots[i].seen[e].n);
		b.stands_for += atomic_load(&r->config.slots[i].seen[e].period);
	}
	return b;
}

/* More than 2 %, and more than chance: periods on CPUs are drawn from half to one and a half
 * of the mean, so numbers of samples scatter by the root of a twelfth. */
static bool is_much(double uncounted, double expected)
{
	enum { SIGMAS = 3 };
	double more = uncounted - 0.02 * expected;

	return more > 0 && more * more > SIGMAS * SIGMAS * (expected / 12 + 1);
}

void recorder_balance(const struct recorder *r, struct recorder_summary *ret)
{
	struct book books[SESSION_MAX_EVENTS] = { 0 };
	double expected = 0;
	size_t n = 0;

	for (size_t e = 0; e < r->session->n_events; e++) {
		if (r->session->how[e].led)
			continue;
		books[n] = book_of(r, e);
		expected += book_expected(&books[n++]);
	}
	ret->uncounted = books_uncounted(books, n, STATS_GET(lost) - STATS_GET(queue_full));
	if (!is_much((double)ret->uncounted, expected))
		return;
	note_say(&r->o.note,
		 "no sample stands for %.1f %% of what the events counted (uncounted): %s",
		 100 * (double)ret->uncounted / expected,
		 event_place_remedy(&r->place_facts, r->place));
}
