/* SPDX-License-Identifier: MIT
 *
 * perf_read - a perf.data, ours or perf's, back into samples with names, for a sink.
 *
 * Samples come in the order of time; perf_frames says which names they have. The file may be
 * anybody's. One user thread.
 */
#ifndef PERF_READ_H
#define PERF_READ_H

#include <stdio.h>

#include "base/err.h"
#include "sample/sink.h"

struct perf_reader;

/* @in: the file, which can be sought in; borrowed. @path: its name, for sentences and to find
 * the symbol file beside it; borrowed. 0, or -errno with a sentence. */
int perf_reader_open(struct perf_reader **ret, FILE *in, const char *path, struct err *err);
void perf_reader_close(struct perf_reader *r);

/* Events, and SESSION_LINES: what the caller wants besides, it sets. */
struct session *perf_reader_session(struct perf_reader *r);

/* Feed @s all records, once. Then session.since is no later than the last sample, as far as its
 * time is known: the file may be a copy. 0; the sink's error; -EBADMSG: the records are damaged
 * after those that @s got; -ENOMEM; -EIO. */
int perf_reader_run(struct perf_reader *r, struct sink *s);

/* What is missing in what @s got, as a sentence; NULL: nothing. */
const char *perf_reader_missing(struct perf_reader *r);

#endif
