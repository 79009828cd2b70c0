/* SPDX-License-Identifier: MIT
 *
 * tracefs - the kernel's tracepoints: their numbers, and what there is.
 * Documentation/trace/events.rst. Nothing is ever written there.
 */
#ifndef TRACEFS_H
#define TRACEFS_H

#include "events/perf_names.h"

/* The folder "events" of tracefs, where it usually is mounted. NULL with the reason: -ENOENT
 * it is mounted nowhere, -EACCES it is not for us. */
const char *tracefs_events(struct err *err);

/* Complete @s, whose name is "SYSTEM:NAME": its number from @events. 0; -ENOENT with the
 * nearest that there is; -EACCES. */
int tracefs_resolve(const char *events, struct perf_spec *s, struct err *err);

/* Call @each for each "SYSTEM:NAME" in @events that @word is a part of. */
void tracefs_each(const char *events, const char *word,
		  void (*each)(void *arg, const char *name), void *arg);

#endif
