/* SPDX-License-Identifier: MIT
 *
 * pyawaiter - futures in between are passed through until tasks are met.
 */
#include "python/pyawaiter.h"

#include <errno.h>

#include "base/base.h"
#include "offsets/tasklayout.h"
#include "python/pytype.h"

enum {
	MOST = 8,	/* futures between a task and those that wait for it */
	CALLBACKS = 64, /* of a future, that are looked at */
	CELLS = 8,	/* of a closure */
	/* Behind the heads of PyCFunctionObject, PyMethodDef, PyMethodObject,
	 * functools.partial, cell, list, tuple, the set of 3.14: the same in all versions
	 * that are read. */
	CFUNCTION_DEF = 0,
	CFUNCTION_SELF = 8,
	WRAPPER_TASK = 0,
	METHOD_FUNC = 0,
	METHOD_SELF = 8,
	PARTIAL_FUNC = 0,
	PARTIAL_ARGS = 8,
	CELL_REF = 0,
	VAR_SIZE = 0,
	LIST_ITEMS = 8,
	TUPLE_ITEMS = 8,
	SET_USED = 8, /* fill, used, mask, table */
	SET_MASK = 16,
	SET_TABLE = 24,
	SET_MAX = 1 << 10,
};

/* Who waits, as far as it is known; futures that are yet to be asked. */
struct search {
	struct rmem *m;
	const struct pylayout *l;
	const struct awaiterlayout *a;
	raddr task; /* that waits; 0: none yet */
	bool several, bad;
	raddr future[MOST];
	uint32_t n, done;
};

static raddr read_at(struct search *s, raddr at)
{
	uint64_t v;

	if (rmem_read_u64(s->m, at, &v) < 0) {
		s->bad = true;
		return 0;
	}
	return v;
}

/* A field of an object, @at bytes behind its head. */
static raddr read_in(struct search *s, raddr object, uint64_t at)
{
	return read_at(s, object + pylayout_head(s->l) + at);
}

static bool is_a(struct search *s, raddr object, const char *type)
{
	return object && object % 8 == 0 && pytype_is_a(s->m, s->l, object, type);
}

static void add_future(struct search *s, raddr at)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->future[i] == at)
			return;
	if (s->n == MOST)
		s->bad = true;
	else
		s->future[s->n++] = at;
}

/* A task that waits, or a future that somebody waits for. */
static void add(struct search *s, raddr at)
{
	switch (pytasks_kind(s->m, s->l, at)) {
	case PYTASKS_TASK:
		s->several = s->several || (s->task && s->task != at);
		s->task = at;
		break;
	case PYTASKS_FUTURE:
		add_future(s, at);
		break;
	case PYTASKS_OTHER:
		s->bad = true;
		break;
	}
}

/* --- by callbacks --- */

static bool is_text(struct search *s, raddr str, const char *text)
{
	char buf[48];

	return pydict_text(s->m, s->l, str, buf, sizeof(buf)) == 0 && !strcmp(buf, text);
}

static bool is_of_module(struct search *s, raddr func, const char *module)
{
	return is_text(s, read_at(s, func + s->a->func_module), module);
}

/* True: the function at @func is @name, and of a module of asyncio. */
static bool is_function(struct search *s, raddr func, const char *module, const char *name)
{
	return is_a(s, func, "function") &&
	       is_text(s, read_at(s, func + s->a->func_qualname), name) &&
	       is_of_module(s, func, module);
}

/* Which future its closure has: what is to be woken. */
static void look_into_closure(struct search *s, raddr func)
{
	raddr cells = read_at(s, func + s->a->func_closure);
	uint64_t n = cells ? read_in(s, cells, VAR_SIZE) : 0;

	s->bad = s->bad || n > CELLS;
	for (uint64_t i = 0; !s->bad && i < n; i++) {
		raddr cell = read_in(s, cells, TUPLE_ITEMS + 8 * i);
		raddr at = cell ? read_in(s, cell, CELL_REF) : 0;

		if (pytasks_kind(s->m, s->l, at) == PYTASKS_FUTURE)
			add_future(s, at);
	}
}

static void look_at_function(struct search *s, raddr func)
{
	static const struct {
		const char *name;
		bool wakes;
	} known[] = {
		{ "gather.<locals>._done_callback", true },
		{ "_gather.<locals>._done_callback", true }, /* 3.9 */
		{ "_wait.<locals>._on_completion", true },
		{ "shield.<locals>._inner_done_callback", true },
		{ "shield.<locals>._outer_done_callback", false },
	};

	if (!is_of_module(s, func, "asyncio.tasks"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (is_text(s, read_at(s, func + s->a->func_qualname), known[i].name)) {
			if (known[i].wakes)
				look_into_closure(s, func);
			return;
		}
	s->bad = true; /* asyncio waits in a way that is not known: as_completed() up to 3.12 */
}

static void look_at_method(struct search *s, raddr method)
{
	struct pydict d;
	raddr self = read_in(s, method, METHOD_SELF), at;
	raddr func = read_in(s, method, METHOD_FUNC);

	/* Not known either: 3.13's as_completed(), a task that Python code made. */
	if (is_a(s, func, "function") && is_of_module(s, func, "asyncio.tasks"))
		s->bad = true;
	if (!is_function(s, func, "asyncio.taskgroups", "TaskGroup._on_task_done"))
		return;
	if (pydict_of_object(s->m, s->l, self, &d) < 0 ||
	    pydict_value(s->m, s->l, &d, "_parent_task", &at) < 0)
		s->bad = true;
	else
		add(s, at);
}

static void look_at_partial(struct search *s, raddr partial)
{
	raddr args = read_in(s, partial, PARTIAL_ARGS);

	if (is_function(s, read_in(s, partial, PARTIAL_FUNC), "asyncio.tasks",
			"_release_waiter") &&
	    args && read_in(s, args, VAR_SIZE) == 1)
		add(s, read_in(s, args, TUPLE_ITEMS));
}

static bool is_wakeup(struct search *s, raddr cfunction)
{
	static const char name[] = "task_wakeup";
	char text[sizeof(name)];
	raddr at = read_in(s, cfunction, CFUNCTION_DEF);

	at = at ? read_at(s, at) : 0;
	return at && rmem_read(s->m, at, text, sizeof(text)) == 0 &&
	       !memcmp(text, name, sizeof(name));
}

static void look_at_callback(struct search *s, raddr at)
{
	if (is_a(s, at, "builtin_function_or_method")) {
		if (is_wakeup(s, at))
			add(s, read_in(s, at, CFUNCTION_SELF));
	} else if (is_a(s, at, "TaskWakeupMethWrapper")) {
		add(s, read_in(s, at, WRAPPER_TASK));
	} else if (is_a(s, at, "function")) {
		look_at_function(s, at);
	} else if (is_a(s, at, "method")) {
		look_at_method(s, at);
	} else if (is_a(s, at, "functools.partial")) {
		look_at_partial(s, at);
	}
}

/* Its first callback has a place of its own; the others are in a list, each with a context. */
static void look_at_callbacks(struct search *s, raddr future)
{
	raddr first = read_at(s, future + s->a->callback), items;
	raddr list = read_at(s, future + s->a->callbacks);
	uint64_t n;

	if (first)
		look_at_callback(s, first);
	if (!is_a(s, list, "list"))
		return;
	n = read_in(s, list, VAR_SIZE);
	items = read_in(s, list, LIST_ITEMS);
	s->bad = s->bad || n > CALLBACKS;
	for (uint64_t i = 0; !s->bad && i < n; i++) {
		raddr pair = read_at(s, items + 8 * i);

		if (is_a(s, pair, "tuple"))
			look_at_callback(s, read_in(s, pair, TUPLE_ITEMS));
	}
}

/* --- by what the future says --- */

static void look_at_set(struct search *s, raddr set)
{
	uint64_t used = read_in(s, set, SET_USED), mask = read_in(s, set, SET_MASK);
	raddr table = read_in(s, set, SET_TABLE), key;

	s->bad = s->bad || mask >= SET_MAX || used > mask;
	for (uint64_t i = 0; used && !s->bad && !s->several && i <= mask; i++) {
		key = read_at(s, table + 16 * i);
		/* One that was taken out left the hash -1. */
		if (key && read_at(s, table + 16 * i + 8) != UINT64_MAX)
			add(s, key);
	}
}

static void look_at_awaited_by(struct search *s, raddr future)
{
	raddr at = read_at(s, future + s->a->awaited_by);
	uint8_t is_set = 0;

	if (rmem_read(s->m, future + s->a->awaited_by_is_set, &is_set, 1) < 0 || is_set > 1)
		s->bad = true;
	else if (at && is_set)
		look_at_set(s, at);
	else if (at)
		add(s, at);
}

enum pyawaiter pyawaiter_find(struct rmem *m, const struct pylayout *l, raddr task, raddr *ret)
{
	struct search s = {
		.m = m, .l = l, .a = awaiterlayout_find(l), .future = { task }, .n = 1
	};

	if (!s.a)
		return PYAWAITER_UNKNOWN;
	while (s.done < s.n && !s.bad && !s.several) {
		raddr at = s.future[s.done++];

		if (s.a->awaited_by)
			look_at_awaited_by(&s, at);
		else
			look_at_callbacks(&s, at);
	}
	*ret = s.task;
	if (s.bad || s.task == task)
		return PYAWAITER_UNKNOWN;
	return s.several ? PYAWAITER_SEVERAL : s.task ? PYAWAITER_ONE : PYAWAITER_NONE;
}
