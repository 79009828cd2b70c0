/* SPDX-License-Identifier: MIT
 *
 * perf_layout - fields in the order of perf_event_open(2).
 */
#include "perf_layout.h"

#include <errno.h>

#include "sample/perf_cursor.inc.h"
#include "sample/perf_decode.h"

enum {
	RECORD_USER_TYPE = 64,	   /* from here on records are perf's, not the kernel's */
	BRANCH_COUNTERS = 1 << 19, /* PERF_SAMPLE_BRANCH_COUNTERS, 6.8 */
};

/* The next word if the records have @field. */
static uint64_t take_if(struct perf_cursor *r, const struct perf_event_attr *a, uint64_t field)
{
	return a->sample_type & field ? perf_take_u64(r) : 0;
}

int perf_layout_id(const struct perf_event_attr *a, const struct perf_event_header *h,
		   uint64_t *id)
{
	static const uint64_t before[] = { PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
					   PERF_SAMPLE_ADDR };
	struct perf_cursor r = perf_body(h);

	if (!(a->sample_type & (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ID)))
		return -ENOENT;
	if (!(a->sample_type & PERF_SAMPLE_IDENTIFIER))
		for (size_t i = 0; i < ARRAY_SIZE(before); i++)
			take_if(&r, a, before[i]);
	*id = perf_take_u64(&r);
	return r.bad ? -EBADMSG : 0;
}

/* What a sample says of counters. */
static void take_reads(struct perf_cursor *r, uint64_t format, struct perf_taken *ret)
{
	const uint64_t told = PERF_FORMAT_GROUP | PERF_FORMAT_ID;
	uint64_t n = 1, words = 1,
		 times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
			 !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);

	words += !!(format & PERF_FORMAT_ID);
	words += !!(format & (1 << 4)); /* PERF_FORMAT_LOST, 6.0 */
	if (format & PERF_FORMAT_GROUP)
		n = perf_take_u64(r);
	perf_take(r, 8 * times);
	if (n > r->left / 8) {
		r->bad = true;
		return;
	}
	ret->group = perf_take(r, 8 * words * n);
	ret->n_group = ret->group && (format & told) == told ? n : 0;
	ret->group_bytes = 8 * words;
}

static void pass_raw(struct perf_cursor *r)
{
	const unsigned char *n = perf_take(r, 4);

	if (n)
		perf_take(r, load_u32(n));
}

/* Branches that were taken; of --call-graph lbr they are calls. */
static void take_branches(struct perf_cursor *r, uint64_t type, struct perf_taken *ret)
{
	uint64_t n = perf_take_u64(r);
	const unsigned char *at;

	if (type & PERF_SAMPLE_BRANCH_HW_INDEX)
		perf_take(r, 8);
	if (n > r->left / PERF_LAYOUT_CALL) {
		r->bad = true;
		return;
	}
	at = perf_take(r, PERF_LAYOUT_CALL * n);
	if (type & BRANCH_COUNTERS)
		perf_take(r, 8 * n);
	if (type & PERF_SAMPLE_BRANCH_CALL_STACK) {
		ret->calls = at;
		ret->n_calls = at ? n : 0;
	}
}

static void take_chain(struct perf_cursor *r, struct perf_taken *ret)
{
	ret->n_chain = perf_take_u64(r);
	if (ret->n_chain > r->left / 8)
		r->bad = true;
	else
		ret->chain = perf_take(r, 8 * ret->n_chain);
}

static void take_stack(struct perf_cursor *r, struct perf_taken *ret)
{
	uint64_t room = perf_take_u64(r), n;
	const unsigned char *p = room ? perf_take(r, room) : NULL;

	if (!p)
		return;
	n = perf_take_u64(r);
	if (n <= room)
		ret->stack = (struct bytes){ p, n };
	else
		r->bad = true;
}

/* What stands behind the stack that the kernel walked: what ours is made of. */
static void take_user(struct perf_cursor *r, const struct perf_event_attr *a,
		      struct perf_taken *ret)
{
	if (a->sample_type & PERF_SAMPLE_RAW)
		pass_raw(r);
	if (a->sample_type & PERF_SAMPLE_BRANCH_STACK)
		take_branches(r, a->branch_sample_type, ret);
	if (a->sample_type & PERF_SAMPLE_REGS_USER &&
	    perf_take_u64(r) != PERF_SAMPLE_REGS_ABI_NONE)
		ret->regs =
			perf_take(r, 8 * (uint64_t)__builtin_popcountll(a->sample_regs_user));
	if (a->sample_type & PERF_SAMPLE_STACK_USER)
		take_stack(r, ret);
}

int perf_layout_sample(const struct perf_event_attr *a, const struct perf_event_header *h,
		       struct perf_taken *ret)
{
	struct perf_cursor r = perf_body(h);
	uint64_t ids;

	*ret = (struct perf_taken){ .period = a->freq ? 1 : a->sample_period };
	take_if(&r, a, PERF_SAMPLE_IDENTIFIER);
	ret->ip = take_if(&r, a, PERF_SAMPLE_IP);
	ids = take_if(&r, a, PERF_SAMPLE_TID);
	ret->pid = (pid_t)ids;
	ret->tid = (pid_t)(ids >> 32);
	ret->time = take_if(&r, a, PERF_SAMPLE_TIME);
	ret->addr = take_if(&r, a, PERF_SAMPLE_ADDR);
	take_if(&r, a, PERF_SAMPLE_ID);
	take_if(&r, a, PERF_SAMPLE_STREAM_ID);
	ret->cpu = (uint32_t)take_if(&r, a, PERF_SAMPLE_CPU);
	if (a->sample_type & PERF_SAMPLE_PERIOD)
		ret->period = perf_take_u64(&r);
	if (a->sample_type & PERF_SAMPLE_READ)
		take_reads(&r, a->read_format, ret);
	if (a->sample_type & PERF_SAMPLE_CALLCHAIN)
		take_chain(&r, ret);
	take_user(&r, a, ret);
	return r.bad ? -EBADMSG : 0;
}

/* Those that sample_id_all puts behind other records, in their order; the first two ids are
 * one word. */
static const uint64_t behind[] = { PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
				   PERF_SAMPLE_ID,  PERF_SAMPLE_STREAM_ID,
				   PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER };

static size_t behind_bytes(const struct perf_event_attr *a)
{
	size_t n = 0;

	for (size_t i = 0; a->sample_id_all && i < ARRAY_SIZE(behind); i++)
		n += a->sample_type & behind[i] ? 8 : 0;
	return n;
}

uint64_t perf_layout_time(const struct perf_event_attr *a, const struct perf_event_header *h)
{
	struct perf_cursor r = perf_body(h);
	size_t n = behind_bytes(a);

	if (!(a->sample_type & PERF_SAMPLE_TIME) || h->type >= RECORD_USER_TYPE)
		return 0;
	if (h->type == PERF_RECORD_SAMPLE) {
		take_if(&r, a, PERF_SAMPLE_IDENTIFIER);
		take_if(&r, a, PERF_SAMPLE_IP);
	} else {
		if (!n || n > r.left)
			return 0;
		perf_take(&r, r.left - n);
	}
	take_if(&r, a, PERF_SAMPLE_TID);
	return perf_take_u64(&r);
}

int perf_layout_side(const struct perf_event_attr *a, const struct perf_event_header *h,
		     struct side *ret)
{
	int r = perf_decode_side_before(h, behind_bytes(a), ret);

	if (!r && ret->kind != SIDE_FORK && ret->kind != SIDE_EXIT)
		ret->time = perf_layout_time(a, h);
	return r;
}

const char *perf_layout_title(const struct perf_event_attr *a,
			      const struct perf_event_header *h)
{
	const char *name = (const char *)(h + 1) + 8; /* behind pid and tid */
	size_t end = sizeof(*h) + 8 + behind_bytes(a), left, n;

	if (h->size <= end)
		return NULL;
	left = h->size - end;
	n = strnlen(name, left) + 1;
	return n < left && name[n] && memchr(name + n, '\0', left - n) ? name + n : NULL;
}
