/* SPDX-License-Identifier: MIT
 *
 * others - the interpreters that a process has beside its first one, kept for the readers.
 *
 * Few processes have any. Lists are never freed before the recording ends, for readers and
 * forked targets borrow them; those that are alike are one. Control thread only.
 */
#ifndef OTHERS_H
#define OTHERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/note.h"

struct pyproc;
struct pystack_others;
struct target;

struct others {
	struct pystack_others **all;
	size_t n, cap;
};

void others_deinit(struct others *o);

/* @target is the process that was found as @p: it has what @p has beside its first one. What
 * is new is told. @enough: what has begun and is not proven yet never will be. */
void others_learn(struct others *o, struct target *target, const struct pyproc *p, bool enough,
		  const struct note *note);

/* True: there is one that was not proven when it was looked at. */
bool others_unproven(const struct target *target);

/* For who reads without a tracker: what @p has beside its first one; malloc'ed, or NULL:
 * nothing, or no memory. */
struct pystack_others *others_of(const struct pyproc *p, bool enough);

#endif
