/* SPDX-License-Identifier: MIT
 *
 * ours - which processes are targets or their children, where events see all that a CPU
 * runs. Any thread.
 */
#ifndef OURS_H
#define OURS_H

#include <stdbool.h>
#include <sys/types.h>

struct ours;

/* For all numbers that the kernel gives, or as many as @like is for, if that is not NULL. NULL:
 * no memory. */
struct ours *ours_create(const struct ours *like);
void ours_destroy(struct ours *o);

/* With @o NULL all are, and stay so: events on threads see nothing else. */
bool ours_has(const struct ours *o, pid_t pid);
void ours_set(struct ours *o, pid_t pid, bool ours);

#endif
