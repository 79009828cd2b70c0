/* SPDX-License-Identifier: MIT
 *
 * perf_head - what stands around the records of a perf.data, read: events and features.
 *
 * The file may be anybody's: every byte is taken for hostile.
 */
#ifndef PERF_HEAD_H
#define PERF_HEAD_H

#include <stdio.h>

#include "base/idmap.h"
#include "sample/sample.h"

/* A stretch of the file, which has it whole. */
struct perf_stretch {
	uint64_t at, n;
};

struct perf_head {
	struct event_info events[SESSION_MAX_EVENTS];
	struct idmap ids; /* of samples, to the number of their event */
	size_t n_events;
	bool ours; /* as perf_file writes them: its records are in the order of time */
	bool wall; /* of --mode wall: periods are times */
	struct perf_stretch records, pyelf;
	struct bytes build_ids; /* the table; malloc'ed */
	char release[65];	/* of the kernel (uname(2)); "": not told */
};

/* 0; -EBADMSG: it is no perf.data, or damaged; -E2BIG: more than SESSION_MAX_EVENTS; -ENOTSUP:
 * samples do not say whose they are or of which event; -ESPIPE: a stream, not a file; -EISDIR:
 * its samples are in files beside it; -ENOMEM; -EIO. To be emptied in any case. */
int perf_head_read(struct perf_head *h, FILE *in);
void perf_head_deinit(struct perf_head *h);

/* The build-id that the table has for @path; empty: none. */
struct bytes perf_head_build_id(const struct perf_head *h, const char *path);

/* The symbol file in the recording, malloc'ed. 0; -ENOENT: there is none; -EBADMSG: it is cut;
 * -ENOMEM; -EIO. */
int perf_head_pyelf(const struct perf_head *h, FILE *in, struct bytes *ret);

#endif
