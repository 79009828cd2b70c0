/* SPDX-License-Identifier: MIT
 *
 * recorder_detach - the end of sampling, and what a person should know of what is missing.
 */
#include <string.h>

#include "base/clock.h"
#include "record/recorder_int.h"

/* Events that had a counter for a part of the time only. */
static void tell_shares(const struct recorder *r)
{
	char list[1600] = "";

	for (size_t e = 0; e < r->session->n_events; e++) {
		const struct event_info *event = &r->session->events[e];
		size_t n = strlen(list);
		double share;

		if (!attach_takes_turns(&r->attach, e))
			continue;
		share = attach_share(&r->attach, e);
		if (share < 0.95)
			snprintf(list + n, sizeof(list) - n,
				 "%s%.60s %.1f %% of the time (x %.2f)", n ? ", " : "",
				 event->name, 100 * share, share > 0 ? 1 / share : 0);
	}
	if (*list)
		note_say(&r->o.note,
			 "more events than counters, they took turns: %s; numbers are not "
			 "scaled, name fewer events",
			 list);
}

static void tell_missed(const struct recorder *r)
{
	if (r->n_missed)
		note_say(&r->o.note,
			 "%zu new threads or processes had ended before probes could be put "
			 "into them: what they did is missing",
			 r->n_missed);
	if (r->n_late)
		note_say(&r->o.note,
			 "%zu new threads or processes had run for %.1f ms of CPU time in all "
			 "before probes were put into them: what they did then is missing",
			 r->n_late, (double)r->late_ns / 1e6);
	if (r->unseen_ns)
		note_say(&r->o.note,
			 "processes that joined: %zu; before they were known to be Python they had "
			 "run for at most %.1f ms of CPU time in all: what they did then is missing",
			 r->n_joined, (double)r->unseen_ns / 1e6);
}

/* Threads that could not be stopped, or keep a signal. */
static void tell_rest(const struct recorder *r, const struct tracer_rest *rest)
{
	size_t n = rest->pending;

	if (rest->deaf)
		note_say(&r->o.note,
			 "%zu thread%s that began later, or blocked it later, blocked the signal of "
			 "capture stop and could not be stopped: their samples are late",
			 rest->deaf, rest->deaf == 1 ? "" : "s");
	if (n)
		note_say(&r->o.note,
			 "%zu thread%s the signal of capture stop and ha%s one pending", n,
			 n == 1 ? " blocks" : "s block", n == 1 ? "s" : "ve");
}

/* Nothing is sampled any more, and nobody held. */
void recorder_detach(struct recorder *r)
{
	struct tracer_rest rest;

	/* Switching off many events takes a while, and proves nothing of what it still lets
	 * through. */
	atomic_store(&r->config.end_ns, now_ns());
	rest = tracer_stop(r->tracer);
	r->tracer = NULL;
	tell_rest(r, &rest);
	/* Who runs from here on leaves no record of it: nothing is exact any more. */
	atomic_store(&r->config.blind_ns, UINT64_MAX);
	attach_disable(&r->attach);
	recorder_note_ticks(r);
	tell_shares(r);
	tell_missed(r);
}
