/* SPDX-License-Identifier: MIT
 *
 * ticks - the CPU time that the targets use while they are recorded, in clock ticks. Pure.
 *
 * It is looked at now and then. A process that has ended since the last look tells what it has
 * used by its parent alone, which has all of it from when it was waited for, also what the
 * process had used before the recording and what was counted at looks before: that is owed.
 * Of one whose parent is no target, or does not wait, what it used since the last look is
 * missing; also of one whose parent has other children that are no targets, for what it is told of
 * these can't be told apart. Where no child is a target (--no-follow) nothing of that is looked at.
 */
#ifndef TICKS_H
#define TICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/idmap.h"
#include "sys/proc.h"

struct ticks_row {
	pid_t pid;
	bool unread;  /* it has not run since the last look, or can't be read: no @use */
	bool unknown; /* what it had used when it became known; the next look that reads it
		       * finds that */
	struct proc_use use;
	struct cpu_ticks owed; /* of what its children had used, this was counted, or is of before */
	struct cpu_ticks of_children; /* counted of what it was told of them */
};

struct ticks {
	struct ticks_row *row; /* the targets of the last look; ascending */
	size_t n;
	struct cpu_ticks used; /* since ticks_begin(), or since they were known */
	struct idmap strange;  /* processes with children that are no targets */
};

void ticks_deinit(struct ticks *t);

/* The recording begins: what the last look found is from before, and of those that it did not
 * read, what the next one finds. */
void ticks_begin(struct ticks *t);

/* What @pid has used by now, @use, is from before it was a target. NULL: it can't be looked at now,
 * and what the next look finds is. 0 or -ENOMEM. */
int ticks_known(struct ticks *t, pid_t pid, const struct proc_use *use);

/* @pid has, or had, a child that is no target: what it is told of its children does not count.
 * False: that was known. */
bool ticks_strange(struct ticks *t, pid_t pid);

/* A look at all @n targets, in @row, malloc'ed and owned from now on. Those that are not known were
 * born since. */
void ticks_look(struct ticks *t, struct ticks_row *row, size_t n);

#endif
