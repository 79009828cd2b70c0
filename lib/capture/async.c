/* SPDX-License-Identifier: MIT
 *
 * async - read after the wake-up and hold nobody. What is read belongs to a later
 * moment (wrong for about half of all samples): late when consistent
 * in itself, else torn. A thread that left its CPU with the registers of its sample, and
 * stayed away until the read was over, is as good as held: exact. Only the witness proves
 * that.
 */
#include "capture.h"

static int async_possible(const struct capture_want *w, struct err *err)
{
	(void)w;
	(void)err;
	return 0;
}

static int async_thread_begin(const struct preempt_plan *p, int cpu)
{
	(void)p;
	(void)cpu;
	return 0;
}

static enum judgement async_judge(const struct hold *h)
{
#ifdef PYSAMPLED_ASYNC_UNCHECKED
	(void)h;
	return JUDGE_EXACT; /* test builds: shows how wrong a plain read is */
#else
	/* A thread that ran on may have come back to the same registers, on another path. */
	if (!h->ending &&
	    (h->witness != WITNESS_SAME || (!h->counted && h->t_out - h->t0 > h->gap_max_ns)))
		return JUDGE_CAPTURE;
	return capture_judge_held(h);
#endif
}

const struct capture_ops capture_async = {
	.name = "async",
	.possible = async_possible,
	.thread_begin = async_thread_begin,
	.judge = async_judge,
};
