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

/* Records of perf's own, from tools/perf/util/event.h. */
enum {
	PERF_HEAD_TRACING_DATA = 66, /* the format of tracepoints stands behind it */
	PERF_HEAD_BUILD_ID = 67,     /* an entry of the table of build-ids, in a stream */
	PERF_HEAD_AUXTRACE = 71,     /* what a processor traced stands behind it */
};

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
	struct perf_stretch records, pyelf; /* of what went down a pipe all but the first bytes */
	struct bytes build_ids; /* the table; malloc'ed */
	char release[65];	/* of the kernel (uname(2)); "": not told */
	uint64_t epoch_ns;	/* UNIX time when samples' clock was 0; 0: not told */
	uint64_t last_ns;	/* time of the last sample; 0: not told */
};

/* 0; -EBADMSG: it is no perf.data, or damaged; -E2BIG: more than SESSION_MAX_EVENTS; -ENOTSUP:
 * samples do not say whose they are or of which event; -EISDIR: its samples are in files beside
 * it; -ENOMEM; -EIO. What went down a pipe is read, too. To be emptied in any case. */
int perf_head_read(struct perf_head *h, FILE *in);
void perf_head_deinit(struct perf_head *h);

/* How many bytes that are no records stand behind the record at @h. */
uint64_t perf_head_behind(const struct perf_event_header *h);

/* The build-id that the table has for @path; empty: none. Before Linux 5.11 perf did not tell how
 * long it is: zeros stand behind it then. */
struct bytes perf_head_build_id(const struct perf_head *h, const char *path);

/* Add one that is a record: it stands before the maps of its file. 0 or -ENOMEM. */
int perf_head_add_build_id(struct perf_head *h, const struct perf_event_header *r);

/* The symbol file in the recording, malloc'ed. 0; -ENOENT: there is none; -EBADMSG: it is cut;
 * -ENOMEM; -EIO. */
int perf_head_pyelf(const struct perf_head *h, FILE *in, struct bytes *ret);

#endif
