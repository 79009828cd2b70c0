/* SPDX-License-Identifier: MIT
 *
 * oldend - what a reader did not read of a deep stack while it held the thread, read as soon
 * as the thread is released.
 *
 * One thread of normal priority. Of samples that a reader cut at READER_FRAMES it reads the
 * older frames and joins them, if the frame where they meet still stands; such a sample is
 * late. Else it stays as the reader read it, cut. A thread whose read hangs is abandoned and
 * replaced, as a reader is (guard.h).
 */
#ifndef OLDEND_H
#define OLDEND_H

#include "reader.h"

struct oldend;

/* For @c, whose @oldend_kick it fills in; both must outlive it. NULL: out of memory. */
struct oldend *oldend_create(struct reader_config *c);

/* NULL is none. Nothing must be stuck. */
void oldend_destroy(struct oldend *o);

/* Its samples and their codes, for the resolver. */
struct queue *oldend_queue(struct oldend *o);

/* Start its thread. 0 or -errno. */
int oldend_start(struct oldend *o);

/* After the readers have ended: everything they queued is passed on, then the thread ends, or
 * is abandoned. NULL is none. */
void oldend_stop(struct oldend *o);

/* Any thread: is it inside a read? */
bool oldend_reads(const struct oldend *o);

/* As reader_stuck(), after which oldend_start() is due, and reader_returned(). */
pid_t oldend_stuck(struct oldend *o);
pid_t oldend_returned(struct oldend *o);

/* Are there abandoned threads that may come back? */
bool oldend_haunted(const struct oldend *o);

#endif
