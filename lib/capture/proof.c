/* SPDX-License-Identifier: MIT */
#include "proof.h"

#include "../perf_decode.h"

bool proof_is_switch(const struct perf_event_header *h, const unsigned char *end,
		     struct proof_switch *ret)
{
	struct perf_trailer t;

	/* CPU_WIDE also names the other thread; the trailer is of the same one. */
	if ((h->type != PERF_RECORD_SWITCH && h->type != PERF_RECORD_SWITCH_CPU_WIDE) ||
	    h->size < sizeof(*h) + PERF_TRAILER)
		return false;
	perf_decode_trailer(end, &t);
	ret->tid = t.tid;
	ret->time = t.time;
	ret->out = h->misc & PERF_RECORD_MISC_SWITCH_OUT;
	ret->preempt = h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
	return true;
}

/* Threads that share a slot make each other look like having run: that errs on
 * the side of "late". */
static _Atomic uint64_t *noted(struct reader_config *c, pid_t tid)
{
	return &c->last_in[(uint32_t)tid * 2654435761u >> 19 & (LAST_IN - 1)];
}

void proof_note_in(struct reader_config *c, pid_t tid, uint64_t time)
{
	_Atomic uint64_t *p = noted(c, tid);
	uint64_t old = atomic_load_explicit(p, memory_order_relaxed);

	/* Another reader may note a later time meanwhile: that one must stay. */
	while (old < time &&
	       !atomic_compare_exchange_weak_explicit(p, &old, time, memory_order_release,
						      memory_order_relaxed))
		;
}

bool proof_ran_noted(struct reader_config *c, pid_t tid, uint64_t since)
{
	return atomic_load_explicit(noted(c, tid), memory_order_acquire) > since;
}

bool proof_ran_in_ring(struct reader_config *c, struct cpu_slot *slot, uint64_t *cursor,
		       pid_t tid, uint64_t since)
{
	uint64_t tail = perf_ring_tail(&slot->ring), head = perf_ring_head(&slot->ring);
	uint64_t from = MAX(*cursor, tail), pos;
	unsigned char end[PERF_TRAILER];
	struct proof_switch sw;
	bool ran = false;

	for (pos = from; pos < head;) {
		struct perf_event_header h =
			perf_ring_peek(&slot->ring, pos, end, sizeof(end));

		if (h.size < sizeof(h) || h.size % 8)
			return true;
		if (proof_is_switch(&h, end, &sw) && !sw.out) {
			proof_note_in(c, sw.tid, sw.time);
			ran = ran || (sw.tid == tid && sw.time > since);
		}
		pos += h.size;
	}
	*cursor = head;
	/* A ring near full may have dropped the very record we look for; or its owner
	 * moved on meanwhile and the kernel wrote over what we read. */
	head = perf_ring_head(&slot->ring);
	return ran || head - tail > slot->ring.size - PERF_RECORD_BYTES ||
	       head - from > slot->ring.size;
}
