/* SPDX-License-Identifier: MIT
 *
 * stop - a signal stops the thread before its next user instruction, and the tracer holds
 * it while it is read. For those who get no SCHED_FIFO. User mode only: in the kernel the
 * signal would end system calls.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "../arch/arch.h"
#include "../cpus.h"
#include "../proc.h"
#include "../realtime.h"
#include "capture.h"

#define BIT(sig) (UINT64_C(1) << ((sig)-1))

enum { LOOKS = 5 };
/* They do nothing where nobody handles them. */
static const uint64_t SAFE = BIT(SIGURG) | BIT(SIGWINCH);

/* What the threads of @pid handle or block, added to *@used. */
static int add_signals(pid_t pid, uint64_t *used, struct err *err)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	if (proc_tasks(pid, &tids, &n) < 0)
		return err_set(err, -ESRCH, "there is no process %d", pid);
	for (size_t i = 0; i < n; i++) {
		struct proc_status s;

		if (proc_status(tids[i], &s) < 0)
			continue;
		if (s.tracer)
			return err_set(err, -EPERM,
				       "process %d is traced by process %d already (a "
				       "debugger?), so --capture stop can't have it",
				       pid, s.tracer);
		*used |= s.blocked | s.caught;
	}
	return 0;
}

/* A thread that is just being made blocks all signals for a moment: what is taken is what
 * each of several looks finds taken. */
static int taken_signals(const pid_t *pids, size_t n, uint64_t *taken, struct err *err)
{
	struct timespec pause = { .tv_nsec = 2000000 };
	int r = 0;

	*taken = UINT64_MAX;
	for (int look = 0; look < LOOKS && r == 0 && !(~*taken & SAFE); look++) {
		uint64_t used = 0;

		if (look)
			nanosleep(&pause, NULL);
		for (size_t i = 0; r == 0 && i < n; i++)
			r = add_signals(pids[i], &used, err);
		*taken &= used;
	}
	return r;
}

int capture_stop_signal(const pid_t *pids, size_t n, const pid_t *others, size_t n_others,
			struct err *err)
{
	uint64_t taken, used = 0;
	int r = taken_signals(pids, n, &taken, err);

	if (r < 0)
		return r;
	if (!(~taken & SAFE))
		return err_set(err, -EBUSY,
			       "the target handles or blocks both SIGURG and SIGWINCH, and "
			       "--capture stop needs one of them");
	for (size_t i = 0; i < n_others; i++)
		add_signals(others[i], &used, NULL);
	if (~(taken | used) & SAFE)
		taken |= used;
	return taken & BIT(SIGURG) ? SIGWINCH : SIGURG;
}

static int stop_possible(const struct capture_want *w, struct err *err)
{
	int r;

	if (w->switches)
		return err_set(err, -ENOENT,
			       "--capture stop can't have scheduler events: a stop is one "
			       "itself, without end; use preempt or async");
	if (w->kernel_only)
		return err_set(err, -ENOENT,
			       "--capture stop samples user mode only; for kernel mode use "
			       "preempt or async");
	if (w->breakpoints && arch_host->breakpoint_steps)
		return err_set(
			err, -ENOENT,
			"--capture stop can't have breakpoints on %s: the kernel leaves one "
			"off behind a stop; use preempt or async",
			arch_host->name);
	if (!w->named && !w->user_only)
		return err_set(err, -ENOENT,
			       "--capture stop samples user mode only, it is chosen for "
			       "events like cycles:u");
	r = capture_stop_signal(w->pids, w->n_pids, NULL, 0, err);
	return r < 0 ? r : 0;
}

/* A reader runs on the sample's CPU as soon as the thread has stopped there, while the tracer
 * still wakes up on another. Not before, for then it would delay the signal: SCHED_BATCH
 * preempts nobody. */
static int stop_thread_begin(const struct preempt_plan *p, int cpu)
{
	(void)p;
	realtime_brief(SCHED_BATCH);
	cpus_pin_thread(cpu); /* may be refused: what it reads elsewhere is as true */
	return 0;
}

/* The registers at the stop are the proof; ran: not held until the read was over. */
static enum judgement stop_judge(const struct hold *h)
{
	if (h->witness == WITNESS_NONE)
		return JUDGE_NOSTOP;
	if (h->witness == WITNESS_MOVED)
		return JUDGE_GAP;
	return h->ran ? JUDGE_RAN : JUDGE_EXACT;
}

const struct capture_ops capture_stop = {
	.name = "stop",
	.holds = true,
	.stops = true,
	.possible = stop_possible,
	.thread_begin = stop_thread_begin,
	.judge = stop_judge,
};
