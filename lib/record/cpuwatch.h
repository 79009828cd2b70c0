/* SPDX-License-Identifier: MIT
 *
 * cpuwatch - which CPUs are watched: those where the targets may run when the recording
 * begins, and each that they may run on later (it came online, an affinity or a cpuset
 * grew).
 *
 * A sample is exact only where its thread could not run on a CPU that has no events for
 * it (capture/hold.c); so what is not watched yet makes samples late, never wrong.
 * Control thread only.
 */
#ifndef CPUWATCH_H
#define CPUWATCH_H

#include "attach/attach.h"
#include "base/note.h"
#include "stacks/resolver.h"
#include "capture/slots.h"

struct cpuwatch {
	struct reader_config *config; /* all borrowed */
	struct attach *attach;
	struct resolver *resolver;
	const pid_t *pids; /* the processes that the user named */
	size_t n_pids;
	const pid_t *tids; /* if n_tids: of those processes these threads alone */
	size_t n_tids;
	bool follow;
	bool wide; /* the events see all of a CPU, not threads of it */
	struct note note;
	uint64_t next_ns, whole_ns; /* next look; last one after which all was watched */
	struct cpus told;	    /* about these something was said */
};

/* The threads that are recorded, of the targets that are known by now and have not ended, and
 * how many those are; *@ret malloc'ed, also after a failure. 0 or -ENOMEM. */
int cpuwatch_threads(const struct cpuwatch *w, pid_t **ret, size_t *n, size_t *processes);

/* Where those threads may run now. All that are online where that can't be told. 0 or
 * -errno. */
int cpuwatch_reach(const pid_t *tids, size_t n, struct cpus *ret);

/* All CPUs of the beginning are watched, as of @now. */
void cpuwatch_begin(struct cpuwatch *w, uint64_t now);

/* Called at any time: once a second, or as seldom as takes 1 % of a CPU, it looks whether
 * there is a CPU more to watch, or one whose events are gone, and watches it. */
void cpuwatch_look(struct cpuwatch *w);

#endif
