/* SPDX-License-Identifier: MIT
 *
 * dump_read - a thread's stack, and what it does, without stopping it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/array.h"
#include "base/base.h"
#include "pyframe_walk.h"
#include "dump_int.h"

enum {
	TRIES = 20, /* of each thread, and of what changes while it is read */
	PATIENCE = 10,
	PAUSE_NS = 500 * 1000,
	PAGE = 4096,
	MAX_STATES = 1 << 16
};

static struct bytes read_c_stack(struct dump *d, uint64_t sp)
{
	struct rmem_vec v[RMEM_MAX_VEC];
	size_t n = 0, got = RMEM_MAX_VEC;

	/* a call reads whole pieces, up to the first that can't be read */
	while (n < DUMP_STACK_BYTES && got == RMEM_MAX_VEC) {
		uint64_t at = sp + n;
		size_t k = 0, to = n;

		for (; k < RMEM_MAX_VEC && to < DUMP_STACK_BYTES; k++) {
			size_t piece = MIN(PAGE - at % PAGE, DUMP_STACK_BYTES - to);

			v[k] = (struct rmem_vec){ at, d->stack + to, piece };
			at += piece;
			to += piece;
		}
		got = rmem_readv(&d->live.base, v, k);
		for (size_t i = 0; i < got; i++)
			n += v[i].n;
	}
	return (struct bytes){ .at = d->stack, .n = n };
}

static int compare_states(const void *a, const void *b)
{
	const struct dump_state *x = a, *y = b;

	return COMPARE(x->number, y->number);
}

/* All thread states at once: each thread's own search would go through all of them. Where they
 * can't be had, each thread is searched for. */
static void find_states(struct dump *d)
{
	_cleanup_free_ raddr *at = d->others ? NULL : calloc(MAX_STATES, sizeof(*at));
	struct dump_state *state;
	uint32_t n = 0;

	if (!at || pyframe_all_states(&d->live.base, &d->target.walk, MAX_STATES, at,
				      MAX_STATES, &n, &d->unique) < 0)
		return;
	state = d->state = calloc(n + 1, sizeof(*state));
	for (uint32_t i = 0; state && i < n; i++) {
		state->at = at[i];
		if (pyframe_state_number(&d->live.base, &d->target.walk, at[i],
					 &state->number) < 0) {
			free(d->state);
			d->state = NULL;
			return;
		}
		state++;
	}
	d->n_states = (size_t)(state - d->state);
	qsort(d->state, d->n_states, sizeof(*state), compare_states);
}

static void keep_name(void *arg, uint32_t number, const char *name)
{
	struct dump *d = arg;
	struct dump_called *c;

	if (!array_reserve(&d->called, &d->cap_called, d->n_called + 1, sizeof(*c))) {
		STATS_ADD(&d->stats, unread, 1);
		return;
	}
	c = &d->called[d->n_called++];
	c->number = number;
	snprintf(c->name, sizeof(c->name), "%s", name);
}

static void find_names(struct dump *d, const struct pylayout *l, raddr runtime)
{
	const size_t before = d->n_called;
	const struct pynames_look look = { .all = true, .found = keep_name, .arg = d };
	struct pynames names = { 0 };

	for (int i = 0; i < TRIES; i++) {
		d->n_called = before;
		if (pynames_look(&d->live.base, l, runtime, &names, &look) != PYNAMES_TORN)
			break;
	}
	pynames_deinit(&names);
}

/* --- the GIL --- */

static bool is_thread(const struct dump *d, uint64_t number)
{
	for (size_t i = 0; i < d->n_threads; i++)
		if ((uint64_t)d->thread[i].inner == number)
			return true;
	return false;
}

/* A holder that is no thread of the process is not believed: it may just be born of a fork. */
static struct pygil_look look_at_gil(struct dump *d, uint32_t i)
{
	struct pygil_look look;
	int r = -EAGAIN;

	for (int tries = 0; r == -EAGAIN && tries < TRIES; tries++)
		r = pygil_read(&d->live.base, &d->gils, i, &look);
	if (r < 0 || (look.holder && !is_thread(d, look.holder)))
		look = (struct pygil_look){ .switches = UINT64_MAX };
	return look;
}

static enum dump_gil holds_gil(struct dump *d, pid_t inner)
{
	enum dump_gil ret = d->gils.n ? DUMP_GIL_NO : DUMP_GIL_UNKNOWN;

	for (uint32_t i = 0; i < d->gils.n; i++) {
		struct pygil_look look = look_at_gil(d, i);

		if (look.known && look.holder == (uint64_t)inner)
			return DUMP_GIL_YES;
		if (!look.known)
			ret = DUMP_GIL_UNKNOWN;
	}
	return ret;
}

void dump_before_samples(struct dump *d)
{
	for (uint32_t i = 0; i < d->gils.n; i++)
		d->sampled[i] = look_at_gil(d, i);
}

/* Its sample tells, or, if that knows no thread state: it ran at some moment since, and did not
 * hold a GIL that nobody else has taken meanwhile. Who is in no Python code may have given it
 * back by now, or taken it. */
enum dump_gil dump_gil_sampled(struct dump *d, const struct dump_thread *t,
			       const struct running *sample)
{
	enum dump_gil ret = d->gils.n ? DUMP_GIL_NO : DUMP_GIL_UNKNOWN;
	const uint64_t inner = (uint64_t)t->inner;

	if (d->gils.n && sample->gil != PYGIL_UNKNOWN)
		return sample->gil == PYGIL_HAS ? DUMP_GIL_YES : DUMP_GIL_NO;

	for (uint32_t i = 0; i < d->gils.n; i++) {
		struct pygil_look look = look_at_gil(d, i), *was = &d->sampled[i];

		if (look.known && look.holder == inner)
			return sample->python ? DUMP_GIL_YES : DUMP_GIL_UNKNOWN;
		if (!look.known || !was->known || was->switches == UINT64_MAX ||
		    was->switches != look.switches || was->holder == inner)
			ret = DUMP_GIL_UNKNOWN;
	}
	return ret;
}

static bool in_gil(const struct dump *d, const struct proc_wait *wait)
{
	return wait->syscall == SYS_futex && pygil_waits(&d->gils, wait->arg);
}

bool dump_waits_for_gil(const struct dump *d, const struct dump_found *f)
{
	return f->asleep && f->gil != DUMP_GIL_YES && in_gil(d, &f->wait);
}

/* True: another thread holds a GIL. */
static bool may_wait(struct dump *d, pid_t tid)
{
	uint64_t inner = 0;

	for (size_t i = 0; i < d->n_threads; i++)
		if (d->thread[i].tid == tid)
			inner = (uint64_t)d->thread[i].inner;
	for (uint32_t i = 0; i < d->gils.n; i++) {
		struct pygil_look look = look_at_gil(d, i);

		if (look.holder && look.holder != inner)
			return true;
	}
	return false;
}

size_t dump_leave_running(struct dump *d, struct running *r, size_t n)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct proc_wait wait;
	bool unsure = true;

	for (int i = 0; i < TRIES && unsure; i++) {
		size_t left = 0;

		unsure = false;
		for (size_t k = 0; k < n; k++) {
			if (proc_syscall(d->target.pid, r[k].tid, &wait) == 0 &&
			    in_gil(d, &wait))
				continue;
			unsure = unsure || may_wait(d, r[k].tid);
			r[left++] = r[k];
		}
		n = left;
		if (unsure)
			nanosleep(&pause, NULL);
	}
	return n;
}

/* --- together --- */

/* The names, and the GILs where all can be known. */
static void know_one(struct dump *d, const struct pystack_target *t, bool *gils)
{
	raddr runtime = pygil_runtime(&t->layout, &t->walk);

	find_names(d, &t->layout, runtime);
	if (pygil_add(&d->live.base, &t->layout, &t->walk, runtime, &d->gils) < 0)
		*gils = false;
}

void dump_know(struct dump *d)
{
	bool gils = true;

	find_states(d);
	know_one(d, &d->target, &gils);
	for (uint32_t i = 0; d->others && i < d->others->n; i++)
		if (d->others->of[i].proven)
			know_one(d, &d->others->of[i].target, &gils);
	if (!gils || (d->others && d->others->refused))
		d->gils.n = 0;
}

const char *dump_name(const struct dump *d, pid_t inner)
{
	/* The first and main interpreter's names come first. */
	for (size_t i = 0; i < d->n_called; i++)
		if (d->called[i].number == (uint32_t)inner)
			return d->called[i].name;
	return NULL;
}

/* --- a thread --- */

static void suggest_state(struct dump *d, const struct dump_thread *t)
{
	const struct dump_state key = { .number = (uint64_t)t->inner };
	const struct dump_state *end = d->state + d->n_states,
				*s = bsearch(&key, d->state, d->n_states, sizeof(key),
					     compare_states);
	bool several = s && ((s > d->state && s[-1].number == key.number) ||
			     (s + 1 < end && s[1].number == key.number));

	if (d->state && !several)
		pystack_suggest(d->stacks, &d->target, t->tid, t->inner, s ? s->at : 0,
				d->unique);
}

void dump_note_short(struct dump *d, int r)
{
	if (proc_is_short(r))
		STATS_ADD(&d->stats, unread, 1);
}

static bool waits_still(struct dump *d, pid_t tid, const struct proc_wait *before)
{
	struct proc_wait now;
	int r = proc_syscall(d->target.pid, tid, &now);

	dump_note_short(d, r);
	return r == 0 && now.sp == before->sp && now.pc == before->pc &&
	       now.syscall == before->syscall && now.arg == before->arg;
}

static bool same(const struct dump *d, const struct pystack_result *r, uint32_t n)
{
	return r->n == n && !memcmp(d->before, r->frames, n * sizeof(*d->before));
}

/* Read once; f->stable when nothing can have changed meanwhile. @n: frames read before. Who
 * waits has native frames, also where nothing tells the Python ones. */
static void read_once(struct dump *d, const struct dump_thread *t, uint32_t n,
		      struct dump_found *f)
{
	struct pystack_place place = { 0 };
	int r = proc_wait(d->target.pid, t->tid, &f->wait);
	bool told;

	dump_note_short(d, r);
	f->stable = false;
	f->asleep = r == 0;
	if (f->asleep)
		place.sp = f->wait.sp;
	f->waits = f->asleep && d->native;
	pystack_stands(d->stacks, &place);
	f->python = pystack_read_all(d->stacks, &d->target, d->others, &d->live.base, t->tid,
				     t->inner);
	f->gil = holds_gil(d, t->inner);
	told = f->python.end == PYSTACK_OK || f->python.end == PYSTACK_NOPYTHON;
	if (f->waits)
		f->stack = read_c_stack(d, f->wait.sp);
	f->asleep = f->asleep && waits_still(d, t->tid, &f->wait);
	/* Before it calls what may wait, a JIT's code, too, stores where it is. */
	if (f->asleep && f->python.n)
		f->python.frames[0].flags = 0;
	f->stable = told && (f->asleep ||
			     (!f->waits &&
			      (f->python.end == PYSTACK_NOPYTHON ||
			       (same(d, &f->python, n) &&
				pystack_unchanged(&f->python, &d->live.base)))));
}

void dump_find(struct dump *d, const struct dump_thread *t, struct dump_found *f)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint32_t n = UINT32_MAX;

	suggest_state(d, t);
	for (int i = 0; !f->stable && (i < TRIES || d->more > 0); i++) {
		d->more -= i >= TRIES;
		read_once(d, t, n, f);
		if (f->python.end == PYSTACK_OK) {
			n = f->python.n;
			memcpy(d->before, f->python.frames, n * sizeof(*d->before));
		}
		/* It may just have woken to ask for the GIL again. */
		if (!f->asleep && i < PATIENCE && may_wait(d, t->tid)) {
			f->stable = false;
			nanosleep(&pause, NULL);
		}
	}
}
