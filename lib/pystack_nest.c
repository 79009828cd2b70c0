/* SPDX-License-Identifier: MIT
 *
 * pystack_nest - a thread that is in several interpreters at once: Python code that runs code
 * in another interpreter does so on the same C stack, with a thread state of its own.
 *
 * Which state is active tells little: without the GIL none is. But each has something on the
 * C stack while it runs a frame, and the innermost lies lowest.
 */
#include <errno.h>

#include "pystack_int.h"

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

/* All of the thread's states. 0 or -errno. */
static int nest_find(struct pystack *p, const struct pystack_target *t, pid_t tid, pid_t inner,
		     struct nest *n)
{
	uint64_t unique;
	int r;

	if (n->program == t->program && n->tid == tid && n->inner == inner && n->unique &&
	    pyframe_threads_unique(p->mem, &t->walk, &unique) == 0 && unique == n->unique)
		return 0;
	*n = (struct nest){ .program = t->program, .tid = tid, .inner = inner };
	r = pyframe_find_states(p->mem, &t->walk, (uint64_t)inner, FIND_MAX, n->state,
				N_STATES, &n->n, &n->unique);
	if (r < 0) /* not all were seen */
		n->unique = 0;
	return r;
}

static const raddr UNKNOWN = UINT64_MAX;

/* The lowest place on the C stack that is the state's; 0: it runs nothing, or is another
 * thread's by now. */
static raddr position(struct pystack *p, const struct pystack_target *t, raddr ts, pid_t inner)
{
	struct pywalk w;
	uint64_t id;

	if (rmem_read_u64(p->mem, ts + t->walk.ts_tid, &id) < 0 || id != (uint64_t)inner ||
	    !pyframe_runs(p->mem, &t->walk, ts))
		return 0;
	w = pyframe_walk(p->mem, &t->walk, ts, p->walked, PYWALK_MAX_FRAMES);
	if (w.cframe)
		return w.cframe;
	for (uint32_t i = 0; i < w.n; i++)
		if (p->walked[i].frame & PYFRAME_SHIM)
			return p->walked[i].frame & ~(raddr)PYFRAME_BITS;
	return UNKNOWN;
}

/* Those that run to the front, innermost first. How many, or -errno. */
static int nest_sort(struct pystack *p, const struct pystack_target *t, struct nest *n)
{
	raddr at[N_STATES];
	uint32_t runs = 0;

	for (uint32_t i = 0; i < n->n; i++) {
		raddr ts = n->state[i], lies = position(p, t, ts, n->inner);
		uint32_t k = runs;

		if (lies == UNKNOWN)
			return -ELOOP;
		if (!lies)
			continue;
		n->state[i] = n->state[runs];
		for (; k > 0 && at[k - 1] > lies; k--) {
			at[k] = at[k - 1];
			n->state[k] = n->state[k - 1];
		}
		at[k] = lies;
		n->state[k] = ts;
		runs++;
	}
	return (int)runs;
}

int nest_states(struct pystack *p, const struct pystack_target *t, pid_t tid, pid_t inner)
{
	struct nest *n = &p->nests[(uint32_t)tid & (N_NESTS - 1)];
	int r = nest_find(p, t, tid, inner, n);

	if (r < 0)
		return r;
	for (uint32_t i = 1; i < n->runs; i++)
		pystack_fetch(p, pystack_thread(p, t->program, tid, i));
	for (uint32_t i = 0; i < n->n; i++)
		rmem_batch_want(&p->batch, n->state[i], TSTATE_BYTES);
	rmem_batch_fetch(&p->batch);
	r = nest_sort(p, t, n);
	n->runs = r > 0 ? (uint32_t)r : 0;
	for (uint32_t i = 0; i < n->runs; i++) {
		struct thread *th = pystack_thread(p, t->program, tid, i);

		if (th->tstate != n->state[i])
			*th = (struct thread){ .program = t->program,
					       .tid = tid,
					       .level = i,
					       .tstate = n->state[i] };
	}
	return r;
}
