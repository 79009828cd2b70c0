/* SPDX-License-Identifier: MIT
 *
 * judge - the rules of judgement that captures share. Pure.
 */
#include "capture/capture.h"

enum judgement capture_judge_held(const struct hold *h)
{
	if (h->ending)
		return JUDGE_EXACT;
	if (h->backlog)
		return JUDGE_BACKLOG;
	if (!h->t_out)
		return JUDGE_NOSWITCH;
	if (h->ran)
		return JUDGE_RAN;
	if (h->witness == WITNESS_SAME)
		return JUDGE_EXACT;
	if (h->witness == WITNESS_MOVED)
		return JUDGE_GAP;
	/* A reader that preempts was made runnable before the kernel could return
	 * to the thread: whatever the kernel still did after the event, no user
	 * instruction ran before t_out. An event in user code has no such excuse. */
	if (!h->in_kernel && !h->preempted)
		return JUDGE_VOLUNTARY;
	if (!h->in_kernel && h->t_out - h->t0 > h->gap_max_ns)
		return JUDGE_GAP;
	return JUDGE_EXACT;
}

enum judgement capture_judge_unheld(const struct hold *h)
{
	/* A thread that ran on may have come back to the same registers, on another path. */
	if (!h->ending &&
	    (h->witness != WITNESS_SAME || (!h->counted && h->t_out - h->t0 > h->gap_max_ns)))
		return JUDGE_CAPTURE;
	return capture_judge_held(h);
}
