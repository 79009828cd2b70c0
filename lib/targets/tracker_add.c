/* SPDX-License-Identifier: MIT
 *
 * tracker_add - how a process becomes a target.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "sys/proc.h"
#include "targets/tracker_int.h"

void tracker_doubt(struct target *target)
{
	target->doubt_ns = now_ns() + TRACKER_DOUBT_NS;
	target->doubt_pause_ns = TRACKER_DOUBT_NS;
}

void tracker_open(struct tracker *t, struct target *target)
{
	targets_open(&t->targets, target);
	if (target->user == PROC_NOBODY)
		tracker_user(target);
	tracker_doubt(target);
}

struct target *tracker_create(struct tracker *t, pid_t pid, uint64_t begun_ns)
{
	struct target *target = target_create(pid);

	if (target) {
		target->begun_ns = begun_ns;
		target->py.pid = pid;
		target->py.program = t->n_programs += PYSTACK_SEVERAL;
	}
	return target;
}

struct target *tracker_add(struct tracker *t, pid_t pid, uint64_t begun_ns)
{
	struct target *target = tracker_create(t, pid, begun_ns);

	if (!target)
		return NULL;
	tracker_consider(t, target);
	if (targets_publish(&t->targets, &target, 1) == 0) {
		tracker_open(t, target);
		return target;
	}
	free(target);
	return NULL;
}
