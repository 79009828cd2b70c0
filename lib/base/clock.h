/* SPDX-License-Identifier: MIT
 *
 * clock - the one clock of a recording: CLOCK_MONOTONIC, which the events use too.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* From when on something is allowed again that was from @free_ns on, was done at @now, and takes
 * @ns of its share of the time. What was not used is kept for a second. */
static inline uint64_t clock_spend(uint64_t free_ns, uint64_t now, uint64_t ns)
{
	const uint64_t kept = now > 1000000000 ? now - 1000000000 : 0;

	return (free_ns > kept ? free_ns : kept) + ns;
}

#endif
