/* SPDX-License-Identifier: MIT
 *
 * preempt - what this capture has to know before it is picked.
 */
#ifndef PREEMPT_H
#define PREEMPT_H

#include "sys/cpus.h"
#include "sys/realtime.h"

/* Where the targets may run, and how urgent their threads are. No reader goes to a CPU that is
 * spared: what is sampled there is judged as by async. */
struct preempt_targets {
	struct cpus cpus, spared;
	struct realtime_use rt;
};

/* A recording's: @targets are filled in before capture_pick(), which finds out the rest; then
 * its readers share it, and only read. */
struct preempt_plan {
	struct preempt_targets targets; /* empty: nothing is known of them */
	int priority;			/* that readers get; 0: none */
	struct cpus refused;		/* where they may not run */
};

#endif
