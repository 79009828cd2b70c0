/* SPDX-License-Identifier: MIT
 *
 * pynames - the way there: interpreter, sys.modules, threading, _active, Thread, _name.
 */
#include "python/pynames.h"

#include <errno.h>
#include <stdlib.h>

#include "arch/arch.h"
#include "base/base.h"
#include "pyframe_walk.h"

/* The attributes of a Thread, by enum py_thread_attrs. */
static const struct {
	const char *name, *number;
} attributes[] = {
	[PY_THREAD_NATIVE] = { "_name", "_native_id" },
	[PY_THREAD_IDENT] = { "_name", "_ident" },
	[PY_THREAD_27] = { "_Thread__name", "_Thread__ident" },
};

/* One look. */
struct look {
	struct rmem *m;
	const struct pylayout *l;
	const struct pynames_look *ask;
	bool whole;
	/* Where a class's objects keep the two: found once for all threads of a class. */
	raddr keys;
	uint32_t name, number;
};

static void forget_threads(struct pynames_interp *p)
{
	free(p->thread);
	p->thread = NULL;
	p->n_threads = 0;
}

static void forget(struct pynames_interp *p, raddr interp)
{
	forget_threads(p);
	*p = (struct pynames_interp){ .interp = interp };
}

void pynames_deinit(struct pynames *p)
{
	for (size_t i = 0; i < PYNAMES_INTERPS; i++)
		forget_threads(&p->of[i]);
}

bool pynames_known(const struct pylayout *l)
{
	return pyoff_has(l->interp.modules) && pyoff_has(l->dict.keys) &&
	       l->attrs != PY_ATTRS_NONE;
}

/* --- a thread --- */

static bool find_attributes(struct look *k, const struct pydict *d)
{
	if (k->keys == d->keys && k->name < d->n && k->number < d->n)
		return true;
	k->keys = 0;
	if (pydict_find(k->m, k->l, d, 0, attributes[k->l->thread_attrs].name, &k->name) < 0 ||
	    pydict_find(k->m, k->l, d, 0, attributes[k->l->thread_attrs].number, &k->number) <
		    0)
		return false;
	k->keys = d->keys;
	return true;
}

/* The thread's number, from the int at @at. 0: it has none, or it can't be had. */
static uint32_t read_number(struct look *k, raddr at)
{
	uint64_t number;

	if (pydict_int(k->m, k->l, at, &number) < 0)
		return 0;
	if (k->l->thread_attrs != PY_THREAD_NATIVE &&
	    pyframe_pthread_number(k->m, arch_host->pthread_tid, number, &number) < 0)
		return 0;
	return number <= UINT32_MAX ? (uint32_t)number : 0;
}

/* The Thread @t, which the value at @slot still is after all was read. True: it was. */
static bool read_thread(struct look *k, struct pynames_thread *t, raddr slot)
{
	struct pydict d;
	char text[PYNAME_MAX];
	uint64_t name, number, again[3];

	if (pydict_of_object(k->m, k->l, t->at, &d) < 0 || !find_attributes(k, &d))
		return false;
	const struct rmem_vec first[] = {
		{ pydict_slot(&d, k->name), &name, 8 },
		{ pydict_slot(&d, k->number), &number, 8 },
	}, second[] = {
		{ pydict_slot(&d, k->name), &again[0], 8 },
		{ pydict_slot(&d, k->number), &again[1], 8 },
		{ slot, &again[2], 8 },
	};
	if (rmem_readv(k->m, first, 2) != 2 || !name || !number ||
	    pydict_text(k->m, k->l, name, text, sizeof(text)) < 0 ||
	    !(t->number = read_number(k, number)) || rmem_readv(k->m, second, 3) != 3 ||
	    again[0] != name || again[1] != number || again[2] != t->at)
		return false;
	k->ask->found(k->ask->arg, t->number, text);
	return true;
}

/* Entry @i of _active. */
static void look_at_thread(struct look *k, struct pynames_interp *p, uint32_t i)
{
	struct pynames_thread *t = &p->thread[i];
	const struct pynames_look *ask = k->ask;
	const raddr slot = pydict_slot(&p->active, i);
	raddr now;

	if (t->number && ask->may_differ && !ask->may_differ(ask->arg, t->number)) {
		ask->found(ask->arg, t->number, NULL);
	} else if (t->number && rmem_read_u64(k->m, slot, &now) == 0 && !now) {
		t->at = 0; /* it has ended */
	} else if (!read_thread(k, t, slot)) {
		t->number = 0;
		k->whole = false;
	}
}

/* Which Threads _active has. */
static bool read_active(struct look *k, struct pynames_interp *p)
{
	uint32_t n = MIN(p->active.n, (uint32_t)PYNAMES_THREADS);
	raddr key[PYDICT_PIECE], value[PYDICT_PIECE];

	p->thread = calloc(n, sizeof(*p->thread));
	if (!p->thread)
		return n == 0;
	for (; p->n_threads < n; p->n_threads += PYDICT_PIECE) {
		uint32_t from = p->n_threads, piece = MIN(n - from, (uint32_t)PYDICT_PIECE);

		if (pydict_entries(k->m, &p->active, from, piece, key, value) < 0)
			return false;
		for (uint32_t i = 0; i < piece; i++)
			p->thread[from + i].at = value[i];
	}
	p->n_threads = n;
	return true;
}

static void look_at_threads(struct look *k, struct pynames_interp *p)
{
	if (!p->thread && !read_active(k, p)) {
		forget_threads(p);
		k->whole = false;
		return;
	}
	for (uint32_t i = 0; i < p->n_threads; i++)
		if (p->thread[i].at)
			look_at_thread(k, p, i);
}

/* --- an interpreter --- */

static bool same_keys(const struct pydict *a, const struct pydict *b)
{
	return a->keys == b->keys && a->n == b->n && a->fill == b->fill;
}

/* The value of @name in the dict at @dict: where it stands, and what. */
static int find_value(struct look *k, raddr dict, const char *name, raddr *slot, raddr *value)
{
	struct pydict d;
	uint32_t i;
	int r = pydict_read(k->m, k->l, dict, &d);

	if (r == 0)
		r = pydict_find(k->m, k->l, &d, 0, name, &i);
	if (r < 0)
		return r;
	*slot = pydict_slot(&d, i);
	return rmem_read_u64(k->m, *slot, value);
}

/* threading._active, if threading is there by now. */
static void find_active(struct look *k, struct pynames_interp *p)
{
	raddr modules, module, dict;
	struct pydict d;
	uint32_t i, from;

	if (rmem_read_u64(k->m, p->interp + pyoff_get(k->l->interp.modules), &modules) < 0 ||
	    !modules || pydict_read(k->m, k->l, modules, &d) < 0 || same_keys(&d, &p->modules))
		return;
	/* 2.7 has its entries in no order. */
	from = d.keys == p->modules.keys && !d.fill ? MIN(p->modules.n, d.n) : 0;
	if (pydict_find(k->m, k->l, &d, from, "threading", &i) < 0) {
		p->modules = d;
		return;
	}
	/* While it is being imported it is not whole, so it is looked for again. */
	if (rmem_read_u64(k->m, pydict_slot(&d, i), &module) == 0 && module &&
	    rmem_read_u64(k->m, module + pyoff_get(k->l->module.dict), &dict) == 0 && dict &&
	    find_value(k, dict, "_active", &p->slot, &p->active_at) < 0)
		p->slot = 0;
}

/* Where its threads are now. True: one may have come since the last look. */
static bool has_changed(struct look *k, struct pynames_interp *p)
{
	struct pydict d = { 0 };
	raddr at;
	bool changed;

	if (p->slot && (rmem_read_u64(k->m, p->slot, &at) < 0 || at != p->active_at))
		forget(p, p->interp);
	if (!p->slot)
		find_active(k, p);
	if (!p->slot || !p->active_at || pydict_read(k->m, k->l, p->active_at, &d) < 0)
		d = (struct pydict){ 0 };
	/* In 2.7 a new thread may take the entry of one that has ended. */
	changed = !same_keys(&d, &p->active) || pyoff_has(k->l->dict.mask);
	if (changed)
		forget_threads(p);
	p->active = d;
	return changed;
}

enum pynames_answer pynames_look(struct rmem *m, const struct pylayout *l, raddr runtime,
				 struct pynames *p, const struct pynames_look *look)
{
	struct look k = { .m = m, .l = l, .ask = look, .whole = true };
	bool any = look->all;
	raddr interp = 0;
	size_t n = 0;

	if (!pynames_known(l) ||
	    rmem_read_u64(m, runtime + pyoff_get(l->runtime.interp_head), &interp) < 0)
		return PYNAMES_SAME;
	for (; interp && n < PYNAMES_INTERPS; n++) {
		if (p->of[n].interp != interp)
			forget(&p->of[n], interp);
		any = has_changed(&k, &p->of[n]) || any;
		if (rmem_read_u64(m, interp + pyoff_get(l->interp.next), &interp) < 0)
			interp = 0;
	}
	if (!any)
		return PYNAMES_SAME;
	/* The newest interpreter comes first in the list. */
	for (size_t i = n; i--;)
		look_at_threads(&k, &p->of[i]);
	if (k.whole)
		return PYNAMES_WHOLE;
	for (size_t i = 0; i < n; i++)
		p->of[i].active = (struct pydict){ 0 };
	return PYNAMES_TORN;
}
