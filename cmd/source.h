/* SPDX-License-Identifier: MIT
 *
 * source - the source of Python functions, each line with its shares.
 */
#ifndef SOURCE_H
#define SOURCE_H

#include "tally.h"

/* The events that are shown, and of each its samples by line. */
struct source_events {
	const struct tally *t;
	size_t n;
	const struct event_info *events;
	bool folded;   /* by folded stacks: what does not begin with '/' there is no path */
	int64_t since; /* seconds of the epoch: a younger file may not be what ran; 0: unknown */
};

/* Print each Python function of @e that is called @name, or ends in ".@name". An exit code,
 * not EXIT_DONE after a sentence. */
int source_print(const struct source_events *e, const char *name);

#endif
