/* SPDX-License-Identifier: MIT
 *
 * attach_int - what the files of attach share: attach.c (whose threads have events),
 * attach_open.c (the events of one thread on one CPU), attach_count.c (what they counted).
 */
#ifndef ATTACH_INT_H
#define ATTACH_INT_H

#include "attach/attach.h"

/* What a number of a thread's events on a CPU means. The numbers are those of the session's
 * events, then the witness's and the counter's, then that of the records besides samples where
 * it is apart, then those of the session's events again where they are sampled early. */
enum part {
	PART_NONE,
	PART_SAMPLES,
	PART_COUNT,
	PART_WITNESS,
	PART_INSTRUCTIONS,
	PART_SIDE
};

/* Number @i of @tid's events on a CPU; *@e is which of the session's events it is, if it is
 * one. */
enum part attach_part(const struct attach *a, pid_t tid, size_t i, size_t *e);

/* The first number of those that are sampled early. */
size_t attach_first_early(const struct attach *a);

/* Descriptors of a thread on all CPUs. */
size_t attach_per_thread(const struct attach *a);

/* Close @n of them; each becomes -1. */
void attach_close_fds(int *fds, size_t n);

/* Open all events of @tid on CPU number @slot into its @fds of all CPUs, or none. With @later
 * they don't start yet. 0, or as perf_event_explain(). */
int attach_open_on(const struct attach *a, pid_t tid, size_t slot, int *fds, bool later,
		   struct err *err);

/* Readers may restart a CPU's own events, @fds; with NULL they may not any more. */
void attach_publish_samplers(const struct attach *a, size_t slot, const int *fds);

/* Before @n events of thread @t from number @from on are closed: what they counted stays in
 * the books. */
void attach_keep_counts(struct attach *a, const struct attached *t, size_t from, size_t n);

#endif
