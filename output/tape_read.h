/* SPDX-License-Identifier: MIT
 *
 * tape_read - what outputs got when a tape was recorded, for a sink.
 *
 * The file may be anybody's. One user thread.
 */
#ifndef TAPE_READ_H
#define TAPE_READ_H

#include <stdio.h>

#include "base/err.h"
#include "sample/sink.h"

struct tape_reader;

/* @in: borrowed, at its beginning. @path: its name, for sentences; borrowed. 0, or -errno with
 * a sentence: also of a tape that was written before there were names on tapes. */
int tape_reader_open(struct tape_reader **ret, FILE *in, const char *path, struct err *err);
void tape_reader_close(struct tape_reader *r);

/* Events, SESSION_LINES, and what a perf.data needs (session.told, shown), which is empty of an
 * older pysampled's tape: that has no addresses. What the caller wants besides, it sets. */
struct session *tape_reader_session(struct tape_reader *r);

/* Feed @s all samples and what befell threads, once; maps, too, where it needs build-ids. Then
 * session.since is no later than the last sample. 0; the sink's error; -EBADMSG: the tape is damaged
 * after what @s got; -ENOMEM: also where it names more than any recording does; -EIO. */
int tape_reader_run(struct tape_reader *r, struct sink *s);

/* Afterwards: the tape ends before its recording did. */
bool tape_reader_is_cut(const struct tape_reader *r);

#endif
