/* SPDX-License-Identifier: MIT
 *
 * inbox - what the readers queued, taken out of their queues in time.
 *
 * Whoever works on it (the resolver) may be busy for long, with a file of a million unwind
 * rules; a queue that is half full meanwhile is emptied by a thread that does nothing else.
 */
#ifndef INBOX_H
#define INBOX_H

#include <stdbool.h>

#include "base/queue.h"
#include "sample/wire.h"

/* A queued record. @data is aligned for any struct. */
struct inbox_item {
	uint32_t type, n;
	unsigned char *data;
};

/* What is kept at most, taken or not, until inbox_free(): with each CPU's share. First samples
 * do without the bytes of their native stacks. Then samples, and what a tape wants, go:
 * without maps and code those that come later are of no use either. Without the code of its
 * frames a sample is torn. Maps, and whatever else a process can cause, leave a quarter of the
 * samples' part to samples and code. */
enum {
	INBOX_CPU_BYTES = 3 << 20, /* 999 Hz with native stacks for 0.3 s */
	INBOX_STACK_BYTES = 64 << 20,
	INBOX_SAMPLE_BYTES = INBOX_STACK_BYTES + (32 << 20),
	INBOX_BYTES = INBOX_SAMPLE_BYTES + (96 << 20),
};

struct inbox;
struct stats;

/* @queues: borrowed, and told where to hurry; nobody writes to them yet, and nobody any more
 * when it is destroyed. Room for those that are added. @stats: where native stacks that are
 * cut are counted, borrowed. NULL: no memory or descriptor.
 */
struct inbox *inbox_create(struct queue **queues, size_t n, struct stats *stats);
int inbox_start(struct inbox *in); /* its thread, if there is none; 0 or -errno */
void inbox_destroy(struct inbox *in);
/* From now on it keeps about @bytes of samples, and half as much more of other records. */
void inbox_limit(struct inbox *in, size_t bytes);
void inbox_add(struct inbox *in, struct queue *q); /* one queue more; control thread */

/* Empty the queues and hand out all that came since the last call: of each queue in order.
 * *@items is malloc'ed, NULL when there is nothing. */
void inbox_take(struct inbox *in, struct inbox_item **items, size_t *n);

/* Done with what was handed out. */
void inbox_free(struct inbox *in, const struct inbox_item *it);

/* A record of @type is dropped: count it as a sample, or among all others. Where it is the end of a
 * wait it is neither: its sample tells (waiting_misses()). */
static inline void inbox_count_drop(uint32_t type, uint64_t *samples, uint64_t *others)
{
	*samples += type == Q_SAMPLE;
	*others += type != Q_SAMPLE && type != Q_WAIT;
}

/* How many found no room since the last call of this: samples, and records of other types
 * (inbox_count_drop()). */
void inbox_dropped(struct inbox *in, uint64_t *samples, uint64_t *others);

#endif
