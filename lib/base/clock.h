/* SPDX-License-Identifier: MIT
 *
 * clock - the one clock of a recording: CLOCK_MONOTONIC, which the events use too.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static inline struct timespec clock_time(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return clock_ns(&t);
}

/* UNIX time when that clock was 0. */
static inline uint64_t clock_epoch_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return clock_ns(&t) - now_ns();
}

/* The first second of UNIX time after @ns, of a clock that was 0 at @epoch_ns. INT64_MAX: one of
 * the two is not known (0). */
static inline int64_t clock_second_after(uint64_t epoch_ns, uint64_t ns)
{
	return epoch_ns && ns ? (int64_t)((epoch_ns + ns) / 1000000000) + 1 : INT64_MAX;
}

/* True: @sem was posted, and is taken. False: not until @until_ns. */
static inline bool clock_await(sem_t *sem, uint64_t until_ns)
{
	const struct timespec until = clock_time(until_ns);
	int r;

	do
		r = sem_clockwait(sem, CLOCK_MONOTONIC, &until);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

/* Threads do it at the same time: a time that is older never takes the place of a newer one. */
static inline void clock_raise(_Atomic uint64_t *p, uint64_t time)
{
	uint64_t old = atomic_load_explicit(p, memory_order_relaxed);

	while (old < time && !atomic_compare_exchange_weak(p, &old, time))
		;
}

/* From when on something is allowed again that was from @free_ns on, was done at @now, and takes
 * @ns of its share of the time. What was not used is kept for a second. */
static inline uint64_t clock_spend(uint64_t free_ns, uint64_t now, uint64_t ns)
{
	const uint64_t kept = now > 1000000000 ? now - 1000000000 : 0;

	return (free_ns > kept ? free_ns : kept) + ns;
}

#endif
