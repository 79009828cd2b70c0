/* SPDX-License-Identifier: MIT
 *
 * preempt - what this capture has to know before it is picked.
 */
#ifndef PREEMPT_H
#define PREEMPT_H

#include "../cpus.h"
#include "../realtime.h"

/* Where the targets may run, and how urgent their threads are. No reader goes to a CPU that is
 * spared: what is sampled there is judged as by async. */
struct preempt_targets {
	struct cpus cpus, spared;
	struct realtime_use rt;
};

/* Before capture_pick(), once; without it nothing is known of targets. */
void preempt_prepare(const struct preempt_targets *t);

#endif
