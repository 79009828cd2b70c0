/* SPDX-License-Identifier: MIT
 *
 * perf_layout - fields in the order of perf_event_open(2).
 */
#include "perf_layout.h"

#include <errno.h>

#include "sample/perf_decode.h"

enum { RECORD_USER_TYPE = 64 /* from here on records are perf's, not the kernel's */ };

/* What is left of a record. */
struct rest {
	const unsigned char *p;
	size_t n;
	bool bad;
};

static const unsigned char *take(struct rest *r, uint64_t n)
{
	const unsigned char *p = r->p;

	if (n > r->n) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	r->n -= n;
	return p;
}

static uint64_t take_u64(struct rest *r)
{
	const unsigned char *p = take(r, 8);

	return p ? load_u64(p) : 0;
}

/* The next word if the records have @field. */
static uint64_t take_if(struct rest *r, const struct perf_event_attr *a, uint64_t field)
{
	return a->sample_type & field ? take_u64(r) : 0;
}

static struct rest body_of(const struct perf_event_header *h)
{
	return (struct rest){ (const unsigned char *)(h + 1),
			      h->size < sizeof(*h) ? 0 : h->size - sizeof(*h), false };
}

int perf_layout_id(const struct perf_event_attr *a, const struct perf_event_header *h,
		   uint64_t *id)
{
	static const uint64_t before[] = { PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
					   PERF_SAMPLE_ADDR };
	struct rest r = body_of(h);

	if (!(a->sample_type & (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ID)))
		return -ENOENT;
	if (!(a->sample_type & PERF_SAMPLE_IDENTIFIER))
		for (size_t i = 0; i < ARRAY_SIZE(before); i++)
			take_if(&r, a, before[i]);
	*id = take_u64(&r);
	return r.bad ? -EBADMSG : 0;
}

/* What a sample says of counters. */
static void pass_reads(struct rest *r, uint64_t format)
{
	uint64_t n = 1, words = 1,
		 times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
			 !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);

	words += !!(format & PERF_FORMAT_ID);
	words += !!(format & (1 << 4)); /* PERF_FORMAT_LOST, 6.0 */
	if (format & PERF_FORMAT_GROUP)
		n = take_u64(r);
	take(r, 8 * times);
	if (n > r->n / 8)
		r->bad = true;
	else
		take(r, 8 * words * n);
}

static void pass_raw(struct rest *r)
{
	const unsigned char *n = take(r, 4);

	if (n)
		take(r, load_u32(n));
}

static void pass_branches(struct rest *r, uint64_t type)
{
	uint64_t n = take_u64(r);

	if (type & PERF_SAMPLE_BRANCH_HW_INDEX)
		take(r, 8);
	if (n > r->n / 24)
		r->bad = true;
	else
		take(r, 24 * n);
}

static void take_chain(struct rest *r, struct perf_taken *ret)
{
	ret->n_chain = take_u64(r);
	if (ret->n_chain > r->n / 8)
		r->bad = true;
	else
		ret->chain = take(r, 8 * ret->n_chain);
}

static void take_stack(struct rest *r, struct perf_taken *ret)
{
	uint64_t room = take_u64(r), n;
	const unsigned char *p = room ? take(r, room) : NULL;

	if (!p)
		return;
	n = take_u64(r);
	if (n <= room)
		ret->stack = (struct bytes){ p, n };
	else
		r->bad = true;
}

/* What stands behind the stack that the kernel walked: what ours is made of. */
static void take_user(struct rest *r, const struct perf_event_attr *a, struct perf_taken *ret)
{
	if (a->sample_type & PERF_SAMPLE_RAW)
		pass_raw(r);
	if (a->sample_type & PERF_SAMPLE_BRANCH_STACK)
		pass_branches(r, a->branch_sample_type);
	if (a->sample_type & PERF_SAMPLE_REGS_USER && take_u64(r) != PERF_SAMPLE_REGS_ABI_NONE)
		ret->regs = take(r, 8 * (uint64_t)__builtin_popcountll(a->sample_regs_user));
	if (a->sample_type & PERF_SAMPLE_STACK_USER)
		take_stack(r, ret);
}

int perf_layout_sample(const struct perf_event_attr *a, const struct perf_event_header *h,
		       struct perf_taken *ret)
{
	struct rest r = body_of(h);
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
		ret->period = take_u64(&r);
	if (a->sample_type & PERF_SAMPLE_READ)
		pass_reads(&r, a->read_format);
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
	struct rest r = body_of(h);
	size_t n = behind_bytes(a);

	if (!(a->sample_type & PERF_SAMPLE_TIME) || h->type >= RECORD_USER_TYPE)
		return 0;
	if (h->type == PERF_RECORD_SAMPLE) {
		take_if(&r, a, PERF_SAMPLE_IDENTIFIER);
		take_if(&r, a, PERF_SAMPLE_IP);
	} else {
		if (!n || n > r.n)
			return 0;
		take(&r, r.n - n);
	}
	take_if(&r, a, PERF_SAMPLE_TID);
	return take_u64(&r);
}

int perf_layout_side(const struct perf_event_attr *a, const struct perf_event_header *h,
		     struct side *ret)
{
	int r = perf_decode_side_before(h, behind_bytes(a), ret);

	if (!r && ret->kind != SIDE_FORK && ret->kind != SIDE_EXIT)
		ret->time = perf_layout_time(a, h);
	return r;
}
