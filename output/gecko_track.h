/* SPDX-License-Identifier: MIT
 *
 * gecko_track - one thread of a Firefox profile: its samples, its markers, and tables of what
 * stands in them.
 */
#ifndef OUTPUT_GECKO_TRACK_H
#define OUTPUT_GECKO_TRACK_H

#include <stdio.h>

#include "gecko_order.h"
#include "sink.h"

/* What one thread's tables hold: numbers of the tree's, in the order of the tables. */
struct gecko_table {
	struct buf ids;
	struct idmap local; /* a number of the tree's to its row */
};

/* A track that is being written. */
struct gecko_track {
	const uint32_t *of_row; /* how many of a row's samples are moments */
	const struct tree *t;
	const struct session *session;
	FILE *out;
	const struct gecko_order *order;
	size_t first, n;		    /* the moments of the track in it, in time order */
	uint32_t *done;			    /* by row: moments that were given their weight */
	const uint64_t *weights;	    /* of each moment its own; NULL: they have none */
	const uint64_t *rest;		    /* by row: what it counts beyond those */
	uint32_t event[SESSION_MAX_EVENTS]; /* their names, in the tree's strings */
	struct buf nodes;   /* uint32_t each: the tree's, callers before callees */
	uint32_t *node_row; /* by the tree's node: its place there + 1; 0: it is not there */
	struct gecko_table frames, funcs, strings;
};

/* Write the track, with the samples from @marks to @to of the order as markers. 0 or -ENOMEM.
 */
int gecko_track_put(struct gecko_track *k, size_t marks, size_t to);

#endif
