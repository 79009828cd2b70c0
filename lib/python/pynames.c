/* SPDX-License-Identifier: MIT
 *
 * pynames - the way there: interpreter, sys.modules, threading, _active, Thread, _name.
 */
#include "python/pynames.h"

#include <errno.h>

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
	void (*found)(void *arg, uint32_t native, const char *name);
	void *arg;
	bool whole;
	/* Where a class's objects keep the two: found once for all threads of a class. */
	raddr keys;
	uint32_t name, number;
};

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

/* A Thread, which the value at @slot still is after all was read. */
static void read_thread(struct look *k, raddr thread, raddr slot)
{
	struct pydict d;
	char text[PYNAME_MAX];
	uint64_t name, number, again[3];
	uint32_t tid;

	if (pydict_of_object(k->m, k->l, thread, &d) < 0 || !find_attributes(k, &d)) {
		k->whole = false;
		return;
	}
	const struct rmem_vec first[] = {
		{ pydict_slot(&d, k->name), &name, 8 },
		{ pydict_slot(&d, k->number), &number, 8 },
	}, second[] = {
		{ pydict_slot(&d, k->name), &again[0], 8 },
		{ pydict_slot(&d, k->number), &again[1], 8 },
		{ slot, &again[2], 8 },
	};
	if (rmem_readv(k->m, first, 2) == 2 && name && number &&
	    pydict_text(k->m, k->l, name, text, sizeof(text)) == 0 &&
	    (tid = read_number(k, number)) && rmem_readv(k->m, second, 3) == 3 &&
	    again[0] == name && again[1] == number && again[2] == thread)
		k->found(k->arg, tid, text);
	else
		k->whole = false;
}

static void read_threads(struct look *k, const struct pydict *active)
{
	raddr key[PYDICT_PIECE], value[PYDICT_PIECE];
	uint32_t end = MIN(active->n, (uint32_t)PYNAMES_THREADS);

	for (uint32_t from = 0; from < end; from += PYDICT_PIECE) {
		uint32_t n = MIN(end - from, (uint32_t)PYDICT_PIECE);

		if (pydict_entries(k->m, active, from, n, key, value) < 0) {
			k->whole = false;
			return;
		}
		for (uint32_t i = 0; i < n; i++)
			if (value[i])
				read_thread(k, value[i], pydict_slot(active, from + i));
	}
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
		*p = (struct pynames_interp){ .interp = p->interp };
	if (!p->slot)
		find_active(k, p);
	if (!p->slot || !p->active_at || pydict_read(k->m, k->l, p->active_at, &d) < 0)
		d = (struct pydict){ 0 };
	/* In 2.7 a new thread may take the entry of one that has ended. */
	changed = !same_keys(&d, &p->active) || pyoff_has(k->l->dict.mask);
	p->active = d;
	return changed;
}

enum pynames_answer pynames_look(struct rmem *m, const struct pylayout *l, raddr runtime,
				 struct pynames *p, bool all,
				 void (*found)(void *arg, uint32_t native, const char *name),
				 void *arg)
{
	struct look k = { .m = m, .l = l, .found = found, .arg = arg, .whole = true };
	raddr interp = 0;
	size_t n = 0;

	if (!pynames_known(l) ||
	    rmem_read_u64(m, runtime + pyoff_get(l->runtime.interp_head), &interp) < 0)
		return PYNAMES_SAME;
	for (; interp && n < PYNAMES_INTERPS; n++) {
		if (p->of[n].interp != interp)
			p->of[n] = (struct pynames_interp){ .interp = interp };
		all = has_changed(&k, &p->of[n]) || all;
		if (rmem_read_u64(m, interp + pyoff_get(l->interp.next), &interp) < 0)
			interp = 0;
	}
	if (!all)
		return PYNAMES_SAME;
	/* The newest interpreter comes first; what the main one calls a thread counts. */
	for (size_t i = 0; i < n; i++)
		read_threads(&k, &p->of[i].active);
	if (k.whole)
		return PYNAMES_WHOLE;
	for (size_t i = 0; i < n; i++)
		p->of[i].active = (struct pydict){ 0 };
	return PYNAMES_TORN;
}
