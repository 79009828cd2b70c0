/* SPDX-License-Identifier: MIT
 *
 * pyawaiter: who waits for a task, by all that asyncio leaves at it; and what is no answer.
 */
#include <errno.h>
#include <stdlib.h>

#include "unit.h"
#include "python/pyawaiter.h"
#include "damage.h"
#include "pytasks_made.h"

enum { FUTURES = 7, CELLS = 8, CALLBACKS = 64 }; /* the most that are looked at */

struct fix {
	struct made m;
	const struct awaiterlayout *a;
	raddr task_type, future_type;
	raddr function, builtin, wrapper, method, partial, list, tuple;
	raddr task; /* whose awaiter is looked for */
	raddr truth; /* which that is */
};

static raddr an(struct fix *f, raddr type)
{
	return of_type(f->m.w, take(f->m.w, 128), type);
}

static raddr a_task(struct fix *f)
{
	return an(f, f->task_type);
}

static raddr a_future(struct fix *f)
{
	return an(f, f->future_type);
}

static void fix_init(struct fix *f, size_t version)
{
	struct world *w;

	make_bare(&f->m, version);
	w = f->m.w;
	f->a = awaiterlayout_find(&w->l);
	f->task_type = a_type(w, "_asyncio.Task", sizes[version], 0);
	f->future_type = a_type(w, "_asyncio.Future", 100, 0);
	f->function = a_type(w, "function", 136, 0);
	f->builtin = a_type(w, "builtin_function_or_method", 48, 0);
	f->wrapper = a_type(w, "TaskWakeupMethWrapper", 24, 0);
	f->method = a_type(w, "method", 48, 0);
	f->partial = a_type(w, "functools.partial", 64, 0);
	f->list = a_type(w, "list", 40, 0);
	f->tuple = a_type(w, "tuple", 24, 0);
	f->task = a_task(f);
}

/* Of each version; @sets: of those that say who waits, or else of those before. */
static void each(bool sets, void (*test)(struct fix *f))
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fix f = { 0 };

		if (sets != (versions[i] >= 0x030e))
			continue;
		fix_init(&f, i);
		test(&f);
		free(f.m.w);
	}
}

static enum pyawaiter find(struct fix *f, raddr *ret)
{
	return pyawaiter_find(&f->m.w->base, &f->m.w->l, f->task, ret);
}

/* By enum pyawaiter; another one than the truth. */
enum { OTHER = PYAWAITER_UNKNOWN + 1 };

static struct damage damaged;

static int look(void *arg)
{
	struct fix *f = arg;
	raddr at = 0;
	enum pyawaiter is = find(f, &at);

	return is == PYAWAITER_ONE && at != f->truth ? OTHER : (int)is;
}

static void expect(struct fix *f, enum pyawaiter want)
{
	raddr at;

	assert_int_equal(find(f, &at), want);
	f->truth = 0;
	damage_reads(&damaged, f->m.w, look, f);
}

static void expect_one(struct fix *f, raddr task)
{
	raddr at = 0;

	assert_int_equal(find(f, &at), PYAWAITER_ONE);
	assert_int_equal(at, task);
	f->truth = task;
	damage_reads(&damaged, f->m.w, look, f);
}

/* --- what is the same in each version --- */

/* A future that @by waits for, in its turn. */
static raddr awaited_by(struct fix *f, raddr by)
{
	raddr at = a_future(f);

	put_awaited(&f->m, at, by);
	return at;
}

/* The future @by waits for that at @at: by asyncio.gather()'s callback, or as @at says. */
static void put_future(struct fix *f, raddr at, raddr by);

static void is_awaited(struct fix *f)
{
	raddr waiting = a_task(f), at, derived;

	expect(f, PYAWAITER_NONE);
	put_awaited(&f->m, f->task, waiting);
	expect_one(f, waiting);
	derived = a_type(f->m.w, "Derived", 200, f->task_type);
	derived = a_type(f->m.w, "More", 200, derived);
	of_type(f->m.w, waiting, derived);
	expect_one(f, waiting);
	put_awaited(&f->m, f->task, f->task); /* itself */
	expect(f, PYAWAITER_UNKNOWN);
	for (int i = 0; i < 4; i++) {
		const raddr none[] = { WORLD_NOWHERE, f->m.none, waiting + 4, 8 };

		put_awaited(&f->m, f->task, none[i]);
		expect(f, PYAWAITER_UNKNOWN);
	}
	f->task = WORLD_NOWHERE;
	expect(f, PYAWAITER_UNKNOWN);
	f->task = waiting;
	f->m.w->l.version = 0x0306; /* not known */
	assert_int_equal(find(f, &at), PYAWAITER_UNKNOWN);
}

/* Types whose bases go in a circle, or too far. */
static void has_strange_types(struct fix *f)
{
	raddr at = a_task(f), own = a_type(f->m.w, "Own", 200, 0), deep = f->task_type;

	put_awaited(&f->m, f->task, at);
	put(f->m.w, in(f->m.w, own, 240), own, 8);
	of_type(f->m.w, at, own);
	expect(f, PYAWAITER_UNKNOWN);
	for (int i = 1; i < 16; i++)
		deep = a_type(f->m.w, "D", 200, deep);
	of_type(f->m.w, at, deep);
	expect_one(f, at);
	of_type(f->m.w, at, a_type(f->m.w, "D", 200, deep));
	expect(f, PYAWAITER_UNKNOWN);
}

/* Futures in between, as many as there may be. */
static void passes_through(struct fix *f)
{
	raddr waiting = a_task(f), at = awaited_by(f, waiting), first;

	for (int i = 1; i < FUTURES; i++) {
		raddr next = a_future(f);

		put_future(f, next, at);
		at = next;
	}
	put_future(f, f->task, at);
	expect_one(f, waiting);
	first = a_future(f);
	put_future(f, first, at);
	put_future(f, f->task, first);
	expect(f, PYAWAITER_UNKNOWN);
}

/* Nobody waits for two futures that wait for one another. */
static void goes_in_a_circle(struct fix *f)
{
	raddr a = a_future(f), b = a_future(f);

	put_future(f, f->task, a);
	put_future(f, a, b);
	put_future(f, b, a);
	expect(f, PYAWAITER_NONE);
}

/* --- from 3.14 on --- */

static raddr a_set(struct fix *f, uint64_t used, uint64_t mask)
{
	raddr at = take(f->m.w, 64);

	put(f->m.w, in(f->m.w, at, 8), used, 8);
	put(f->m.w, in(f->m.w, at, 16), mask, 8);
	put(f->m.w, in(f->m.w, at, 24), take(f->m.w, 16 * 2048), 8);
	return at;
}

/* The hash of one that was taken out is -1. */
static void put_key(struct fix *f, raddr set, uint64_t i, raddr key, uint64_t hash)
{
	raddr table = load_u64(world_mem(f->m.w, in(f->m.w, set, 24)));

	put(f->m.w, table + 16 * i, key, 8);
	put(f->m.w, table + 16 * i + 8, hash, 8);
}

static void put_set(struct fix *f, raddr set)
{
	put(f->m.w, f->task + f->a->awaited_by, set, 8);
	put(f->m.w, f->task + f->a->awaited_by_is_set, 1, 1);
}

static void has_a_set(struct fix *f)
{
	raddr waiting = a_task(f), set = a_set(f, 1, 7), table;

	put_set(f, set);
	put_key(f, set, 7, waiting, 5);
	expect_one(f, waiting);
	put_key(f, set, 2, a_task(f), UINT64_MAX);
	expect_one(f, waiting);
	put_key(f, set, 2, 0, 3);
	put_key(f, set, 8, a_task(f), 3); /* behind its end */
	expect_one(f, waiting);
	put_key(f, set, 0, waiting, 5);
	expect_one(f, waiting);
	put_key(f, set, 0, a_task(f), 5);
	expect(f, PYAWAITER_SEVERAL);
	put(f->m.w, in(f->m.w, set, 8), 0, 8); /* empty */
	expect(f, PYAWAITER_NONE);
	put(f->m.w, in(f->m.w, set, 8), 7, 8);
	expect(f, PYAWAITER_SEVERAL);
	put(f->m.w, in(f->m.w, set, 8), 8, 8);
	expect(f, PYAWAITER_UNKNOWN);
	put(f->m.w, in(f->m.w, set, 8), 1, 8);
	table = load_u64(world_mem(f->m.w, in(f->m.w, set, 24)));
	put(f->m.w, in(f->m.w, set, 24), WORLD_NOWHERE, 8);
	expect(f, PYAWAITER_UNKNOWN);
	put(f->m.w, in(f->m.w, set, 24), table, 8);
	put(f->m.w, f->task + f->a->awaited_by_is_set, 2, 1);
	expect(f, PYAWAITER_UNKNOWN);
	put(f->m.w, f->task + f->a->awaited_by, 0, 8);
	put(f->m.w, f->task + f->a->awaited_by_is_set, 1, 1);
	expect(f, PYAWAITER_NONE);
}

static void has_a_large_set(struct fix *f)
{
	raddr waiting = a_task(f), set = a_set(f, 1, 1023);

	put_set(f, set);
	put_key(f, set, 1023, waiting, 5);
	expect_one(f, waiting);
	put(f->m.w, in(f->m.w, set, 16), 1024, 8);
	expect(f, PYAWAITER_UNKNOWN);
}

/* Two that wait, one of them behind a future. */
static void has_a_set_of_both(struct fix *f)
{
	raddr waiting = a_task(f), set = a_set(f, 2, 7), between = awaited_by(f, waiting);

	put_set(f, set);
	put_key(f, set, 0, between, 1);
	put_key(f, set, 1, waiting, 1);
	expect_one(f, waiting);
	put_key(f, set, 1, a_task(f), 1);
	expect(f, PYAWAITER_SEVERAL);
	put_key(f, set, 1, f->m.none, 1);
	expect(f, PYAWAITER_UNKNOWN);
}

/* --- up to 3.13 --- */

static raddr a_function(struct fix *f, const char *module, const char *name, raddr closure)
{
	raddr at = an(f, f->function);

	put(f->m.w, at + f->a->func_module, a_str(&f->m, module), 8);
	put(f->m.w, at + f->a->func_qualname, a_str(&f->m, name), 8);
	put(f->m.w, at + f->a->func_closure, closure, 8);
	return at;
}

/* Of cells with @n @values, or without any. */
static raddr a_closure(struct fix *f, size_t n, const raddr values[])
{
	raddr at = an(f, f->tuple);

	put(f->m.w, in(f->m.w, at, 0), n, 8);
	for (size_t i = 0; i < n; i++) {
		raddr cell = take(f->m.w, 32);

		put(f->m.w, in(f->m.w, cell, 0), values[i], 8);
		put(f->m.w, in(f->m.w, at, 8) + 8 * i, cell, 8);
	}
	return at;
}

static void put_first(struct fix *f, raddr at, raddr callback)
{
	put(f->m.w, at + f->a->callback, callback, 8);
}

static void put_future(struct fix *f, raddr at, raddr by)
{
	if (f->a->awaited_by)
		put_awaited(&f->m, at, by);
	else
		put_first(f, at,
			  a_function(f, "asyncio.tasks", "gather.<locals>._done_callback",
				     a_closure(f, 1, &by)));
}

static void is_gathered(struct fix *f)
{
	static const struct {
		const char *module, *name;
		enum pyawaiter found;
	} known[] = {
		{ "asyncio.tasks", "gather.<locals>._done_callback", PYAWAITER_ONE },
		{ "asyncio.tasks", "_gather.<locals>._done_callback", PYAWAITER_ONE },
		{ "asyncio.tasks", "_wait.<locals>._on_completion", PYAWAITER_ONE },
		{ "asyncio.tasks", "shield.<locals>._inner_done_callback", PYAWAITER_ONE },
		{ "asyncio.tasks", "shield.<locals>._outer_done_callback", PYAWAITER_NONE },
		{ "asyncio.tasks", "as_completed.<locals>._on_completion",
		  PYAWAITER_UNKNOWN },
		{ "my.tasks", "gather.<locals>._done_callback", PYAWAITER_NONE },
		{ "my.tasks", "as_completed.<locals>._on_completion", PYAWAITER_NONE },
	};
	raddr waiting = a_task(f), future = awaited_by(f, waiting);

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		raddr closure = a_closure(f, 1, &future);

		put_first(f, f->task, a_function(f, known[i].module, known[i].name, closure));
		if (known[i].found == PYAWAITER_ONE)
			expect_one(f, waiting);
		else
			expect(f, known[i].found);
	}
}

static void has_closure(struct fix *f)
{
	static const char name[] = "gather.<locals>._done_callback";
	raddr waiting = a_task(f), cells[CELLS] = { f->m.none, a_task(f), f->list };
	raddr closure;

	cells[CELLS - 1] = awaited_by(f, waiting);
	closure = a_closure(f, CELLS, cells);
	put_first(f, f->task, a_function(f, "asyncio.tasks", name, closure));
	expect_one(f, waiting);
	put(f->m.w, in(f->m.w, closure, 8), 0, 8); /* no cell */
	expect_one(f, waiting);
	put(f->m.w, in(f->m.w, closure, 0), CELLS + 1, 8);
	expect(f, PYAWAITER_UNKNOWN);
	put(f->m.w, in(f->m.w, closure, 0), CELLS - 1, 8);
	expect(f, PYAWAITER_NONE);
	put(f->m.w, in(f->m.w, closure, 8), WORLD_NOWHERE, 8);
	expect(f, PYAWAITER_UNKNOWN);
	put_first(f, f->task, a_function(f, "asyncio.tasks", name, 0));
	expect(f, PYAWAITER_NONE);
}

static raddr a_builtin(struct fix *f, const char *name, raddr self)
{
	raddr at = an(f, f->builtin), def = take(f->m.w, 32);

	put(f->m.w, def, chars(f->m.w, name), 8);
	put(f->m.w, in(f->m.w, at, 0), def, 8);
	put(f->m.w, in(f->m.w, at, 8), self, 8);
	return at;
}

static void is_woken(struct fix *f)
{
	raddr waiting = a_task(f), at = a_builtin(f, "task_wakeup", waiting);

	put_first(f, f->task, at);
	expect_one(f, waiting);
	put(f->m.w, in(f->m.w, at, 8), f->m.none, 8);
	expect(f, PYAWAITER_UNKNOWN);
	put_first(f, f->task, a_builtin(f, "task_wakeups", waiting));
	expect(f, PYAWAITER_NONE);
	put_first(f, f->task, a_builtin(f, "print", waiting));
	expect(f, PYAWAITER_NONE);
	put(f->m.w, in(f->m.w, at, 0), 0, 8); /* defined by nothing */
	put_first(f, f->task, at);
	expect(f, PYAWAITER_NONE);
}

/* A TaskGroup, whose parent is @task. */
static raddr a_group(struct fix *f, const char *attribute, raddr task)
{
	const char *names[] = { "_loop", attribute };
	raddr dict = a_dict(&f->m, 2, names, (raddr[]){ WORLD_NOWHERE, task });

	return an_object(&f->m, "TaskGroup", dict);
}

static raddr a_method(struct fix *f, raddr function, raddr self)
{
	raddr at = an(f, f->method);

	put(f->m.w, in(f->m.w, at, 0), function, 8);
	put(f->m.w, in(f->m.w, at, 8), self, 8);
	return at;
}

static void is_in_a_group(struct fix *f)
{
	static const char module[] = "asyncio.taskgroups", name[] = "TaskGroup._on_task_done";
	raddr waiting = a_task(f), done = a_function(f, module, name, 0);
	raddr group = a_group(f, "_parent_task", waiting);

	put_first(f, f->task, a_method(f, done, group));
	expect_one(f, waiting);
	put_first(f, f->task, a_method(f, done, a_group(f, "_parents", waiting)));
	expect(f, PYAWAITER_UNKNOWN);
	put_first(f, f->task, a_method(f, done, WORLD_NOWHERE));
	expect(f, PYAWAITER_UNKNOWN);
	put_first(f, f->task, a_method(f, a_function(f, "my.groups", name, 0), group));
	expect(f, PYAWAITER_NONE);
	put_first(f, f->task, a_method(f, a_function(f, module, "TaskGroup.x", 0), group));
	expect(f, PYAWAITER_NONE);
	put_first(f, f->task, a_method(f, a_builtin(f, name, group), group));
	expect(f, PYAWAITER_NONE);
}

/* as_completed() of 3.13. */
static void is_handled(struct fix *f)
{
	static const char name[] = "_AsCompletedIterator._handle_completion";
	raddr self = a_group(f, "_todo", a_task(f));

	put_first(f, f->task, a_method(f, a_function(f, "asyncio.tasks", name, 0), self));
	expect(f, PYAWAITER_UNKNOWN);
	put_first(f, f->task, a_method(f, a_function(f, "my.tasks", name, 0), self));
	expect(f, PYAWAITER_NONE);
}

static raddr a_partial(struct fix *f, raddr function, size_t n, const raddr args[])
{
	raddr at = an(f, f->partial), tuple = an(f, f->tuple);

	put(f->m.w, in(f->m.w, tuple, 0), n, 8);
	for (size_t i = 0; i < n; i++)
		put(f->m.w, in(f->m.w, tuple, 8) + 8 * i, args[i], 8);
	put(f->m.w, in(f->m.w, at, 0), function, 8);
	put(f->m.w, in(f->m.w, at, 8), n ? tuple : 0, 8);
	return at;
}

static void is_waited_for(struct fix *f)
{
	raddr waiting = a_task(f), args[2] = { awaited_by(f, waiting), a_task(f) };
	raddr release = a_function(f, "asyncio.tasks", "_release_waiter", 0);
	raddr other = a_function(f, "asyncio.tasks", "_release", 0);

	put_first(f, f->task, a_partial(f, release, 1, args));
	expect_one(f, waiting);
	put_first(f, f->task, a_partial(f, release, 2, args));
	expect(f, PYAWAITER_NONE);
	put_first(f, f->task, a_partial(f, release, 0, args));
	expect(f, PYAWAITER_NONE);
	put_first(f, f->task, a_partial(f, other, 1, args));
	expect(f, PYAWAITER_NONE);
	args[0] = f->m.none;
	put_first(f, f->task, a_partial(f, release, 1, args));
	expect(f, PYAWAITER_UNKNOWN);
}

/* What does not wait says nothing. */
static void calls_others(struct fix *f)
{
	put_first(f, f->task, an(f, f->m.none));
	expect(f, PYAWAITER_NONE);
	put_first(f, f->task, an(f, f->list) + 4);
	expect(f, PYAWAITER_NONE);
}

static raddr a_wrapper(struct fix *f, raddr task)
{
	raddr at = an(f, f->wrapper);

	put(f->m.w, in(f->m.w, at, 0), task, 8);
	return at;
}

/* @n callbacks, all but the last of which tell nothing. */
static raddr a_list(struct fix *f, size_t n, raddr last)
{
	raddr at = an(f, f->list), items = take(f->m.w, 8 * n), nothing = an(f, f->m.none);

	put(f->m.w, in(f->m.w, at, 0), n, 8);
	put(f->m.w, in(f->m.w, at, 8), items, 8);
	for (size_t i = 0; i < n; i++) {
		raddr pair = an(f, f->tuple);

		put(f->m.w, in(f->m.w, pair, 8), i + 1 < n ? nothing : last, 8);
		put(f->m.w, items + 8 * i, pair, 8);
	}
	put(f->m.w, f->task + f->a->callbacks, at, 8);
	return items;
}

static void has_a_list(struct fix *f)
{
	raddr waiting = a_task(f), last = a_wrapper(f, waiting), items;

	items = a_list(f, 3, last);
	expect_one(f, waiting);
	put(f->m.w, items, f->m.none, 8); /* no pair */
	expect_one(f, waiting);
	put_first(f, f->task, a_wrapper(f, waiting));
	expect_one(f, waiting);
	put_first(f, f->task, a_wrapper(f, a_task(f)));
	expect(f, PYAWAITER_SEVERAL);
	put_first(f, f->task, 0);
	a_list(f, CALLBACKS, last);
	expect_one(f, waiting);
	a_list(f, CALLBACKS + 1, last);
	expect(f, PYAWAITER_UNKNOWN);
	of_type(f->m.w, load_u64(world_mem(f->m.w, f->task + f->a->callbacks)), f->m.none);
	expect(f, PYAWAITER_NONE);
}

static void test_each(void **state)
{
	for (int sets = 0; sets < 2; sets++) {
		each(sets, is_awaited);
		each(sets, has_strange_types);
		each(sets, passes_through);
		each(sets, goes_in_a_circle);
	}
}

static void test_sets(void **state)
{
	each(true, has_a_set);
	each(true, has_a_large_set);
	each(true, has_a_set_of_both);
}

static void test_callbacks(void **state)
{
	each(false, is_gathered);
	each(false, has_closure);
	each(false, is_woken);
	each(false, is_in_a_group);
	each(false, is_handled);
	each(false, is_waited_for);
	each(false, calls_others);
	each(false, has_a_list);
}

/* Of all looks above. */
static void test_damage(void **state)
{
	damage_is_of_gcc();
	damage_expect(&damaged,
		      (uint64_t[DAMAGE_ENDS]){ 47323, 79522, 1444, 110985, 1056, 0, 0, 0 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_callbacks),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
