/* SPDX-License-Identifier: MIT
 *
 * kept - by provenance, and by what there is room for.
 */
#include "kept.h"

#include "base/stats.h"
#include "perf_event.h"

/* Of session.memory, one part for what processes and threads call themselves. */
enum { NAMES_SHARE = 16 };

bool kept_sample(const struct sink *s, const struct sample *smp)
{
	unsigned flags = s->session->flags;

	return !(flags & SESSION_ONLY_EXACT && smp->prov != PROV_EXACT) &&
	       !(flags & SESSION_ONLY_LATE && smp->prov != PROV_LATE);
}

bool kept_adapts(const struct session *session, uint32_t event)
{
	const struct perf_event_attr *a = &session->events[event].attr;
	const struct event_how *how = &session->how[event];

	return how->led || how->varies || (a->freq && !perf_event_is_clock(a));
}

uint64_t kept_samples(const struct session *session, const struct sample *smp)
{
	return session->how[smp->event].summed ? smp->period : 1;
}

uint64_t kept_weight(const struct session *session, const struct sample *smp)
{
	bool period = session->flags & (SESSION_PERIOD | SESSION_WALL) ||
		      kept_adapts(session, smp->event);

	return period ? smp->period : kept_samples(session, smp);
}

bool kept_name(const struct sink *s, size_t used)
{
	size_t memory = s->session->memory;

	if (!memory || used <= memory / NAMES_SHARE)
		return true;
	STATS_ADD(s->session->stats, unnamed, 1);
	return false;
}
