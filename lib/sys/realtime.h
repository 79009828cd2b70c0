/* SPDX-License-Identifier: MIT
 *
 * realtime - real-time scheduling: who uses it, and how much of it we get.
 */
#ifndef REALTIME_H
#define REALTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The most urgent of some threads. */
struct realtime_use {
	int priority;	/* highest of SCHED_FIFO and SCHED_RR, 0: none */
	pid_t tid;	/* whose it is */
	pid_t deadline; /* a SCHED_DEADLINE thread, which no other can preempt; 0: none */
};

void realtime_add_thread(struct realtime_use *u, pid_t tid);

/* The file with the real-time budget of a cgroup (RT_GROUP_SCHED): from the text of
 * /proc/PID/cgroup and of /proc/self/mountinfo. Pure. False: no such controller here. */
bool realtime_budget_file(const char *cgroup, const char *mountinfo, char *path, size_t size);

/* Our own cgroup's budget in us and the file that holds it; -1: it has none of its own. */
long realtime_budget(char *path, size_t size);

/* Make the calling thread SCHED_OTHER or SCHED_BATCH (@policy) with slices of 0.1 ms: from
 * Linux 6.12 on one that wakes up is before those with longer ones. No right is needed. One
 * that has another policy keeps it. */
void realtime_brief(int policy);

#endif
