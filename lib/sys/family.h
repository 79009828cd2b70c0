/* SPDX-License-Identifier: MIT
 *
 * family - the descendants of a process, and who was born since they were listed.
 */
#ifndef FAMILY_H
#define FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All descendants of @pid (neither itself nor us and ours), parents before their children,
 * from /proc/PID/task/TID/children of each thread, or from each process's parent if there are
 * fewer of those; *@ret malloc'ed. 0, -ENOMEM or -ESRCH. */
int family_list(pid_t pid, pid_t **ret, size_t *n);

/* The children of @pid, behind the *@n of a malloc'ed list with room for *@cap. 0, -ENOMEM or
 * -ESRCH. */
int family_children(pid_t pid, pid_t **pids, size_t *n, size_t *cap);

/* CPU time in ns of @pid, of its descendants that run, and, to some clock ticks, of those that have
 * ended and were waited for. What can't be read counts as none. */
uint64_t family_cpu_ns(pid_t pid);

/* From now on the children of this process are buried as they end, and count in family_cpu_ns():
 * whom the kernel buries, as SIGCHLD is ignored, do not. A handler of that signal. */
void family_bury(void);

/* A process that was born, and whose child it is. */
struct family_birth {
	pid_t pid, parent;
};

/* The number that was given to a process or thread last; 0: not known. Numbers are given in
 * ascending order, until the highest one. */
pid_t family_newest(void);

/* The processes that were born after family_newest() said @since, and until it said @now; not
 * us and not ours; *@ret malloc'ed. False: that can't be told, or would take more than listing
 * does.
 */
bool family_born(pid_t since, pid_t now, struct family_birth **ret, size_t *n);

#endif
