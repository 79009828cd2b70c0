/* SPDX-License-Identifier: MIT
 *
 * stop - a signal stops the thread before its next user instruction, and the tracer holds
 * it while it is read. For those who get no SCHED_FIFO. User mode only: in the kernel the
 * signal would end system calls.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include "arch/arch.h"
#include "attach/attach_plan.h"
#include "sys/cpus.h"
#include "sys/proc.h"
#include "sys/realtime.h"
#include "sys/rights.h"
#include "capture/hold.h"
#include "capture/tracer.h"

#define BIT(sig) (UINT64_C(1) << ((sig) - 1))

enum { LOOKS = 5, CTL_QUEUE_BYTES = 64 << 10 };
enum { STOP_MAX_NS = 100000000 }; /* to wait for the signal that stops a thread */
enum { EARLY_MAX_NS = 1000000 };  /* a read later than this comes after the stop */
enum { WAKE_MAX_NS = 50000 };	  /* to run on; who waits longer waits for other threads */
/* They do nothing where nobody handles them. */
static const uint64_t SAFE = BIT(SIGURG) | BIT(SIGWINCH);

/* Signals that a process has no room for. */
struct taken {
	uint64_t by_all;  /* it handles them, or each of its threads blocks them */
	uint64_t by_some; /* these, and those that some of its threads block */
};

/* What @pid takes, added to *@ret. */
static int add_signals(pid_t pid, struct taken *ret, struct err *err)
{
	_cleanup_free_ pid_t *tids = NULL;
	uint64_t blocked = UINT64_MAX;
	size_t n = 0, looked = 0;
	int r = proc_tasks(pid, &tids, &n);

	if (proc_is_short(r))
		return proc_short(pid, r, err);
	if (r < 0)
		return err_set(err, -ESRCH, "there is no process %d", pid);
	for (size_t i = 0; i < n; i++) {
		struct proc_status s;

		r = proc_status(tids[i], &s);
		if (proc_is_short(r))
			return proc_short(pid, r, err);
		if (r < 0)
			continue;
		if (s.tracer)
			return err_set(err, -EPERM,
				       "process %d is traced by process %d already (a "
				       "debugger?), so --capture stop can't have it",
				       pid, s.tracer);
		looked++;
		blocked &= s.blocked;
		ret->by_all |= s.caught;
		ret->by_some |= s.caught | s.blocked;
	}
	ret->by_all |= looked ? blocked : 0;
	return 0;
}

/* A thread that is just being made blocks all signals for a moment: what is taken is what
 * each of several looks finds taken. */
static int taken_signals(const pid_t *pids, size_t n, struct taken *ret, struct err *err)
{
	struct timespec pause = { .tv_nsec = 2000000 };
	int r = 0;

	*ret = (struct taken){ UINT64_MAX, UINT64_MAX };
	for (int look = 0; look < LOOKS && r == 0 && !(~ret->by_some & SAFE); look++) {
		struct taken used = { 0 };

		if (look)
			nanosleep(&pause, NULL);
		for (size_t i = 0; r == 0 && i < n; i++)
			r = add_signals(pids[i], &used, err);
		ret->by_all &= used.by_all;
		ret->by_some &= used.by_some;
	}
	return r;
}

/* Libraries have threads of their own that block all signals: allocators, event loops. These
 * are not stopped, but nobody else need do without. */
int capture_stop_signal(const pid_t *pids, size_t n, const pid_t *others, size_t n_others,
			struct err *err)
{
	struct taken taken, used = { 0 };
	int r = taken_signals(pids, n, &taken, err);

	if (r < 0)
		return r;
	if (!(~taken.by_all & SAFE))
		return err_set(err, -EBUSY,
			       "the target handles or blocks both SIGURG and SIGWINCH, and "
			       "--capture stop needs one of them");
	for (size_t i = 0; i < n_others; i++)
		add_signals(others[i], &used, NULL);
	if (~taken.by_some & SAFE)
		taken.by_all = taken.by_some;
	if (~(taken.by_all | used.by_some) & SAFE)
		taken.by_all |= used.by_some;
	return taken.by_all & BIT(SIGURG) ? SIGWINCH : SIGURG;
}

static int stop_possible(const struct capture_want *w, struct err *err)
{
	int r;

	if (w->waits)
		return err_set(err, -EINVAL,
			       "--capture stop hears of no waits: with --mode wall use "
			       "preempt or async");
	if (w->joins)
		return err_set(err, -EINVAL,
			       "--capture stop holds the threads that it began with: with -a, "
			       "--match, -u and -G use preempt or async");
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

/* What the tracer does, for those who listen, too. */
static bool release(struct reader *r, uint32_t turn, pid_t tid)
{
	bool held = handover_release(&r->slot->handover, turn);

	return tap_answer(r, TAP_RELEASED, (uint64_t)tid, held);
}

static bool withdraw(struct reader *r)
{
	return tap_answer(r, TAP_WITHDRAWN, 0, handover_withdraw(&r->slot->handover));
}

/* Whom the tracer holds for us in @r->turn. */
static void stop_scan(struct reader *r)
{
	r->turn = handover_held(&r->slot->handover, &r->turn_tid);
}

/* It may be preempted on its way to the stop. */
static bool stop_comes_back(const struct hold *h)
{
	return h->preempted;
}

/* The tracer holds nobody but in a turn. */
static void stop_release(struct reader *r, struct walk *w)
{
	uint64_t t_out = hold_last_of(r, w)->hold.t_out;

	w->ran = !release(r, r->turn, w->tid);
	w->came_ns = 0;
	w->t_end = now_ns();
	if (r->turn && t_out)
		hold_charge(r, w->t_end - t_out, w);
	hold_see_all_rings(r);
}

/* Was the thread stopped with the registers of @p, and not for @p before? In a loop it comes
 * back to the same registers. */
static void compare_registers(struct pending *p, const uint64_t *regs, uint64_t ran_on_ns)
{
	p->hold.witness =
		p->s.regs && p->s.time > ran_on_ns ? hold_witness(p, regs) : WITNESS_MOVED;
}

/* The thread stood still from its stop on, with @regs, until it ran on at @resumed; before it
 * had run on at @ran_on_ns. */
static void finish_early(struct reader *r, const uint64_t *regs, uint64_t ran_on_ns, bool held,
			 uint64_t resumed)
{
	struct walk *w = &r->early;
	const struct pending *last = hold_last_of(r, w);

	for (uint32_t i = 0; i < r->n_pend; i++)
		if (r->pend[i].early)
			compare_registers(&r->pend[i], regs, ran_on_ns);
	if (last->t_in > resumed)
		resumed = MIN(last->t_in, resumed + WAKE_MAX_NS);
	if (last->hold.t_out && last->hold.t_out < resumed)
		hold_charge(r, resumed - last->hold.t_out, w);
	w->ran = !held;
	hold_see_all_rings(r);
	hold_judge(r, w);
	w->tid = 0;
}

/* Its samples wait for their stop as if they had not been read; unless it came. */
static void end_early(struct reader *r)
{
	struct handover *h = &r->slot->handover;

	if (!r->early.tid)
		return;
	if (withdraw(r)) {
		finish_early(r, h->accepted_regs, h->accepted_ran_on_ns, true, h->accepted_ns);
		return;
	}
	for (uint32_t i = 0; i < r->n_pend; i++)
		r->pend[i].early = false;
	r->early.tid = 0;
}

/* Read the thread of the newest sample, whose signal is on its way, and offer that to the
 * tracer: it wakes up meanwhile. */
static void read_early(struct reader *r)
{
	struct handover *h = &r->slot->handover;
	struct pending *last = r->n_pend ? &r->pend[r->n_pend - 1] : NULL;
	uint64_t regs[ARCH_MAX_REGS], ran_on_ns;
	uint32_t turn;
	bool held;
	pid_t tid;

	/* Elsewhere it might run while it is read. */
	if (!last || r->woke_ns > last->s.time + EARLY_MAX_NS ||
	    sched_getcpu() != r->slot->cpu)
		return;
	if (!hold_walk(r, last, &r->early)) {
		r->early.tid = 0;
		return;
	}
	r->early.early = true;
	r->early.t_end = now_ns();
	for (uint32_t i = 0; i < r->n_pend; i++)
		r->pend[i].early = r->pend[i].s.tid == r->early.tid;
	handover_offer(h, r->early.tid);
	r->turn = handover_held(h, &r->turn_tid);
	tap_held(r);
	turn = r->turn, tid = r->turn_tid;
	r->turn = 0;
	if (!turn || tid != r->early.tid)
		return;
	/* The stop came before the offer. */
	if (withdraw(r)) {
		finish_early(r, h->accepted_regs, h->accepted_ran_on_ns, true, h->accepted_ns);
		return;
	}
	ran_on_ns = handover_registers(h, regs);
	held = release(r, turn, tid);
	finish_early(r, regs, ran_on_ns, held, now_ns());
}

static bool early_is_over(struct reader *r, uint32_t turn, uint64_t old)
{
	for (uint32_t i = 0; i < r->n_pend; i++)
		if (!r->pend[i].early || r->pend[i].s.time < old)
			return true;
	return turn || tap_answer(r, TAP_ACCEPTED, 0, handover_accepted(&r->slot->handover));
}

/* Its signal did not stop it. */
static void give_up(struct reader *r, uint32_t i)
{
	atomic_store_explicit(&r->slot->handover.untaken, r->pend[i].s.tid,
			      memory_order_relaxed);
	hold_thread(r, i);
}

/* The samples of the thread that the tracer holds for us. False: none of them wait. */
static bool read_held(struct reader *r)
{
	uint64_t regs[ARCH_MAX_REGS], ran_on_ns;
	uint32_t first = r->n_pend;

	ran_on_ns = handover_registers(&r->slot->handover, regs);
	for (uint32_t i = r->n_pend; r->turn && i-- > 0;)
		if (!r->pend[i].done && r->pend[i].s.tid == r->turn_tid) {
			compare_registers(&r->pend[i], regs, ran_on_ns);
			first = i;
		}
	if (first == r->n_pend)
		return false;
	hold_thread(r, first);
	return true;
}

static void end_turn(struct reader *r)
{
	release(r, r->turn, r->turn_tid);
	r->turn = 0;
}

/* These, and those that have waited too long for their stop; the others go on waiting. */
static void stop_read(struct reader *r)
{
	uint64_t old = now_ns() - STOP_MAX_NS;

	if (early_is_over(r, r->turn, old))
		end_early(r);
	read_held(r);
	end_turn(r);
	for (uint32_t i = 0; i < r->n_pend; i++)
		if (!r->pend[i].done && r->pend[i].s.time < old)
			give_up(r, i);
	hold_forget_processed(r);
	if (!r->early.tid)
		read_early(r);
	hold_forget_processed(r);
}

/* A thread of which none wait is held on: its samples may come behind. */
static void stop_flush(struct reader *r)
{
	uint32_t turn;

	end_early(r);
	if (read_held(r))
		end_turn(r);
	turn = r->turn;
	r->turn = 0;
	hold_flush(r);
	r->turn = turn;
}

/* A thread runs on any CPU and is stopped on none: all readers shed together. */
static void stop_shed(struct reader *r, uint64_t left_ns)
{
	uint64_t until = now_ns() + left_ns;

	for (uint32_t i = 0; i < r->c->n_slots; i++) {
		struct handover *h = &r->c->slots[i].handover;

		work_foreign(&r->c->slots[i].work, 1);
		if (!atomic_exchange(&h->quiet_until, until))
			eventfd_write(h->posted, 1);
	}
	end_early(r);
	hold_forget_processed(r);
}

static int stop_slot_begin(struct cpu_slot *slot)
{
	return handover_init(&slot->handover, slot->cpu);
}

static void stop_limit(struct perf_options *o)
{
	o->kernel = o->inherit = false;
	o->disabled = true;
}

/* Which signal depends on what the processes that are followed handle now. */
static int choose_signal(const struct capture_attach *a, struct err *err)
{
	int sig = capture_stop_signal(a->pids, a->n_pids, a->others, a->n_others, err);

	if (sig > 0)
		note_say(a->note,
			 "capture stop: SIG%s stops a thread for each of its samples; were "
			 "pysampled killed (-9) at that moment, a handler that the target has "
			 "for it by then may be called%s",
			 sigabbrev_np(sig),
			 rights_have(CAP_SYS_PTRACE) ?
				 "" :
				 "; a set-user-ID program that a sampled process becomes "
				 "does not get its rights");
	return sig;
}

static void tell_deaf(const struct capture_attach *a)
{
	size_t n = tracer_deaf(*a->ret_tracer);

	if (n)
		note_say(a->note,
			 "capture stop: %zu thread%s SIG%s and can't be stopped: their samples "
			 "are late",
			 n, n == 1 ? " blocks" : "s block", sigabbrev_np(a->tracer->signal));
}

static int stop_attach(const struct capture_attach *a, struct err *err)
{
	int r;

	a->tracer->signal = choose_signal(a, err);
	if (a->tracer->signal < 0)
		return a->tracer->signal;
	if (queue_init(a->tracer->ctl, CTL_QUEUE_BYTES) == 0)
		*a->ret_tracer = tracer_create(a->tracer);
	if (!*a->ret_tracer)
		return err_set(err, -ENOMEM, "out of memory");
	a->tracer->attach->hooks = tracer_hooks(*a->ret_tracer);
	r = tracer_attach(*a->ret_tracer, a->attach, a->arg, err);
	if (r == 0)
		tell_deaf(a);
	return r;
}

const struct capture_ops capture_stop = {
	.name = "stop",
	.promise = "stacks are those at the event's instant; user mode only",
	.cheaper = "; the right to preempt ('ulimit -r 1', CAP_SYS_NICE) makes it cheaper",
	.on_threads = "capture stop needs the signals of events on threads",
	.stack_bytes = CAPTURE_STACK_BYTES,
	.cpu_fds = 1,
	.fixed_cpus = true,
	.finds_threads = true,
	.sees_registers = true,
	.traces = true,
	.holds = true,
	.possible = stop_possible,
	.caveat = capture_no_caveat,
	.stall = capture_says_nothing,
	.limit = stop_limit,
	.slot_begin = stop_slot_begin,
	.attach = stop_attach,
	.wait_ms = 10,
	.thread_begin = stop_thread_begin,
	.waits_begin = capture_waits_ordinary,
	.moved_away = capture_stays,
	.shed = stop_shed,
	.scan = stop_scan,
	.comes_back = stop_comes_back,
	.read = stop_read,
	.flush = stop_flush,
	.release = stop_release,
	.resume = capture_idle,
	.judge = stop_judge,
};
