/* SPDX-License-Identifier: MIT
 *
 * hold - read the stack of a thread that is held, and judge whether it was.
 */
#include <errno.h>
#include <sys/eventfd.h>

#include "base/stats.h"
#include "targets/births.h"
#include "capture/hold.h"
#include "sys/proc.h"
#include "watch/proof.h"

/* Without a witness: longest time from an event in user code to the switch. Interrupt,
 * inter-processor interrupt and scheduler take 13 to 34 us even on a virtual machine
 * under load; none of 365 000 samples below 60 us was wrong. */
enum { GAP_MAX_NS = 40000, LOOK_NS = 10000000, HOLD_MAX_NS = 200000 };
enum { READ_NS = 1600, RANGE_NS = 330 }; /* a read takes, and each range of it: remote_mem.h */

/* --- reading and judging --- */

/* Has the thread come onto any CPU since it left ours, as far as records tell? That can't be
 * told once events have been switched off. */
static bool ran_since(struct reader *r, pid_t tid, uint64_t since)
{
	struct reader_config *c = r->c;
	uint64_t own = r->pos;
	bool ran;

	tap_look(r, TAP_RAN, tid);
	ran = proof_ran_in_ring(c, r->slot, &own, tid, since);
	for (uint32_t i = 0; !ran && !c->table && i < c->n_slots; i++)
		ran = i != r->slot->index &&
		      proof_ran_in_ring(c, &c->slots[i], &r->cursor[i], tid, since);
	tap_looked(r, TAP_RAN, tid, own);
	ran = ran || (!c->table && proof_ran_noted(c, tid, since));
	if (ran) /* or only records are missing that could tell */
		STATS_ADD(c->stats, late_blind, !proof_seen_noted(c, tid, since));
	if (ran || c->table)
		return ran;
	ran = tap_answer(r, TAP_UNWATCHED, (uint64_t)tid, proof_ran_unwatched(c, tid, since));
	STATS_ADD(c->stats, late_unwatched, ran);
	return ran;
}

void hold_see_all_rings(struct reader *r)
{
	struct reader_config *c = r->c;
	uint64_t own = r->pos;

	r->saw_all_ns = now_ns();
	tap_look(r, TAP_ALL, 0);
	proof_ran_in_ring(c, r->slot, &own, 0, UINT64_MAX);
	for (uint32_t i = 0; i < c->n_slots; i++)
		if (i != r->slot->index)
			proof_ran_in_ring(c, &c->slots[i], &r->cursor[i], 0, UINT64_MAX);
	tap_looked(r, TAP_ALL, 0, own);
}

/* Readers look at each other in passing, so that the watchdog need not come often: one
 * that has been inside the same read for two looks is worth its time now. One reader a look:
 * together they see all of them, and the resolver's thread does if few are awake. */
static void look_at_another(struct reader *r, uint64_t now)
{
	struct cpu_slot *slots = r->c->slots;

	if (now - r->looked_ns < LOOK_NS)
		return;
	r->looked_ns = now;
	/* At first @look_at is its own slot, which of the one that reads waits is not in @slots. */
	if ((r->look & 1) && guard_look(&slots[r->look_at].guard) == r->look)
		eventfd_write(r->c->kick, 1);
	r->look_at = (r->look_at + 1) % r->c->n_slots;
	work_foreign(&slots[r->look_at].work, 1);
	r->look = guard_look(&slots[r->look_at].guard);
}

static void count_judgement(struct stats *s, enum judgement j)
{
	switch (j) {
	case JUDGE_BACKLOG:
		STATS_ADD(s, late_backlog, 1);
		break;
	case JUDGE_GAP:
		STATS_ADD(s, late_gap, 1);
		break;
	case JUDGE_VOLUNTARY:
		STATS_ADD(s, late_voluntary, 1);
		break;
	case JUDGE_RAN:
		STATS_ADD(s, late_ran, 1);
		break;
	case JUDGE_NOSWITCH:
		STATS_ADD(s, late_noswitch, 1);
		break;
	case JUDGE_NOSTOP:
		STATS_ADD(s, late_nostop, 1);
		break;
	case JUDGE_CAPTURE:
		STATS_ADD(s, late_capture, 1);
		break;
	default:
		break;
	}
}

static enum provenance torn(struct stats *s, enum pystack_end end)
{
	if (end == PYSTACK_FAULT)
		STATS_ADD(s, torn_fault, 1);
	else if (end == PYSTACK_BROKEN)
		STATS_ADD(s, torn_broken, 1);
	else if (end == PYSTACK_ELSEWHERE)
		STATS_ADD(s, torn_elsewhere, 1);
	else
		STATS_ADD(s, torn_badcode, 1);
	return PROV_TORN;
}

/* That there is no Python stack was read, too, and is judged likewise. */
static enum provenance provenance_of(struct stats *s, struct pending *p, enum judgement j,
				     const struct pystack_result *res, bool unchanged)
{
	bool none = res->end == PYSTACK_NOPYTHON;

	if (res->end != PYSTACK_OK && !none)
		return torn(s, res->end);
	if (j == JUDGE_EXACT)
		return none ? PROV_NOPYTHON : PROV_EXACT;
	if (!unchanged) {
		STATS_ADD(s, torn_moved, 1);
		return PROV_TORN;
	}
	count_judgement(s, j);
	return PROV_LATE;
}

/* A reader off its CPU holds nobody: it judges by the rule for that. */
static enum judgement judge(const struct reader *r, struct pending *p, const struct walk *w)
{
	p->hold.ran = w->ran || w->came_ns > p->s.time;
	p->hold.t_end = w->t_end;
	p->hold.gap_max_ns = GAP_MAX_NS;
	/* Who sleeps is held by nobody: it only must not have come back. */
	if (r->wait)
		return p->hold.ran ? JUDGE_RAN : JUDGE_EXACT;
	return (r->unfit ? capture_judge_unheld : r->c->capture->judge)(&p->hold);
}

/* What the other rings said of it after it was looked up, and maybe read. */
static void look_up_again(struct reader *r, const struct target *t, struct walk *w)
{
	if (!t || w->undecided || program_stands(r, t, w->able == PYSTACK_NOPYTHON))
		return;
	w->able = w->res.end = program_ask(r, w->published, w);
	w->res.n = w->res.n_anchors = 0;
}

/* The thread's stack came with its sample: a page less to read, and it tells which states are
 * the thread's. */
static void know_stack(struct reader *r, const struct perf_sample *s, pid_t forker)
{
	const struct pystack_place place = { .sp = s->user_sp,
					     .regs = { s->regs,
						       s->regs ? 8u * arch_host->n_regs : 0 },
					     .forker = forker };

	pystack_stands(r->ps, &place);
	pystack_know(r->ps, s->user_sp, s->stack);
	if (r->c->native && s->regs)
		pystack_want(r->ps, s->user_sp - RED_BYTES, RED_BYTES);
}

/* True: @n->tid may be another thread by now: one with that number was born since, or the record of
 * that may be missing. */
static bool is_another(const struct reader *r, const struct inner_number *n)
{
	uint64_t blind = atomic_load_explicit(&r->c->blind_ns, memory_order_acquire);

	return births_born(r->c->births, n->tid) >= n->asked_ns || blind >= n->asked_ns;
}

static void ask_number(struct reader *r, const struct walk *w, struct inner_number *n)
{
	uint64_t turn;
	pid_t inner;

	*n = (struct inner_number){ .tid = w->tid,
				    .program = w->program->py.program,
				    .asked_ns = now_ns() };
	guarded_target(&r->mem, w->pid, w->tid);
	turn = guarded_enter(&r->mem);
	inner = proc_inner_tid_alone(w->pid, w->tid);
	guarded_leave(&r->mem, turn);
	n->inner = MAX(inner, 0);
}

/* The number that the thread has for itself, which its state bears; 0: it is gone. In a PID namespace
 * of its own a file of /proc tells that, which is read once for each thread. */
static pid_t number_of(struct reader *r, const struct walk *w)
{
	struct inner_number *n = &r->inner[(uint32_t)w->tid % INNER_NUMBERS];
	const struct target *t = w->program;
	pid_t inner = w->tid == w->pid ? t->inner : 0;

	if (!t->inner_tids)
		return w->tid;
	if (!inner) {
		if (n->tid != w->tid || n->program != t->py.program || !n->inner ||
		    is_another(r, n))
			ask_number(r, w, n);
		inner = n->inner;
	}
	return (pid_t)tap_answer(r, TAP_INNER, (uint64_t)w->tid, (uint64_t)inner);
}

static enum pygil_has gil_of(struct reader *r, const struct pystack_result *res)
{
	const struct pystack_target *of = res->of;

	return pygil_has(&r->mem.base, &of->layout, pygil_runtime(&of->layout, &of->walk),
			 res->tstate);
}

/* @s: the newest sample. */
static void read_stack(struct reader *r, const struct perf_sample *s, struct walk *w)
{
	struct target *t = w->program;
	pid_t inner;

	w->res.end = w->able;
	if ((w->undecided && !r->crowded) ||
	    (w->able == PYSTACK_NOPYTHON && atomic_load(&t->state) != TARGET_QUARANTINED)) {
		guarded_target(&r->mem, w->pid, w->tid);
		rest_read(r, s, &r->mem.base, w);
	}
	if (w->able != PYSTACK_OK)
		return;
	inner = number_of(r, w);
	if (!inner) {
		STATS_ADD(r->c->stats, torn_notready, 1);
		w->res.end = PYSTACK_END_N;
		return;
	}
	guarded_target(&r->mem, w->pid, w->tid);
	know_stack(r, s, t->forker);
	w->res =
		pystack_read_all(r->ps, &t->py, target_others(t), &r->mem.base, w->tid, inner);
	if (w->res.end == PYSTACK_UNPROVEN)
		w->able = w->res.end = program_ask(r, w->published, w);
	if (r->c->session->flags & SESSION_ASYNC)
		pystack_join(r->ps, &t->py, w->tid, r->c->session->flags & SESSION_ONE_NAME,
			     &w->res);
	if (w->res.end == PYSTACK_NOPYTHON && w->tid == w->pid && t->unborn && !t->forker) {
		STATS_ADD(r->c->stats, torn_notready, 1);
		w->res.end = PYSTACK_END_N;
	}
	rest_read(r, s, pystack_memory(r->ps), w);
	if ((r->c->only_gil || r->c->session->flags & SESSION_GIL) && w->res.end == PYSTACK_OK)
		w->gil = gil_of(r, &w->res);
	if (w->res.code_lost)
		pystack_forget_codes(r->ps, t->py.program);
}

/* In exec and at its end a process drops its memory, and works on in the kernel: its
 * interpreter is gone then, with all frames. */
static bool is_unmapped(struct reader *r, const struct walk *w)
{
	const struct target *t = w->program;
	uint64_t head;
	int code;

	if (w->res.end != PYSTACK_FAULT)
		return false;
	code = rmem_read_u64(&r->mem.base, t->py.walk.interp_head, &head);
	/* -ESRCH: the main thread has none any more; others may live on. */
	return code == -EFAULT || (code == -ESRCH && w->tid == t->pid);
}

/* What all reads have taken that this reader has made, roughly. */
static uint64_t reads_ns(const struct reader *r)
{
	const struct work *w = &r->slot->work;

	return READ_NS * atomic_load_explicit(&w->n[WORK_reads], memory_order_relaxed) +
	       RANGE_NS * atomic_load_explicit(&w->n[WORK_ranges], memory_order_relaxed);
}

/* Many states that were searched, or megabytes of stack, are many reads. */
void hold_charge(struct reader *r, uint64_t ns, const struct walk *w)
{
	uint64_t reads = reads_ns(r) - w->reads_ns, frames = (uint64_t)w->res.n + w->res.n_joined;

	r->held_ns += MIN(ns, MAX(reads, HOLD_MAX_NS) + 1000 * frames);
}

static bool is_of(const struct pending *p, pid_t tid, bool early)
{
	return !p->done && p->s.tid == tid && p->early == early;
}

bool hold_ignored(struct reader *r, pid_t tid, const struct target *t)
{
	if (t || r->c->follow || r->c->adopts)
		return false;
	for (uint32_t i = 0; i < r->n_pend; i++) {
		if (!is_of(&r->pend[i], tid, r->pend[i].early))
			continue;
		STATS_ADD(r->c->stats, foreign, 1);
		r->pend[i].done = true;
	}
	return true;
}

/* The samples of an old program are not stacks of the new one. */
static bool is_older(struct stats *s, const struct pending *p, const struct walk *w)
{
	if (p->s.time >= w->began_ns)
		return false;
	STATS_ADD(s, torn_exec, 1);
	return true;
}

/* With --mode gil: is it left out? A thread that is in no interpreter has no GIL. */
static bool is_left_out(struct reader *r, const struct pending *p, const struct walk *w)
{
	bool none = p->prov == PROV_NOPYTHON || w->gil == PYGIL_HAS_NOT;

	if (!r->c->only_gil || (w->gil == PYGIL_HAS && p->prov != PROV_NOPYTHON))
		return false;
	if (none)
		STATS_ADD(r->c->stats, gil_none, 1);
	else
		STATS_ADD(r->c->stats, gil_unknown, 1);
	return true;
}

static void emit(struct reader *r, struct pending *p, const struct walk *w)
{
	enum judgement j = judge(r, p, w);
	bool older = is_older(r->c->stats, p, w), unchanged = w->unchanged && !w->unmapped;

	if (j == JUDGE_EXACT)
		j = w->latest;
	p->done = true;
	p->held = j == JUDGE_EXACT;
	p->open = w->undecided && !older;
	p->prov = PROV_TORN;
	if (!older && w->able == PYSTACK_NOPYTHON)
		p->prov = PROV_NOPYTHON;
	else if (!older && w->res.end != PYSTACK_END_N)
		p->prov = provenance_of(r->c->stats, p, j, &w->res, unchanged);
	if (is_left_out(r, p, w))
		return;
	if (w->res.code_lost && w->res.n) {
		emit_lost(r->c->stats, 1);
		return;
	}
	emit_sample(r, p, w);
	if (r->tap)
		r->tap->judged(r, p);
}

struct pending *hold_last_of(struct reader *r, const struct walk *w)
{
	for (uint32_t i = r->n_pend; i-- > 0;)
		if (is_of(&r->pend[i], w->tid, w->early))
			return &r->pend[i];
	return NULL;
}

/* To ask may hang, as reads of its memory may: of one whose memory does, or of which nothing was
 * read, nobody asks. */
static bool has_left(struct reader *r, const struct walk *w)
{
	uint64_t turn;
	bool ret;

	if (w->res.end == PYSTACK_END_N ||
	    (w->published && atomic_load(&w->published->state) == TARGET_QUARANTINED))
		return true;
	guarded_target(&r->mem, w->pid, w->tid);
	turn = guarded_enter(&r->mem);
	ret = target_left(w->published, w->pid, w->sample_ns);
	guarded_leave(&r->mem, turn);
	return ret;
}

/* Is what was read at another moment than the event's still the same, and the same process's?
 * Nobody takes the number of one that has a thread which has not run since. */
static bool is_unchanged(struct reader *r, const struct walk *w)
{
	if (w->res.end == PYSTACK_OK && w->program &&
	    !pystack_unchanged(&w->res, &r->mem.base))
		return false;
	return !tap_answer(r, TAP_LEFT, (uint64_t)w->pid, has_left(r, w));
}

bool hold_walk(struct reader *r, const struct pending *first, struct walk *w)
{
	struct target *t = targets_find(r->c->targets, first->s.pid);

	*w = (struct walk){ .pid = first->s.pid,
			    .tid = first->s.tid,
			    .sample_ns = first->s.time,
			    .published = t,
			    .unchanged = true,
			    .reads_ns = reads_ns(r) };
	if (r->tap)
		r->tap->target(r, w->pid, t);
	if (hold_ignored(r, w->tid, t))
		return false;
	if (t)
		target_note_ran(t, first->s.tid);
	if (r->c->table && !program_settled(r, t))
		hold_see_all_rings(r);
	program_readable(r, w);
	read_stack(r, &hold_last_of(r, w)->s, w);
	w->unmapped = is_unmapped(r, w);
	return true;
}

void hold_judge(struct reader *r, struct walk *w)
{
	struct pending *last = hold_last_of(r, w);
	const struct target *t = w->program;

	if (r->c->table && !program_settled(r, t))
		hold_see_all_rings(r);
	look_up_again(r, t, w);
	w->began_ns = MAX(births_execed(r->c->births, w->pid), t ? t->begun_ns : 0);
	w->latest = judge(r, last, w);
	if (w->latest != JUDGE_EXACT)
		w->unchanged = is_unchanged(r, w);
	else if (w->unmapped && !w->undecided)
		w->res.end = PYSTACK_NOPYTHON;
	look_at_another(r, w->t_end);
	for (uint32_t i = 0; i < r->n_pend; i++)
		if (is_of(&r->pend[i], w->tid, w->early))
			emit(r, &r->pend[i], w);
}

/* Of one whose memory hangs it is not asked: that may hang as well. */
static bool moved_now(struct reader *r, const struct walk *w)
{
	uint64_t turn;
	bool ret;

	if (w->program && atomic_load(&w->program->state) == TARGET_QUARANTINED)
		return true;
	guarded_target(&r->mem, w->pid, w->tid);
	turn = guarded_enter(&r->mem);
	ret = proof_moved(&r->stat_files, w->pid, w->tid, r->slot->cpu);
	guarded_leave(&r->mem, turn);
	return ret;
}

/* Where switches are hidden it may be on another CPU now, or it has come back from there: that
 * shows in what was seen after it was found to be here. */
void hold_release(struct reader *r, struct walk *w)
{
	uint64_t t_out = hold_last_of(r, w)->hold.t_out;
	uint64_t since = t_out ? t_out : w->sample_ns;
	bool hidden = r->c->switches_hidden && !r->wait;
	bool moved = hidden && !proof_clear(r->c, &r->sight, since) && moved_now(r, w);

	w->ran = ran_since(r, w->tid, since);
	w->came_ns = tap_answer(r, TAP_CAME, (uint64_t)w->tid, proof_came(r->c, w->tid));
	if (!w->ran && hidden &&
	    tap_answer(r, TAP_MOVED, (uint64_t)w->tid,
		       moved || proof_left_another(r->c, r->slot, w->tid, since))) {
		STATS_ADD(r->c->stats, late_unseen, 1);
		w->ran = true;
	}
	w->t_end = now_ns();
}

void hold_thread(struct reader *r, uint32_t first)
{
	struct walk w;

	if (!hold_walk(r, &r->pend[first], &w))
		return;
	r->c->capture->release(r, &w);
	hold_judge(r, &w);
}

enum witness hold_witness(const struct pending *p, const void *regs)
{
	return arch_same_place(p->s.regs, regs, p->hold.in_kernel) ||
			       (p->probe && arch_at_probe(p->s.regs, regs, p->jumps)) ?
		       WITNESS_SAME :
		       WITNESS_MOVED;
}

/* What a thread had executed of user code: the last event of the group. */
static uint64_t instructions_of(const struct perf_sample *s)
{
	return s->n_reads ? load_u64(s->reads + 16 * ((size_t)s->n_reads - 1)) : 0;
}

void hold_counted(struct stats *s, struct pending *p, const struct perf_sample *left)
{
	/* An interrupt counts as one or two on x86, what a probe stands for as one. */
	enum { FEW = 8 };
	uint64_t ran = instructions_of(left) - instructions_of(&p->s);

	p->hold.counted = true;
	if (ran <= FEW || p->hold.witness == WITNESS_MOVED)
		return;
	p->hold.witness = WITNESS_MOVED;
	STATS_ADD(s, late_loop, 1);
}

void hold_forget_processed(struct reader *r)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n_pend; i++)
		if (!r->pend[i].done)
			r->pend[n++] = r->pend[i];
	r->n_pend = n;
}

void hold_flush(struct reader *r)
{
	for (uint32_t i = 0; i < r->n_pend; i++)
		if (!r->pend[i].done)
			hold_thread(r, i);
	r->n_pend = 0;
}

void hold_shed(struct reader *r)
{
	STATS_ADD(r->c->stats, shed, r->n_pend);
	r->n_pend = 0;
}
