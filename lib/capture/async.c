/* SPDX-License-Identifier: MIT
 *
 * async - read after the wake-up and hold nobody. What is read belongs to a later
 * moment (wrong for about half of all samples): late when consistent
 * in itself, else torn. A thread that left its CPU with the registers of its sample, and
 * stayed away until the read was over, is as good as held: exact. Only the witness proves
 * that.
 */
#include "capture/hold.h"

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

const struct capture_ops capture_async = {
	.name = "async",
	.promise = "works everywhere; most of its stacks are late",
	.cheaper = "",
	.possible = async_possible,
	.caveat = capture_no_caveat,
	.stall = capture_says_nothing,
	.limit = capture_limits_nothing,
	.slot_begin = capture_slot_as_is,
	.attach = capture_attach_here,
	.wait_ms = 200,
	.thread_begin = async_thread_begin,
	.waits_begin = capture_waits_ordinary,
	.moved_away = capture_stays,
	.shed = capture_sleep,
	.scan = capture_idle,
	.comes_back = capture_comes_back_never,
	.read = hold_flush,
	.flush = hold_flush,
	.release = hold_release,
	.resume = capture_idle,
	.judge = capture_judge_unheld,
};
