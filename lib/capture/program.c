/* SPDX-License-Identifier: MIT
 *
 * program - what a process is by now: what the control thread has published of it, if no
 * record tells otherwise; and the interpreter that a new program has mapped, if it is known
 * from another process.
 */
#include "base/stats.h"
#include "offsets/debug_offsets.h"
#include "targets/births.h"
#include "capture/reader_int.h"

/* The control thread is asked to look at @t, once; by the next sample if there is no room. */
static void ask_for_look(struct reader *r, struct target *t, const struct walk *w)
{
	struct ctl_msg m = { .pid = w->pid, .time = w->sample_ns };

	if (!atomic_exchange(&t->asked, true) && !emit_control(r, CTL_LOOK, m))
		atomic_store(&t->asked, false);
}

/* The sample can't be judged: the control thread is asked to look at the process, and the
 * resolver will know what it saw. */
enum pystack_end program_ask(struct reader *r, struct target *t, struct walk *w)
{
	w->undecided = true;
	if (!t)
		emit_control(r, CTL_UNKNOWN, (struct ctl_msg){ .pid = w->pid });
	else
		ask_for_look(r, t, w);
	return PYSTACK_END_N;
}

/* True: @t is not what the process is now, as far as has been noted. */
static bool outdated(const struct reader *r, const struct target *t)
{
	return births_execed(r->c->births, t->pid) > t->begun_ns;
}

/* It had none when it was looked at. */
static bool still_none(const struct reader *r, const struct target *t)
{
	uint64_t looked = atomic_load(&t->none_ns);
	uint64_t blind = atomic_load_explicit(&r->c->blind_ns, memory_order_relaxed);

	/* At the end of the recording all is blind, and nobody looks any more. */
	return births_mapped(r->c->births, t->pid) < looked &&
	       (blind < looked || blind == UINT64_MAX);
}

/* Is the interpreter @known in @pid's memory, @moved further than where it was proven? Its data
 * may not be mapped yet; if it is, it tells the same layout. */
static bool is_there(struct reader *r, pid_t pid, const struct births_code *known,
		     uint64_t moved)
{
	unsigned char id[sizeof(known->code.build_id)], told[DEBUG_OFFSETS_MAX];
	const struct rmem_vec v[] = {
		{ known->code.build_id_at + moved, id, known->code.build_id_n },
		{ known->runtime + moved, told, sizeof(told) },
	};
	size_t n;

	if (atomic_load_explicit(&known->disputed, memory_order_relaxed))
		return false;
	guarded_target(&r->mem, pid, 0);
	n = rmem_readv(&r->mem.base, v, ARRAY_SIZE(v));
	return n && !memcmp(id, known->code.build_id, known->code.build_id_n) &&
	       (n == 1 ||
		debug_offsets_agree((struct bytes){ told, sizeof(told) }, &known->py.layout));
}

/* @t runs @known's interpreter, which lies @moved further. */
static struct target alike(const struct target *t, const struct births_code *known,
			   uint64_t moved)
{
	struct target n = { .pid = t->pid,
			    .state = TARGET_PYTHON,
			    .py = known->py,
			    .version = known->version,
			    .runtime = known->runtime + moved };

	n.py.pid = t->pid;
	pywalk_layout_init(&n.py.walk, &n.py.layout, n.runtime);
	if (n.py.code_versions)
		n.py.code_versions += moved;
	return n;
}

/* The interpreter that @t's process has mapped since it became another program, if it is the
 * one of another process that is known: the same file, at the same distances. Else NULL. */
static struct target *newborn(struct reader *r, const struct target *t)
{
	uint64_t since = births_execed(r->c->births, t->pid), at;
	const struct births_code *known = births_interpreter(r->c->births, t->pid, since, &at);
	struct target *n = &r->newborn[(uint32_t)t->pid % NEWBORNS];
	uint64_t moved;

	if (!known || !since)
		return NULL;
	if (n->pid == t->pid && n->begun_ns == since && n->code.at == at)
		return n;
	moved = at - known->code.at;
	if (!is_there(r, t->pid, known, moved))
		return NULL;
	*n = (struct target){
		.pid = t->pid, .state = TARGET_PYTHON, .begun_ns = since, .py = known->py
	};
	if (target_state_learnt(atomic_load_explicit(&t->state, memory_order_acquire))) {
		n->inner_tids = t->inner_tids;
		n->inner = t->inner;
	}
	n->code.at = at;
	n->py.pid = t->pid;
	n->py.root = 0; /* its stack lies elsewhere */
	/* The control thread's are positive. */
	n->py.program = r->n_newborn -= PYSTACK_SEVERAL;
	pywalk_layout_init(&n->py.walk, &n->py.layout, known->runtime + moved);
	if (n->py.code_versions)
		n->py.code_versions += moved;
	return n;
}

/* The known interpreter that @t's process has, and how much further than where it was proven:
 * as the scout saw, or at the same place, for workers are copies of who forked them. */
static const struct births_code *recognise(struct reader *r, const struct target *t,
					   uint64_t *moved)
{
	uint32_t seen = atomic_load_explicit(&t->code_number, memory_order_acquire);
	const struct births_code *known = seen ? births_known(r->c->births, seen - 1) : NULL;

	*moved = known ? t->code_at - known->code.at : 0;
	if (known && is_there(r, t->pid, known, *moved))
		return known;
	*moved = 0;
	for (uint32_t i = 0; (known = births_known(r->c->births, i)); i++)
		if (is_there(r, t->pid, known, 0))
			return known;
	return NULL;
}

/* A process that began before the recording and that nobody has looked at yet, if it has a
 * known interpreter. NULL: no. */
static struct target *sleeper(struct reader *r, const struct target *t)
{
	struct target *n = &r->newborn[(uint32_t)t->pid % NEWBORNS];
	const struct births_code *known;
	uint64_t moved;

	if (r->crowded || !t->plain || outdated(r, t) ||
	    atomic_load(&t->state) != TARGET_PENDING)
		return NULL;
	if (n->pid == t->pid && n->begun_ns == t->begun_ns)
		return n;
	known = recognise(r, t, &moved);
	if (!known || known->inner_tids)
		return NULL;
	*n = alike(t, known, moved);
	n->begun_ns = t->begun_ns;
	n->unborn = true; /* it may be young, and nobody knows who forked it */
	n->py.root = 0;	  /* its stack may lie elsewhere */
	n->py.program = r->n_newborn -= PYSTACK_SEVERAL;
	return n;
}

enum { GENERATIONS = 8 };

/* The process that forked @pid, as far as it is known, with what it is. */
static const struct target *parent_of(struct reader *r, const struct births_fork *f,
				      int depth);

/* Until its exec a forked process is its parent's copy, which the control thread may not have
 * heard of yet. NULL: it is not known whose, or the parent is another program by now. */
static struct target *forked(struct reader *r, pid_t pid, int depth)
{
	struct target *n = &r->newborn[(uint32_t)pid % NEWBORNS];
	const struct target *parent;
	struct births_fork f;

	if (!births_forked(r->c->births, pid, &f))
		return NULL;
	if (n->pid == pid && n->begun_ns == f.time)
		return n;
	parent = parent_of(r, &f, depth);
	if (!parent || parent == n)
		return NULL;
	*n = (struct target){ .pid = pid,
			      .state = TARGET_PYTHON,
			      .begun_ns = f.time,
			      .forker = f.ptid,
			      .py = parent->py,
			      .version = parent->version,
			      .runtime = parent->runtime,
			      .code = parent->code };
	n->py.pid = pid;
	n->py.program = r->n_newborn -= PYSTACK_SEVERAL;
	/* It is a copy of the others, too. */
	atomic_init(&n->others, target_others(parent));
	n->looked_ns = parent->looked_ns;
	return n;
}

static const struct target *parent_of(struct reader *r, const struct births_fork *f, int depth)
{
	const struct target *parent = targets_find(r->c->targets, f->ppid);

	if (!parent)
		parent = depth ? forked(r, f->ppid, depth - 1) : NULL;
	if (!parent || parent->begun_ns > f->time || outdated(r, parent))
		return NULL;
	/* What else is known of it stands once it is Python. In a PID namespace of its own the
	 * threads' numbers would have to be looked up. */
	if (atomic_load_explicit(&parent->state, memory_order_acquire) == TARGET_PYTHON)
		return parent->inner_tids ? NULL : parent;
	return sleeper(r, parent);
}

/* Its runtime is known, but nothing of its layout proven: only that there is none yet. */
static bool not_begun(struct reader *r, const struct target *t)
{
	uint64_t head;

	guarded_target(&r->mem, t->pid, 0);
	return rmem_read_u64(&r->mem.base, t->py.walk.interp_head, &head) == 0 && !head;
}

/* Nobody has found its interpreter yet. */
static bool may_be_newborn(const struct reader *r, const struct target *t)
{
	int state = atomic_load_explicit(&t->state, memory_order_acquire);

	return outdated(r, t) || state == TARGET_PENDING || state == TARGET_STARTING ||
	       (state == TARGET_NOPYTHON && !still_none(r, t));
}

/* It may be a process of a user whose processes are not read. */
static bool is_unjudged(const struct reader *r, const struct target *t)
{
	int state = t ? atomic_load_explicit(&t->state, memory_order_acquire) : TARGET_PENDING;

	return state == TARGET_PENDING || state == TARGET_STARTING || outdated(r, t);
}

/* Whether it has mapped no file since it was looked at that may hold an interpreter. */
static bool others_known(const struct reader *r, const struct target *t)
{
	return births_python(r->c->births, t->pid) <= atomic_load(&t->looked_ns);
}

static enum pystack_end readable(struct reader *r, struct walk *w)
{
	struct target *t = w->program;

	if (!t && (t = forked(r, w->pid, GENERATIONS))) {
		w->program = t;
		return PYSTACK_OK;
	}
	if (r->crowded && is_unjudged(r, t))
		return program_ask(r, t, w);
	if (!t && (t = newborn(r, &(struct target){ .pid = w->pid }))) {
		emit_control(r, CTL_UNKNOWN, (struct ctl_msg){ .pid = w->pid });
		w->program = t;
		return PYSTACK_OK;
	}
	if (t && may_be_newborn(r, t)) {
		struct target *n = newborn(r, t);

		n = n ? n : sleeper(r, t);
		if (n) {
			w->program = n;
			ask_for_look(r, t, w);
			return PYSTACK_OK;
		}
	}
	if (!t || outdated(r, t))
		return program_ask(r, t, w);
	switch (atomic_load_explicit(&t->state, memory_order_acquire)) {
	case TARGET_PYTHON:
		return others_known(r, t) ? PYSTACK_OK : program_ask(r, t, w);
	case TARGET_NOPYTHON:
		return still_none(r, t) ? PYSTACK_NOPYTHON : program_ask(r, t, w);
	case TARGET_STARTING:
		return not_begun(r, t) ? PYSTACK_NOPYTHON : program_ask(r, t, w);
	case TARGET_PENDING:
		return program_ask(r, t, w);
	case TARGET_QUARANTINED:
		if (t->nopython && still_none(r, t))
			return PYSTACK_NOPYTHON;
		STATS_ADD(r->c->stats, torn_quarantined, 1);
		return PYSTACK_END_N;
	default:
		STATS_ADD(r->c->stats, torn_notready, 1);
		return PYSTACK_END_N;
	}
}

void program_readable(struct reader *r, struct walk *w)
{
	w->program = w->published;
	w->able = readable(r, w);
}

bool program_settled(struct reader *r, const struct target *t)
{
	return t && !outdated(r, t) &&
	       atomic_load_explicit(&t->state, memory_order_acquire) == TARGET_PYTHON &&
	       !tap_answer(r, TAP_EXECED, (uint64_t)t->pid,
			   run_table_execed(r->c->table, t->pid, r->saw_all_ns));
}

/* True: of @t a reader knows by a record when it began, and its number was given to a child later.
 */
static bool is_anothers(const struct reader *r, const struct target *t)
{
	struct births_fork f;

	return t->py.program < 0 && t->begun_ns && births_forked(r->c->births, t->pid, &f) &&
	       f.time > t->begun_ns;
}

bool program_stands(struct reader *r, const struct target *t, bool none)
{
	if (outdated(r, t) || is_anothers(r, t))
		return false;
	return !none || atomic_load(&t->state) != TARGET_NOPYTHON || still_none(r, t);
}
