/* SPDX-License-Identifier: MIT
 *
 * tape_target - what is known of a process, as a chunk of a tape and back.
 */
#ifndef TAPE_TARGET_H
#define TAPE_TARGET_H

#include "base/queue.h"
#include "base/stats.h"
#include "sample/tape.h"
#include "targets/target.h"

/* Queue a chunk for the sink, as Q_TAPE. Never waits: what has no room is counted as
 * side_lost. */
void tape_queue(struct queue *q, struct stats *stats, enum tape_type type,
		const struct tape_head *h, struct bytes body);

/* Queue what the control thread knows of @t now. */
void tape_queue_target(const struct target *t, struct queue *q, struct stats *stats);

/* Append @t, as it is at @time; with its @code, which is the control thread's. */
void tape_put_target(struct tape_head *h, const struct target *t, bool code, uint64_t time);

/* That the table of targets has none with @pid at @time. */
void tape_put_no_target(struct tape_head *h, pid_t pid, uint64_t time);

/* Pure: set all that @chunk says of a target; its walk layout, too. @t is new, zeroed, or
 * holds an earlier chunk's. 0, or -EBADMSG: no layout that can be walked. */
int tape_get_target(struct bytes chunk, struct target *t);

#endif
