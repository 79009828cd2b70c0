/* SPDX-License-Identifier: MIT
 *
 * counts - how far the events of a group have counted since the thread's last sample. One
 * user thread.
 */
#ifndef COUNTS_H
#define COUNTS_H

#include <stdint.h>
#include <sys/types.h>

struct counts;

/* What a sample holds of one event of its group: read_format of perf_event_open(2). */
struct counts_read {
	uint64_t id, value;
	uint64_t event; /* of the session; any other number: none of it */
};

struct counts *counts_create(void);
void counts_destroy(struct counts *c);

/* Events since the last call for this id and thread, or since the event was opened. Inherited
 * events have their parent's id and counts of their own. Not scaled where the group shared the
 * counters with others: it is enabled, but doesn't run, also while the thread is on another
 * CPU than the event. */
uint64_t counts_since(struct counts *c, pid_t tid, const struct counts_read *now);

/* @tid has ended. What it counted is forgotten, maybe when others have ended as well. */
void counts_forget(struct counts *c, pid_t tid);

#endif
