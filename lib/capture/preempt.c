/* SPDX-License-Identifier: MIT
 *
 * preempt - the reader of a CPU is pinned to it and SCHED_FIFO: the sample's wake-up
 * switches the target out before its next user instruction, and while the reader
 * reads, the thread lies frozen in the run queue. No ptrace, no signal.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "capture.h"

static int become_fifo(void)
{
	struct sched_param p = { .sched_priority = sched_get_priority_min(SCHED_FIFO) };

	return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &p) < 0 ? -errno : 0;
}

/* SCHED_FIFO is tried for real: cgroups (RT_GROUP_SCHED) can refuse even root. */
static int preempt_possible(struct err *err)
{
	struct sched_param old_param;
	int old = sched_getscheduler(0);
	int r;

	sched_getparam(0, &old_param);
	r = become_fifo();
	if (r < 0)
		return err_set(err, -EPERM,
			       "SCHED_FIFO is not granted (%s): run as root, or give "
			       "CAP_SYS_NICE or 'ulimit -r 1'",
			       strerror(-r));
	sched_setscheduler(0, old, &old_param);
	return 0;
}

static int preempt_thread_begin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		return -errno;
	return become_fifo();
}

const struct capture_ops capture_preempt = {
	.name = "preempt",
	.pins = true,
	.holds = true,
	.possible = preempt_possible,
	.thread_begin = preempt_thread_begin,
	.judge = capture_judge_held,
};
