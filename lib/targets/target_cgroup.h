/* SPDX-License-Identifier: MIT
 *
 * target_cgroup - do the targets have a cgroup to themselves, whose events the kernel can
 * count; and is one frozen?
 *
 * An event of a cgroup on a CPU counts while that CPU runs a task of it, across tasks, and
 * costs nobody else anything (PERF_FLAG_PID_CGROUP). Services and containers have one.
 */
#ifndef TARGET_CGROUP_H
#define TARGET_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The folder of the one cgroup in which all of @pids (n, ascending) are, open, if nobody else
 * is in it or below: of the perf_event hierarchy, or of cgroup v2 where there is none.
 * -ENOENT: there is no such cgroup; or another -errno. */
int target_cgroup_open(const pid_t *pids, size_t n);

/* Is @pid's cgroup frozen, or one above it (a container that is paused)? False where that is
 * not known. */
bool target_cgroup_is_frozen(pid_t pid);

#endif
