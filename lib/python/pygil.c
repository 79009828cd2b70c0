/* SPDX-License-Identifier: MIT
 *
 * pygil - follows from the runtime or the interpreters to the lock, and to who has it.
 */
#include "python/pygil.h"

#include <errno.h>

#include "base/base.h"

/* struct _gil_runtime_state as it was read. */
struct gil {
	uint64_t holder, switches;
	int32_t locked; /* -1: not made yet */
};

/* A thread state as far as it says whether it runs. */
struct holder {
	uint64_t interp, gil, current;
	uint32_t status;
};

static int add(struct pygil *p, const struct pygil_lock *lock)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->lock[i].at == lock->at)
			return 0;
	if (p->n == PYGIL_MAX)
		return -ELOOP;
	p->lock[p->n++] = *lock;
	return 0;
}

/* 3.12 on: each interpreter points to its own one, or to that of another. */
static int add_of_interps(struct rmem *m, struct pygil_lock lock, raddr runtime,
			  struct pygil *p)
{
	const struct pylayout *l = lock.l;
	raddr interp, next;
	int r = rmem_read_u64(m, runtime + pyoff_get(l->runtime.interp_head), &interp);

	for (int i = 0; r == 0 && interp; i++, interp = next) {
		const struct rmem_vec v[] = {
			{ interp + pyoff_get(l->interp.gil), &lock.at, 8 },
			{ interp + pyoff_get(l->interp.next), &next, 8 },
		};

		if (i == PYWALK_MAX_INTERPS)
			return -ELOOP;
		if (rmem_readv(m, v, ARRAY_SIZE(v)) != ARRAY_SIZE(v))
			return -EFAULT;
		lock.interp = interp;
		if (lock.at)
			r = add(p, &lock);
	}
	return r;
}

int pygil_add(struct rmem *m, const struct pylayout *l, const struct pywalk_layout *walk,
	      raddr runtime, struct pygil *ret)
{
	struct pygil_lock lock = { .l = l, .walk = walk };

	if (!pygil_tells(l))
		return -ENOTSUP;
	if (pyoff_has(l->interp.gil) && l->active_bit)
		return add_of_interps(m, lock, runtime, ret);
	lock.current = runtime + pyoff_get(l->runtime.current);
	lock.at = runtime + pyoff_get(l->runtime.gil);
	return add(ret, &lock);
}

static int read_gil(struct rmem *m, const struct pygil_lock *p, struct gil *ret)
{
	const struct pylayout *l = p->l;
	const bool counts = pyoff_has(l->gil.switches);
	const raddr at = p->at;
	const struct rmem_vec v[] = {
		{ at + pyoff_get(l->gil.holder), &ret->holder, 8 },
		{ at + pyoff_get(l->gil.locked), &ret->locked, 4 },
		{ at + (counts ? pyoff_get(l->gil.switches) : 0), &ret->switches, 8 },
	};

	if (rmem_readv(m, v, ARRAY_SIZE(v)) != ARRAY_SIZE(v))
		return -EFAULT;
	if (!counts)
		ret->switches = UINT64_MAX;
	return 0;
}

/* What the state of the last holder says, which may be freed by now if nobody has the GIL. */
static int read_holder(struct rmem *m, const struct pygil_lock *p, raddr ts,
		       struct holder *ret)
{
	const struct pylayout *l = p->l;
	const raddr own = p->current ? ts : ts + pyoff_get(l->tstate.status);
	const struct rmem_vec v[] = {
		{ ts + pyoff_get(l->tstate.interp), &ret->interp, 8 },
		{ own, &ret->status, 4 },
		{ p->current ? p->current : ts, &ret->current, 8 },
	};

	if (rmem_readv(m, v, ARRAY_SIZE(v)) != ARRAY_SIZE(v))
		return -EBADMSG;
	return 0;
}

/* True: it is one of this GIL's interpreters. */
static bool has_gil(struct rmem *m, const struct pygil_lock *p, raddr interp)
{
	raddr of;

	return p->current ? interp != 0 :
			    rmem_read_u64(m, interp + pyoff_get(p->l->interp.gil), &of) == 0 &&
				    of == p->at;
}

/* True: the interpreter says too that the state @ts runs. */
static bool runs(const struct pygil_lock *p, raddr ts, const struct holder *h)
{
	return p->current ? h->current == ts : h->status >> p->l->active_bit & 1;
}

static bool same(const struct gil *a, const struct gil *b)
{
	return a->holder == b->holder && a->locked == b->locked && a->switches == b->switches;
}

int pygil_read(struct rmem *m, const struct pygil *gils, uint32_t i, struct pygil_look *ret)
{
	const struct pygil_lock *p = &gils->lock[i];
	struct gil gil, again;
	struct holder h;
	uint64_t number = 0;

	*ret = (struct pygil_look){ .switches = UINT64_MAX };
	if (read_gil(m, p, &gil) < 0)
		return -EFAULT;
	if (!gil.holder || gil.locked < -1 || gil.locked > 1 ||
	    read_holder(m, p, gil.holder, &h) < 0)
		return -EBADMSG;
	if (gil.locked == 1) {
		if (!has_gil(m, p, h.interp) || !runs(p, gil.holder, &h))
			return -EAGAIN;
		if (pyframe_state_number(m, p->walk, gil.holder, &number) < 0 || !number)
			return -EBADMSG;
	} else if (p->current && h.current) {
		return -EAGAIN;
	}
	if (read_gil(m, p, &again) < 0)
		return -EFAULT;
	if (!same(&gil, &again))
		return -EAGAIN;
	*ret = (struct pygil_look){ .known = true,
				    .holder = number,
				    .switches = gil.switches };
	return 0;
}

bool pygil_tells(const struct pylayout *l)
{
	if (l->free_threaded || !pyoff_has(l->gil.holder) || !pyoff_has(l->gil.locked))
		return false;
	return (pyoff_has(l->interp.gil) && l->active_bit) ||
	       (pyoff_has(l->runtime.gil) && pyoff_has(l->runtime.current));
}

raddr pygil_runtime(const struct pylayout *l, const struct pywalk_layout *walk)
{
	return walk->interp_head - pyoff_get(l->runtime.interp_head);
}

/* The GIL of the interpreter of @tstate. */
static int find_own(struct rmem *m, raddr runtime, raddr tstate, struct pygil_lock *lock)
{
	const struct pylayout *l = lock->l;

	if (!pygil_tells(l))
		return -ENOTSUP;
	if (rmem_read_u64(m, tstate + pyoff_get(l->tstate.interp), &lock->interp) < 0)
		return -EFAULT;
	if (pyoff_has(l->interp.gil) && l->active_bit)
		return rmem_read_u64(m, lock->interp + pyoff_get(l->interp.gil), &lock->at);
	lock->current = runtime + pyoff_get(l->runtime.current);
	lock->at = runtime + pyoff_get(l->runtime.gil);
	return 0;
}

enum pygil_has pygil_has(struct rmem *m, const struct pylayout *l, raddr runtime, raddr tstate)
{
	struct pygil_lock p = { .l = l };
	struct gil gil;
	struct holder h;

	if (!tstate || find_own(m, runtime, tstate, &p) < 0 || !p.at ||
	    read_gil(m, &p, &gil) < 0 || gil.locked < -1 || gil.locked > 1)
		return PYGIL_UNKNOWN;
	if (gil.locked != 1 || gil.holder != tstate)
		return PYGIL_HAS_NOT;
	/* Another one writes down first that the lock is taken, then that it is his. */
	return read_holder(m, &p, tstate, &h) == 0 && runs(&p, tstate, &h) ? PYGIL_HAS :
									     PYGIL_UNKNOWN;
}

static bool is_in(const struct pygil_lock *p, raddr at)
{
	return at - p->at < p->l->gil.size;
}

bool pygil_sleeps(struct rmem *m, const struct pylayout *l, raddr runtime, raddr tstate,
		  raddr at)
{
	struct pygil_lock p = { .l = l };

	return tstate && find_own(m, runtime, tstate, &p) == 0 && p.at && is_in(&p, at);
}

bool pygil_waits(const struct pygil *p, raddr at)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (is_in(&p->lock[i], at))
			return true;
	return false;
}
