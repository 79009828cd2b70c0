/* SPDX-License-Identifier: MIT
 *
 * pace - how long the periods of a clock on CPUs must be, of what was asked for, so that a
 * process has as many samples as its CPU time asks for.
 *
 * A hold takes a thread off its CPU, and then the scheduler may choose another process, which
 * runs where the next sample is not due yet. So where targets and others want the same CPU, a
 * period spans less of the targets' time than of the CPU's: they had up to a third too many
 * samples. Pure.
 */
#ifndef PACE_H
#define PACE_H

#include <stdbool.h>
#include <stdint.h>

enum { PACE_ONE = 1024, PACE_MS = 100 /* between two looks */ };

/* A process, as it was at the last look. */
struct pace {
	bool begun;
	uint32_t taken;	 /* samples of it so far */
	uint64_t cpu_ns; /* CPU time that it had used */
	double ahead;	 /* seconds that its samples stand for and that it did not use */
	double usual;	 /* how much longer than asked for its periods must be in the long run */
};

/* It has used @cpu_ns and has @taken samples by now, which stand for @period_ns each: what its
 * periods are to be multiplied with, in parts of PACE_ONE. */
uint32_t pace_next(struct pace *p, uint64_t cpu_ns, uint32_t taken, uint64_t period_ns);

#endif
