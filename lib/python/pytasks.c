/* SPDX-License-Identifier: MIT
 *
 * pytasks - the way there: interpreter, sys.modules, asyncio.tasks, its sets, their entries.
 * Up to 3.11 one set of weak references, _all_tasks; then _scheduled_tasks, and a plain set of
 * tasks that run eagerly, _eager_tasks. From 3.14 on C's tasks are in lists: of each thread,
 * and of each interpreter.
 */
#include "python/pytasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/base.h"
#include "offsets/tasklayout.h"
#include "python/pytype.h"

enum {
	STATE_MAX = 16, /* of Python's own tasks: a word */
	TRIES = 20,
	THREADS_MAX = 1 << 16,
};

struct look {
	struct rmem *m;
	const struct pylayout *l;
	const struct tasklayout *in_lists; /* of tasks in lists; NULL: they are in sets */
};

void pytasks_deinit(struct pytasks *t)
{
	free(t->task);
	*t = (struct pytasks){ 0 };
}

bool pytasks_known(const struct pylayout *l)
{
	return pyawait_known(l) && pynames_known(l) &&
	       (!tasklayout_of_lists(l) || pyoff_has(l->module.state));
}

/* --- which there are --- */

static bool add(struct pytasks *t, raddr at, raddr slot)
{
	if (t->n == PYTASKS_MAX ||
	    !array_reserve(&t->task, &t->cap, t->n + 1, sizeof(*t->task))) {
		t->cut = true;
		return false;
	}
	t->task[t->n++] = (struct pytask_ref){ at, slot };
	return true;
}

/* The keys from the table at @table on. A weak one is a reference, behind whose head stands
 * what it refers to. */
static int add_keys(const struct look *k, raddr table, const uint64_t (*entry)[2], size_t n,
		    bool weak, struct pytasks *ret)
{
	struct rmem_vec v[RMEM_MAX_VEC];
	raddr task[RMEM_MAX_VEC], slot[RMEM_MAX_VEC];
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		/* One that was taken out left the hash -1. */
		if (!entry[i][0] || entry[i][1] == UINT64_MAX)
			continue;
		task[found] = entry[i][0];
		slot[found] = weak ? task[found] + pylayout_head(k->l) : table + 16 * i;
		v[found] = (struct rmem_vec){ slot[found], &task[found], 8 };
		found++;
	}
	if (weak && rmem_readv(k->m, v, found) != found)
		return -EAGAIN;
	for (size_t i = 0; i < found; i++)
		if (!add(ret, task[i], slot[i]))
			break;
	return 0;
}

static int read_table(const struct look *k, raddr table, uint64_t n, bool weak,
		      struct pytasks *ret)
{
	uint64_t entry[RMEM_MAX_VEC][2]; /* key, hash */
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < n && !ret->cut; i += RMEM_MAX_VEC) {
		size_t piece = (size_t)MIN(n - i, (uint64_t)RMEM_MAX_VEC);
		raddr at = table + 16 * i;

		if (rmem_read(k->m, at, entry, 16 * piece) < 0)
			return -EAGAIN;
		r = add_keys(k, at, (const uint64_t (*)[2])entry, piece, weak, ret);
	}
	return r;
}

static int read_set(const struct look *k, raddr set, bool weak, struct pytasks *ret)
{
	uint64_t before[4], after[4]; /* fill, used, mask, table */
	raddr at = set + pylayout_head(k->l);
	int r;

	if (rmem_read(k->m, at, before, sizeof(before)) < 0)
		return -EFAULT;
	if (before[2] >= 8ull * PYTASKS_MAX || (before[2] & (before[2] + 1)) ||
	    before[1] > before[0] || before[0] > before[2])
		return -EBADMSG;
	if (!before[1])
		return 0;
	r = read_table(k, before[3], before[2] + 1, weak, ret);
	if (r == 0 && (rmem_read(k->m, at, after, sizeof(after)) < 0 ||
		       memcmp(before, after, sizeof(before)) != 0))
		r = -EAGAIN;
	return r;
}

static int read_weak_set(const struct look *k, raddr weak_set, struct pytasks *ret)
{
	struct pydict d;
	raddr set;
	int r = pydict_of_object(k->m, k->l, weak_set, &d);

	if (r == 0)
		r = pydict_value(k->m, k->l, &d, "data", &set);
	if (r == 0)
		r = read_set(k, set, true, ret);
	return r == -ENOENT ? -EBADMSG : r;
}

/* @dict: of the module. One that is not there yet, or not in this version, has no tasks. */
static int read_sets(const struct look *k, const struct pydict *dict, struct pytasks *ret)
{
	static const struct {
		const char *name;
		bool weak;
	} sets[] = {
		{ "_all_tasks", true },
		{ "_scheduled_tasks", true },
		{ "_eager_tasks", false },
	};
	int result = 0;
	raddr at;

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		int r = pydict_value(k->m, k->l, dict, sets[i].name, &at);

		if (r == 0)
			r = sets[i].weak ? read_weak_set(k, at, ret) :
					   read_set(k, at, false, ret);
		if (r < 0 && r != -ENOENT)
			result = r;
	}
	return result;
}

static int read_interpreter(const struct look *k, raddr interp, struct pytasks *ret)
{
	struct pydict d;
	int r = pydict_of_module(k->m, k->l, interp, "asyncio.tasks", &d);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return read_sets(k, &d, ret);
}

/* --- lists --- */

/* The list at @head, whose nodes know each other. */
static int read_list(const struct look *k, raddr head, struct pytasks *ret)
{
	uint32_t in_task = pyoff_get(k->in_lists->node);
	uint64_t node[2]; /* next, previous */
	raddr at = head, before;

	if (rmem_read(k->m, head, node, sizeof(node)) < 0)
		return -EFAULT;
	while (node[0] != head && !ret->cut) {
		before = at;
		at = node[0];
		if (rmem_read(k->m, at, node, sizeof(node)) < 0 || node[1] != before)
			return -EAGAIN;
		add(ret, at - in_task, at);
	}
	return 0;
}

static int read_lists(const struct look *k, raddr interp, struct pytasks *ret)
{
	struct tasklists l;
	raddr ts;
	int r = pytasks_lists(k->m, k->l, interp, &l);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = read_list(k, interp + l.in_interp, ret);
	if (r == 0)
		r = rmem_read_u64(k->m, interp + pyoff_get(k->l->interp.threads_head), &ts);
	for (int i = 0; r == 0 && ts; i++) {
		if (i == THREADS_MAX)
			return -EAGAIN;
		r = read_list(k, ts + l.in_tstate, ret);
		if (r == 0)
			r = rmem_read_u64(k->m, ts + pyoff_get(k->l->tstate.next), &ts);
	}
	return r;
}

static int find_once(const struct look *k, raddr runtime, struct pytasks *ret)
{
	raddr interp;
	int r = rmem_read_u64(k->m, runtime + pyoff_get(k->l->runtime.interp_head), &interp);

	for (size_t n = 0; r == 0 && interp; n++) {
		if (n == PYNAMES_INTERPS) {
			ret->cut = true;
			break;
		}
		r = k->in_lists ? read_lists(k, interp, ret) :
				  read_interpreter(k, interp, ret);
		if (rmem_read_u64(k->m, interp + pyoff_get(k->l->interp.next), &interp) < 0)
			return -EFAULT;
	}
	return r;
}

int pytasks_find(struct rmem *m, const struct pylayout *l, raddr runtime, struct pytasks *ret)
{
	const struct look k = { m, l, tasklayout_of_lists(l) };
	int r = -EBADMSG;

	*ret = (struct pytasks){ 0 };
	if (!pytasks_known(l))
		return -EBADMSG;
	for (int i = 0; i < TRIES && r < 0 && r != -ENOTSUP; i++) {
		ret->n = 0;
		ret->cut = false;
		r = find_once(&k, runtime, ret);
	}
	return r == 0 || r == -ENOTSUP ? r : ret->n ? -EAGAIN : -EBADMSG;
}

/* --- one --- */

/* The row of C's Task that @type is or derives from. -ENOENT: it does not; -ENOTSUP: of a size
 * that is not known; or a read error. */
static int find_row(const struct look *k, raddr type, const struct tasklayout **ret)
{
	for (int i = 0; type && i < PYTYPE_BASES; i++) {
		uint64_t size;
		raddr base;
		const struct rmem_vec v[] = {
			{ type + pylayout_head(k->l) + PYTYPE_BASICSIZE, &size, 8 },
			{ type + pylayout_head(k->l) + PYTYPE_BASE, &base, 8 },
		};

		if (rmem_readv(k->m, v, ARRAY_SIZE(v)) != ARRAY_SIZE(v))
			return -EFAULT;
		if (pytype_is_called(k->m, k->l, type, "_asyncio.Task")) {
			*ret = tasklayout_find(k->l, size);
			return *ret ? 0 : -ENOTSUP;
		}
		type = base;
	}
	return -ENOENT;
}

/* A str, or in 3.13 an int while nobody has asked for the name: "Task-" and that. */
static int read_name(const struct look *k, raddr at, struct pytask *ret)
{
	uint64_t number;

	if (pytype_is_a(k->m, k->l, at, "int")) {
		if (pydict_int(k->m, k->l, at, &number) < 0)
			return -EBADMSG;
		snprintf(ret->name, sizeof(ret->name), "Task-%llu",
			 (unsigned long long)number);
		return 0;
	}
	if (!pytype_is_a(k->m, k->l, at, "str"))
		return -EBADMSG;
	return pydict_text(k->m, k->l, at, ret->name, sizeof(ret->name));
}

/* What the task keeps, wherever that was found. */
struct parts {
	bool done;
	raddr coro, name; /* 0: none */
};

static int read_parts_of_c(const struct look *k, const struct tasklayout *t, raddr at,
			   struct parts *ret)
{
	uint32_t state;
	const struct rmem_vec v[] = {
		{ at + t->state, &state, 4 },
		{ at + t->coro, &ret->coro, 8 },
		{ at + pyoff_get(t->name), &ret->name, 8 },
	};
	size_t n = pyoff_has(t->name) ? 3 : 2;

	if (rmem_readv(k->m, v, n) != n)
		return -EFAULT;
	ret->done = state != 0;
	return state > 2 || (pyoff_has(t->name) && !ret->name) || (!ret->done && !ret->coro) ?
		       -EBADMSG :
		       0;
}

/* 0; -ENOENT: it is no task. */
static int read_parts_of_python(const struct look *k, raddr at, struct parts *ret)
{
	char word[STATE_MAX];
	struct pydict d;
	raddr state, waiter;
	int r = pydict_of_object(k->m, k->l, at, &d);

	if (r == 0)
		r = pydict_value(k->m, k->l, &d, "_coro", &ret->coro);
	if (r == 0)
		r = pydict_value(k->m, k->l, &d, "_fut_waiter", &waiter);
	if (r < 0)
		return r;
	/* Until it is done its class has the state. */
	r = pydict_value(k->m, k->l, &d, "_state", &state);
	if (r == 0)
		r = pydict_text(k->m, k->l, state, word, sizeof(word));
	if (r < 0 && r != -ENOENT)
		return r;
	ret->done = r == 0 && strcmp(word, "PENDING") != 0;
	if (ret->done && strcmp(word, "FINISHED") != 0 && strcmp(word, "CANCELLED") != 0)
		return -ENOENT;
	r = pydict_value(k->m, k->l, &d, "_name", &ret->name);
	return r == -ENOENT ? 0 : r;
}

static int read_parts(const struct look *k, raddr at, struct parts *ret)
{
	const struct tasklayout *t;
	raddr type;
	int r;

	if (at % 8)
		return -EBADMSG;
	if (rmem_read_u64(k->m, at + pyoff_get(k->l->object.type), &type) < 0)
		return -EFAULT;
	/* What a weak reference has whose object is gone. */
	if (pytype_is_called(k->m, k->l, type, "NoneType"))
		return -ENOENT;
	r = find_row(k, type, &t);
	if (r == 0)
		return read_parts_of_c(k, t, at, ret);
	if (r == -ENOENT && !k->in_lists)
		r = read_parts_of_python(k, at, ret);
	return r == -ENOENT ? -ENOTSUP : r;
}

/* What was read counts while the task is there. */
static int read_task(const struct look *k, const struct pywalk_layout *walk, raddr at,
		     struct pytask *ret)
{
	struct parts parts = { 0 };
	int r = read_parts(k, at, &parts);

	ret->has_name = parts.name != 0;
	if (r == 0 && ret->has_name)
		r = read_name(k, parts.name, ret);
	if (r < 0)
		return r;
	ret->state = parts.done ? PYTASK_DONE : PYTASK_WAITING;
	/* A foreign coroutine, written in C, has no frames. */
	ret->has_coroutine =
		parts.coro && pyawait_qualname(k->m, k->l, parts.coro, ret->coroutine,
					       sizeof(ret->coroutine)) == 0;
	if (!ret->has_coroutine)
		return 0;
	r = pyawait_read(k->m, k->l, walk, parts.coro, &ret->chain);
	if (r == 0 && !parts.done && ret->chain.state == PYAWAIT_RUNS)
		ret->state = PYTASK_RUNNING;
	return r;
}

static bool is_there(const struct look *k, const struct pytask_ref *ref)
{
	raddr at, back;

	if (rmem_read_u64(k->m, ref->slot, &at) < 0)
		return false;
	if (!k->in_lists)
		return at == ref->at;
	/* Out of the list its next is 0. */
	return at && rmem_read_u64(k->m, at + 8, &back) == 0 && back == ref->slot;
}

int pytasks_read_held(struct rmem *m, const struct pylayout *l,
		      const struct pywalk_layout *walk, raddr at, struct pytask *ret)
{
	const struct look k = { m, l, tasklayout_of_lists(l) };

	ret->at = at;
	return read_task(&k, walk, at, ret);
}

int pytasks_read(struct rmem *m, const struct pylayout *l, const struct pywalk_layout *walk,
		 const struct pytask_ref *at, struct pytask *ret)
{
	const struct look k = { m, l, tasklayout_of_lists(l) };
	int r = read_task(&k, walk, at->at, ret);

	ret->at = at->at;
	return is_there(&k, at) ? r : -ENOENT;
}

bool pytasks_same(const struct pytask *a, const struct pytask *b)
{
	return a->at == b->at && a->state == b->state && a->has_name == b->has_name &&
	       a->has_coroutine == b->has_coroutine &&
	       (!a->has_name || !strcmp(a->name, b->name)) &&
	       (!a->has_coroutine ||
		(!strcmp(a->coroutine, b->coroutine) && pyawait_same(&a->chain, &b->chain)));
}
