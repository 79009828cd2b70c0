/* SPDX-License-Identifier: MIT
 *
 * pace - a controller, critically damped: what is ahead is worked off within some looks, and
 * what it takes to stay even is learnt.
 */
#include "targets/pace.h"

#include "base/base.h"

static const double MOST_AHEAD_S = 2;	 /* after that, what is ahead stays */
static const double MOST_BEHIND_S = 0.1; /* what is behind by more is missing: uncounted */
static const double LONGEST = 4, SHORTEST = 0.875;

static double within(double x, double least, double most)
{
	return MIN(MAX(x, least), most);
}

/* The CPU time within which what is ahead is worked off, where @used goes by from one look to
 * the next: some looks, and some samples. */
static double settle(double used, double period)
{
	return MAX(MAX(4 * used, 8 * period), 0.1);
}

uint32_t pace_next(struct pace *p, uint64_t cpu_ns, uint32_t taken, uint64_t period_ns)
{
	double used = p->begun ? (double)(int64_t)(cpu_ns - p->cpu_ns) / 1e9 : 0;
	double period = (double)period_ns / 1e9;
	double more = p->begun ? (double)(uint32_t)(taken - p->taken) * period - used : 0;
	double settle_s = settle(used, period);

	p->ahead = within(p->ahead + more, -MOST_BEHIND_S, MOST_AHEAD_S);
	p->usual = within(p->usual + p->ahead * used / (4 * settle_s * settle_s), SHORTEST - 1,
			  LONGEST - 1);
	p->begun = true;
	p->taken = taken;
	p->cpu_ns = cpu_ns;
	return (uint32_t)(PACE_ONE *
			  within(1 + p->usual + p->ahead / settle_s, SHORTEST, LONGEST));
}
