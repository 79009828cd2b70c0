/* SPDX-License-Identifier: MIT
 *
 * waits - the time that threads are off their CPUs (--mode wall): a thread that reads, at
 * random moments, the stacks of those that sleep.
 *
 * Readers pass on what their rings tell of switches. A stack is read once in a wait, at
 * leisure, for a thread that sleeps does not change it; that it slept until the end of the
 * read is proven as for a sample. The wait is one sample, given when it is over.
 */
#ifndef WAITS_H
#define WAITS_H

#include "watch/watch.h"

struct waits;
struct wait_post;

/* Readers may tell from now on. NULL: no memory. Before readers start. */
struct waits *waits_create(struct reader_config *c);
void waits_destroy(struct waits *w);

/* Where readers tell of switches, for struct reader_config. */
struct wait_post *waits_post(struct waits *w);

/* Where its samples are queued, and its messages to the control thread. */
struct queue *waits_queue(struct waits *w);
struct queue *waits_messages(struct waits *w);

/* After the readers: begin with ticks at a mean distance of @period_ns, 1 ms at least, and
 * waits that count from @start_ns on. 0 or -errno. */
int waits_start(struct waits *w, uint64_t period_ns, uint64_t start_ns);

/* Control thread: @pid is a target from now on; those of its threads that sleep do so since now
 * at the latest. @w may be NULL. */
void waits_joined(struct waits *w, pid_t pid);

/* Control thread: the same of these threads of a target alone, which have events from now on. */
void waits_threads(struct waits *w, pid_t pid, const pid_t *tids, size_t n);

/* All waits that had ended by then are queued. Any thread. */
uint64_t waits_told_ns(const struct waits *w);

/* Control thread, at intervals: if a read hangs, the process whose memory it is, and another
 * thread goes on. Else 0. */
pid_t waits_watch(struct waits *w);

/* A read that hung has ended: the process whose memory it is. Call until it is 0. */
pid_t waits_returned(struct waits *w);

/* True: no other thread could go on. Then each waits_watch() tries it again, and waits that end until
 * then are unread. */
bool waits_bare(const struct waits *w);

/* Does a thread hang in a read? It may come back at any time. */
bool waits_stuck(const struct waits *w);

/* Before the readers end: waits that go on end now. */
void waits_stop(struct waits *w);

#endif
