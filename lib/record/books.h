/* SPDX-License-Identifier: MIT
 *
 * books - do the samples of an event stand for all that the event counted? Pure.
 *
 * counted = seen + lost + uncounted, in samples: seen are those that left the kernel's ring,
 * whatever became of them later (written, shed, dropped from a queue), lost those that the
 * ring had no room for. What is uncounted no sample ever stood for: the rest of a period when
 * its thread ended, timers that came too late, a throttled event.
 */
#ifndef BOOKS_H
#define BOOKS_H

#include <stdbool.h>
#include <stdint.h>

/* One event, in its own unit (ns of a clock). */
struct book {
	uint64_t counted;    /* by the event itself, in all threads that it counts in */
	uint64_t seen;	     /* samples */
	uint64_t stands_for; /* the sum of their periods */
	uint64_t period;     /* of a sample, where none was seen; 0: not known */
};

/* What it counted, in samples of their mean period. 0 where nothing tells the period. */
double book_expected(const struct book *b);

/* Samples that are missing, and not lost, of all @n events; @lost may be of any. At least 0.
 */
uint64_t books_uncounted(const struct book *b, uint64_t n, uint64_t lost);

/* Is that more than 2 %, and more than chance? Periods on CPUs are from half to one and a half of
 * the mean, so numbers of samples scatter by the root of a twelfth; by the root of all where they
 * are @drawn: a CPU's event counts whoever runs there, and its samples are a target's by chance.
 */
bool books_are_short(double uncounted, double expected, bool drawn);

#endif
