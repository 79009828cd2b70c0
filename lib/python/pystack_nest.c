/* SPDX-License-Identifier: MIT
 *
 * pystack_nest - which thread states run on a thread: several if it is in several interpreters
 * at once, for Python code that runs code in another interpreter does so on the same C stack;
 * and those that bear another thread's number.
 *
 * Which state is active tells little: without the GIL none is. But each has something on the
 * C stack while it runs a frame, and the innermost lies lowest.
 */
#include <errno.h>

#include "python/pygil.h"
#include "python/pystack_int.h"

enum {
	MINE_MAX = 64,	/* states that run on one thread */
	WIDE_MAX = 128, /* states that are all looked at; of more those that the stack names */
	FEW = 16,	/* the same where each means a walk */
	ROW_BYTES = 256,
};

bool nest_wanted(struct pystack *p, const struct pystack_target *t, struct thread *th)
{
	const struct pywalk_layout *l = &t->walk;
	raddr head, next;

	if (rmem_read_u64(p->mem, l->interp_head, &head) < 0 ||
	    rmem_read_u64(p->mem, head + l->interp_next, &next) < 0)
		return false;
	pystack_plan(th, l->interp_head, l->interp_head + sizeof(head));
	pystack_plan(th, head + l->interp_next, head + l->interp_next + sizeof(next));
	return next;
}

/* --- all states of a process --- */

static void sort(raddr *at, uint32_t n)
{
	for (uint32_t gap = n / 2; gap > 0; gap /= 2)
		for (uint32_t i = gap; i < n; i++) {
			raddr v = at[i];
			uint32_t k = i;

			for (; k >= gap && at[k - gap] > v; k -= gap)
				at[k] = at[k - gap];
			at[k] = v;
		}
}

static int find_states(struct pystack *p, const struct pystack_target *t, struct states **ret)
{
	struct states *s = &p->states[(uint32_t)t->pid & (N_LISTS - 1)];
	uint64_t unique;
	int r;

	*ret = s;
	if (s->program == t->program && s->unique &&
	    pyframe_threads_unique(p->mem, &t->walk, &unique) == 0 && unique == s->unique)
		return 0;
	s->program = t->program;
	r = pyframe_all_states(p->mem, &t->walk, FIND_MAX, s->at, N_STATES, &s->n, &s->unique);
	if (r < 0) { /* not all were seen */
		s->unique = 0;
		return r;
	}
	sort(s->at, s->n);
	return 0;
}

/* --- those that run on the thread --- */

/* What a row needs lies in [*lo, the result) of a thread state. */
static uint32_t row_span(const struct pywalk_layout *l, uint32_t *lo)
{
	uint32_t hi = MAX(l->ts_frame, l->ts_thread);

	*lo = MIN(l->ts_frame, l->ts_thread);
	if (l->ts_tid != PYWALK_NONE) {
		*lo = MIN(*lo, l->ts_tid);
		hi = MAX(hi, l->ts_tid);
	}
	return hi + 8;
}

/* Rows of states [from, from + n), n at most RMEM_MAX_VEC; of those that can't be read any
 * more the frame is 0. */
static void read_rows(struct pystack *p, const struct pywalk_layout *l, const struct states *s,
		      uint32_t from, uint32_t n, struct state_row *row)
{
	unsigned char bytes[RMEM_MAX_VEC][ROW_BYTES];
	struct rmem_vec v[RMEM_MAX_VEC];
	uint32_t lo, hi = row_span(l, &lo);

	for (uint32_t i = 0; i < n; i++)
		v[i] = (struct rmem_vec){ s->at[from + i] + lo, bytes[i], hi - lo };
	memset(row, 0, n * sizeof(*row));
	for (uint32_t i = 0; i < n && hi - lo <= ROW_BYTES; i++) {
		size_t got = rmem_readv(p->mem, v + i, n - i);

		for (; got; got--, i++) {
			row[i] = (struct state_row){
				.at = s->at[from + i],
				.frame = load_u64(bytes[i] + l->ts_frame - lo),
				.pthread = load_u64(bytes[i] + l->ts_thread - lo),
			};
			if (l->ts_tid != PYWALK_NONE)
				row[i].number = load_u64(bytes[i] + l->ts_tid - lo);
			else
				pyframe_state_number(p->mem, l, row[i].at, &row[i].number);
		}
	}
}

/* Those that run, lowest first. */
struct mine {
	uint32_t n;
	bool unknown; /* there is one that may run on the thread */
	bool broken;  /* or of which that can't be told just now */
	struct state_row row[MINE_MAX];
	raddr lies[MINE_MAX];
};

static void add(struct mine *m, const struct state_row *row, raddr lies)
{
	uint32_t k = m->n;

	if (m->n == MINE_MAX) {
		m->broken = true;
		return;
	}
	for (; k > 0 && m->lies[k - 1] > lies; k--) {
		m->lies[k] = m->lies[k - 1];
		m->row[k] = m->row[k - 1];
	}
	m->lies[k] = lies;
	m->row[k] = *row;
	m->n++;
}

static void look_at(struct pystack *p, const struct pystack_target *t, struct thread *th,
		    pid_t inner, const struct state_row *row, struct mine *m)
{
	bool cframe = t->walk.cf_frame != PYWALK_NONE;
	enum place place;
	raddr lies, at;

	if (!row->frame || (!cframe && !pyframe_runs(p->mem, &t->walk, row->at)))
		return;
	lies = place_innermost(p, t, row->at, row->frame);
	if (!lies) {
		m->broken |= !cframe && place_is_number(p, th, row->number, inner);
		return;
	}
	at = place_on_stack(p, t, row->at, lies);
	place = place_of(p, t, th, row, at, inner);
	if (place == PLACE_OTHERS || (cframe && !pyframe_runs(p->mem, &t->walk, row->at)))
		return;
	if (place == PLACE_OURS)
		add(m, row, lies);
	m->unknown |= place == PLACE_UNKNOWN;
}

/* Up to 3.10 nothing that a state's frames keep lies on the C stack. But each evaluation loop
 * has the state's address at hand, so it stands in the registers or on the stack of the thread
 * that runs it (@seen): one that bears the thread's number and isn't there may run on another.
 * Of several the one that runs is the innermost, where the runtime says which (@current, else
 * 0). */
static void look_at_old(struct pystack *p, struct thread *th, pid_t inner,
			const struct state_row *row, bool seen, raddr current, struct mine *m)
{
	bool ours = place_is_number(p, th, row->number, inner);

	if (!row->frame)
		return;
	/* Another thread has made it, and may run it. */
	m->unknown |= ours != seen;
	if (ours && seen)
		add(m, row, row->at == current ? 1 : 2);
}

/* True: it is known which of several is the innermost, and where the others lie. */
static bool is_ordered(const struct mine *m)
{
	return m->n < 2 || (m->n == 2 && m->lies[0] < m->lies[1]);
}

static raddr current_state(struct pystack *p, const struct pystack_target *t)
{
	raddr at = 0;

	if (pyoff_has(t->layout.runtime.current))
		rmem_read_u64(p->mem,
			      pygil_runtime(&t->layout, &t->walk) +
				      pyoff_get(t->layout.runtime.current),
			      &at);
	return at;
}

static void look_at_all_old(struct pystack *p, const struct pystack_target *t,
			    struct thread *th, pid_t inner, struct states *s, struct mine *m)
{
	raddr current = current_state(p, t);
	struct state_row row[RMEM_MAX_VEC];

	place_scan(p, s, true);
	for (uint32_t from = 0; from < s->n; from += RMEM_MAX_VEC) {
		uint32_t n = MIN(s->n - from, (uint32_t)RMEM_MAX_VEC);

		read_rows(p, &t->walk, s, from, n, row);
		for (uint32_t i = 0; i < n; i++)
			look_at_old(p, th, inner, &row[i], s->seen[from + i], current, m);
	}
	m->broken |= !is_ordered(m);
	if (m->unknown)
		m->n = 0;
}

/* What a state that may run on thread @th shows before its frames are looked at: the thread's
 * number, or its address on the thread's stack; or that of a struct pthread which fork() has
 * made the thread's. */
static bool is_likely(struct pystack *p, const struct thread *th, pid_t inner,
		      const struct state_row *row, bool seen, bool deep)
{
	return seen || place_is_number(p, th, row->number, inner) ||
	       (deep && th->tid == th->pid && place_is_pthread(p, row->pthread, inner));
}

/* Of few states all are looked at: of more where that is cheap, up to 3.12. */
static void look_at_all(struct pystack *p, const struct pystack_target *t, struct thread *th,
			pid_t inner, struct states *s, enum nest_search how, struct mine *m)
{
	bool wide = s->n <= (t->walk.cf_frame != PYWALK_NONE ? WIDE_MAX : FEW) || !p->place.sp;
	bool deep = how != NEST_QUICK;
	struct state_row row[RMEM_MAX_VEC];

	if (!wide)
		place_scan(p, s, deep);
	for (uint32_t from = 0; from < s->n; from += RMEM_MAX_VEC) {
		uint32_t n = MIN(s->n - from, (uint32_t)RMEM_MAX_VEC);

		read_rows(p, &t->walk, s, from, n, row);
		for (uint32_t i = 0; i < n; i++)
			if (wide || is_likely(p, th, inner, &row[i], s->seen[from + i], deep))
				look_at(p, t, th, inner, &row[i], m);
	}
}

/* Is there any among them that the stack names? Only these need a look. */
static bool stack_names(struct pystack *p, struct states *s)
{
	place_scan(p, s, false);
	return memchr(s->seen, true, s->n);
}

/* What is known of each, in a struct thread of its level. */
static void note_levels(struct pystack *p, const struct pystack_target *t, struct thread *th,
			const struct mine *m)
{
	struct thread home = *th;

	for (uint32_t i = 0; i < m->n; i++) {
		struct thread *level = pystack_thread(p, t->program, home.tid, i);

		if (level->tstate != m->row[i].at)
			*level = (struct thread){ .program = t->program,
						  .pid = t->pid,
						  .tid = home.tid,
						  .level = i,
						  .tstate = m->row[i].at };
		level->number = m->row[i].number;
		level->pthread = m->row[i].pthread;
		level->stack_lo = home.stack_lo;
		level->stack_hi = home.stack_hi;
	}
	th->levels = m->n;
}

int nest_states(struct pystack *p, const struct pystack_target *t, struct thread *th,
		pid_t inner, enum nest_search how)
{
	struct mine m = { 0 };
	struct states *s;
	int r;

	if (how != NEST_ALL && !p->place.sp && th->tid != th->pid)
		return 0;
	r = find_states(p, t, &s);
	if (r < 0 || (how == NEST_QUICK && !stack_names(p, s)))
		return r;
	for (uint32_t i = 1; i < th->levels; i++)
		pystack_fetch(p, pystack_thread(p, t->program, th->tid, i));
	if (how == NEST_ALL && t->walk.lasti_unit)
		look_at_all_old(p, t, th, inner, s, &m);
	else
		look_at_all(p, t, th, inner, s, how, &m);
	if (m.broken)
		return -ELOOP;
	if (m.n)
		note_levels(p, t, th, &m);
	return m.n || !m.unknown ? (int)m.n : -EXDEV;
}
