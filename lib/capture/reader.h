/* SPDX-License-Identifier: MIT
 *
 * reader - one thread per CPU: takes samples from the CPU's ring, reads the
 * Python frames while the sampled thread is held, judges, queues.
 *
 * After reader_start() a reader allocates nothing, opens nothing and locks
 * nothing. All it meets that is not a sample it passes on. A reader whose read of
 * a target hangs is abandoned where it stands and replaced (reader_stuck()).
 */
#ifndef READER_H
#define READER_H

#include "watch/watch.h"

struct reader;

/* Start the slot's reader; in place of one that was given up it goes on where that stands in the
 * ring, and the slot is not bare any more. 0 or -errno. */
int reader_start(struct reader_config *c, struct cpu_slot *slot);

/* Bytes of memory that a reader takes. */
size_t reader_bytes(const struct reader_config *c);

/* Ask the readers of @n slots to drain their rings and end; then wait for all at once. One whose
 * read hangs is abandoned, and the samples that wait behind that are torn: then its slot->stuck is
 * not empty, and what it may still touch must stay. */
void readers_stop(struct cpu_slot *slots, size_t n);

/* Have it look into its ring soon, also for what does not wake it. Call until it did. */
void reader_nudge(struct cpu_slot *slot);

/* Called now and then: a reader sleeps until a sample comes once it has found its ring empty;
 * if there are records now it is nudged. */
void reader_wake(struct cpu_slot *slot);

/* The watchdog's look, called at intervals: has the reader been inside the same
 * read since the last call? Then it is abandoned and the result is the process whose
 * memory hangs; the slot waits for reader_start(). Else 0. */
pid_t reader_stuck(struct cpu_slot *slot);

/* A reader that was abandoned has come back: the process whose memory no longer hangs. Call
 * until it is 0. */
pid_t reader_returned(struct cpu_slot *slot);

#endif
