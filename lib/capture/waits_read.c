/* SPDX-License-Identifier: MIT
 *
 * waits_read - the stack of a thread that sleeps, and the proof that it slept until it was read.
 */
#include "capture/waits_int.h"

#include <sys/syscall.h>

#include "capture/hold.h"
#include "sys/proc.h"

/* Where it stands in user mode: as it left, or as the kernel says of who sleeps. */
static bool place_of(const struct wait *wait, const struct proc_wait *at,
		     uint64_t regs[ARCH_MAX_REGS])
{
	if (wait->regs_known) {
		memcpy(regs, wait->regs, arch_host->n_regs * sizeof(*regs));
		return true;
	}
	memset(regs, 0, ARCH_MAX_REGS * sizeof(*regs));
	regs[arch_host->sp] = at->sp;
	regs[arch_host->ip] = at->pc;
	return at->sp;
}

static bool is_asleep(const struct wait *wait)
{
	char state = proc_state(wait->pid, wait->tid);

	return state == 'S' || state == 'D' || is_stopped(state);
}

/* Whether it slept until now. A thread that this kernel hides may have left no record. */
static void prove(struct reader *r, struct walk *walk, const struct wait *wait)
{
	const bool asks = r->c->switches_hidden && !wait->preempted;
	const bool sleeps = !asks || is_asleep(wait);
	uint64_t hidden = wait->out | 4095; /* records of leaving are so exact */

	r->c->capture->release(r, walk);
	if (!sleeps)
		walk->ran = true;
	if (r->c->switches_hidden && proof_left_another(r->c, r->slot, wait->tid, hidden))
		walk->ran = true;
}

/* Who sleeps for the GIL does so in a futex that lies in it. */
static bool wants_gil(struct reader *r, const struct proc_wait *at, const struct walk *walk)
{
	const struct pystack_target *of = walk->res.of;

	return at->syscall == SYS_futex && walk->res.end == PYSTACK_OK &&
	       pygil_sleeps(&r->mem.base, &of->layout,
			    pygil_runtime(&of->layout, &of->walk), walk->res.tstate, at->arg);
}

static bool is_quarantined(const struct reader *r, pid_t pid)
{
	const struct target *t = targets_find(r->c->targets, pid);

	return t && atomic_load(&t->state) == TARGET_QUARANTINED;
}

/* Where it waits, in @at, if that can be told. That may hang, as reads of its memory may. */
static void ask_where(struct reader *r, const struct wait *wait, struct proc_wait *at)
{
	uint64_t turn;

	if (is_quarantined(r, wait->pid))
		return;
	guarded_target(&r->mem, wait->pid, wait->tid);
	turn = guarded_enter(&r->mem);
	if (proc_syscall(wait->pid, wait->tid, at) < 0)
		*at = (struct proc_wait){ .syscall = -1 };
	guarded_leave(&r->mem, turn);
}

/* Before its stack is read, so that what proves the stack proves this. Who was preempted wants
 * a CPU, and the kernel does not tell where such a thread stands. */
static uint32_t what_for(struct reader *r, const struct wait *wait, struct proc_wait *at)
{
	char state = 0;

	*at = (struct proc_wait){ .syscall = -1 };
	if (!wait->preempted) {
		state = proc_state(wait->pid, wait->tid);
		ask_where(r, wait, at);
	}
	return waits_state(wait, state);
}

static void read_one(struct waits *w, struct wait *wait)
{
	struct reader *r = w->slot.reader;
	uint64_t regs[ARCH_MAX_REGS];
	struct pending *p = &r->pend[0];
	struct proc_wait at;
	struct walk walk;

	epoch_enter(&r->c->targets->epoch, &r->slot->targets);
	r->crowded = atomic_load_explicit(&r->c->crowded, memory_order_relaxed);
	wait->tried = true; /* and no more, if that hangs */
	wait->late = false;
	r->wait = what_for(r, wait, &at);
	*p = (struct pending){ .s = { .time = waits_since(w, wait),
				      .pid = wait->pid,
				      .tid = wait->tid,
				      .misc = PERF_RECORD_MISC_USER } };
	if (place_of(wait, &at, regs)) {
		p->s.regs = (const unsigned char *)regs;
		p->s.have_user = true;
		p->s.user_ip = p->s.ip = regs[arch_host->ip];
		p->s.user_sp = regs[arch_host->sp];
	}
	p->hold = (struct hold){ .t0 = wait->out, .t_out = wait->out, .in_kernel = true };
	r->n_pend = 1;
	if (hold_walk(r, p, &walk)) {
		if (r->wait == Q_WAIT_SLEEP && wants_gil(r, &at, &walk))
			r->wait = Q_WAIT_GIL;
		prove(r, &walk, wait);
		hold_judge(r, &walk);
		wait->tried = !walk.undecided;
		wait->late = walk.latest != JUDGE_EXACT && !wait->preempted;
	}
	wait->read = true;
	epoch_leave(&r->slot->targets);
	emit_codes_gone(r);
}

/* Nobody could tell whether it had slept until it was read, as where a ring was too full, and no
 * switch of it was told since: where it sleeps now is known of another wait that begins now. */
static void begin_anew(struct waits *w, struct wait *wait)
{
	uint64_t now = now_ns();
	struct wait over;

	if (!is_asleep(wait))
		return;
	wait_table_anew(&w->table, wait, now, &over);
	waits_give(w, &over, now);
}

/* Whoever sleeps since before the recording began will still do so later. */
static bool is_fresh(const struct waits *w, const struct wait *wait)
{
	return wait->out > w->table.since;
}

/* True: it is time to read its stack. Where its program was not known yet it is read once more,
 * after 1, 2, 4 and so on ticks, and at the end; what comes later takes the place of what was
 * read. Where that was late it begins anew then, but not at the end. */
static bool is_due(const struct waits *w, const struct wait *wait)
{
	bool again = !(wait->ticks & (wait->ticks - 1)), last = atomic_load(&w->stop);

	if (!wait->asleep || !wait->ticks || (wait->tried && (!wait->late || last)))
		return false;
	return !wait->read || again || last;
}

/* Those that were taken and are not read, until we have used so much CPU time; who is left
 * over has another turn. */
void waits_read_some(struct waits *w, bool fresh, uint64_t until)
{
	size_t n = w->table.n;

	for (size_t i = 0; i < n; i++) {
		struct wait *wait = &w->table.all[(w->turn + i) % n];

		if (!is_due(w, wait) || is_fresh(w, wait) != fresh)
			continue;
		if (waits_own_ns() > until) {
			w->turn = (w->turn + i) % n;
			return;
		}
		if (wait->tried)
			begin_anew(w, wait);
		else
			read_one(w, wait);
	}
}
