/* SPDX-License-Identifier: MIT
 *
 * perf_layout - records of any event that perf can open, taken apart by its attr. Pure.
 *
 * Every byte may be hostile. perf_decode knows those that we ask for ourselves.
 */
#ifndef PERF_LAYOUT_H
#define PERF_LAYOUT_H

#include "sample/sample.h"

enum { PERF_LAYOUT_CALL = 24 };

/* A PERF_RECORD_SAMPLE; views point into the record. What it has not is 0. */
struct perf_taken {
	uint64_t ip, time, addr, period;
	pid_t pid, tid;
	uint32_t cpu;
	const unsigned char *chain; /* @n_chain addresses, markers included */
	uint64_t n_chain;
	const unsigned char *regs; /* user registers, a word each of attr.sample_regs_user */
	struct bytes stack;	   /* of the user; may be empty */
	/* @n_calls that have not returned, the last first, as the processor kept them: each has
	 * PERF_LAYOUT_CALL bytes, of which the first word is where the call is. */
	const unsigned char *calls;
	uint64_t n_calls;
	const unsigned char *group; /* @n_group times a value, the number of its event, and more */
	uint64_t n_group, group_bytes; /* of each */
};

/* The number that tells a sample's event, which stands at the same place in all events'. 0;
 * -ENOENT: there is none; -EBADMSG. */
int perf_layout_id(const struct perf_event_attr *a, const struct perf_event_header *h,
		   uint64_t *id);

/* 0 or -EBADMSG. */
int perf_layout_sample(const struct perf_event_attr *a, const struct perf_event_header *h,
		       struct perf_taken *ret);

/* Any other record that perf_decode_side() knows. 0; -ENOENT: not known; -EBADMSG. */
int perf_layout_side(const struct perf_event_attr *a, const struct perf_event_header *h,
		     struct side *ret);

/* What the program calls a main thread, in a record of a name (COMM) of ours; NULL: no such
 * name. */
const char *perf_layout_title(const struct perf_event_attr *a,
			      const struct perf_event_header *h);

/* When it was, ns; 0: it does not say. */
uint64_t perf_layout_time(const struct perf_event_attr *a, const struct perf_event_header *h);

#endif
