/* SPDX-License-Identifier: MIT
 *
 * perf_order - records of several CPUs in the order of their times.
 *
 * perf writes what it finds in each CPU's ring, one ring after the other; a FINISHED_ROUND
 * record says that nothing older than what stood before the last one will come.
 */
#ifndef PERF_ORDER_H
#define PERF_ORDER_H

#include <linux/perf_event.h>
#include <stdbool.h>

#include "buf.h"

struct perf_order {
	struct buf bytes;      /* records that wait */
	struct buf marks;      /* where each is, and when it was */
	uint64_t newest, safe; /* of those that came; what is older can be told */
};

/* Who gets records. 0 goes on, all else is returned. */
typedef int perf_order_fn(void *arg, const struct perf_event_header *h);

void perf_order_deinit(struct perf_order *o);

/* Keep a copy of the record at @h, of @time; when too many wait, tell the older half. */
int perf_order_put(struct perf_order *o, const struct perf_event_header *h, uint64_t time,
		   perf_order_fn *tell, void *arg);

/* A round has ended; or, @all, the file. */
int perf_order_round(struct perf_order *o, bool all, perf_order_fn *tell, void *arg);

#endif
