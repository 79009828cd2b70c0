/* SPDX-License-Identifier: MIT
 *
 * pytasks, pyawait: tasks in a made-up CPython, and what becomes of them when its memory is
 * not what it should be.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "offsets/tasklayout.h"
#include "python/pytasks.h"
#include "pyworld.h"
#include "remote/remote_pages.h"

enum {
	UNITS = 8,
	TYPE_BYTES = 1024,
	LOCALS = 1 + WORLD_LOCALS / 8, /* nlocalsplus of world_code() */
	TABLE = 8,		       /* entries of a set, and of a dict */
	ROOM = 512,		       /* of a coroutine, a frame or a task */
	BEFORE = 32,		       /* bytes before an object */
	ROUNDS = 4000,
	CALLS_MAX = 200000, /* reads of one look, whatever is there */
};

/* A process with one task. */
struct made {
	struct world *w;
	const struct genlayout *g;
	const struct tasklayout *t;
	raddr coroutine, str, none; /* types */
	raddr task, slot, set;
	raddr coro[3]; /* outermost first */
	raddr code;
};

static const uint16_t versions[] = { 0x0307, 0x0308, 0x0309, 0x030a, 0x030b,
				     0x030c, 0x030d, 0x030e, 0x030f };
static const uint16_t sizes[] = { 136, 144, 184, 192, 176, 176, 144, 168, 168 };
static const uint32_t interp_sizes[ARRAY_SIZE(versions)] = { [7] = 225864, [8] = 226240 };

static void put(struct world *w, raddr at, uint64_t v, size_t n)
{
	memcpy(world_mem(w, at), &v, n);
}

static raddr take(struct world *w, size_t n)
{
	return world_take(w, n + BEFORE) + BEFORE;
}

static raddr chars(struct world *w, const char *s)
{
	raddr at = world_take(w, strlen(s) + 1);

	memcpy(world_mem(w, at), s, strlen(s) + 1);
	return at;
}

static raddr a_type(struct world *w, const char *name, uint64_t size, raddr base)
{
	raddr at = take(w, TYPE_BYTES);

	world_put(w, at, w->l.object.type_name, chars(w, name), 8);
	put(w, at + 32, size, 8);
	put(w, at + 256, base, 8);
	return at;
}

static raddr of_type(struct world *w, raddr at, raddr type)
{
	world_put(w, at, w->l.object.type, type, 8);
	return at;
}

static raddr a_str(struct made *m, const char *s)
{
	return of_type(m->w, world_str(m->w, s), m->str);
}

/* With the keys @name, in any version. */
static raddr a_dict(struct made *m, size_t n, const char *const name[], const raddr value[])
{
	struct world *w = m->w;
	const struct pylayout *l = &w->l;
	raddr at = take(w, 64), keys = take(w, ROOM), entries = keys;

	world_put(w, at, l->dict.keys, keys, 8);
	world_put(w, keys, l->dictkeys.size, TABLE, 8);
	world_put(w, keys, l->dictkeys.index_log2, 3, 1);
	world_put(w, keys, l->dictkeys.kind, 0, 1);
	world_put(w, keys, l->dictkeys.n, n, 8);
	entries += pyoff_get(l->dictkeys.entries) + TABLE;
	for (size_t i = 0; i < n; i++) {
		put(w, entries + 24 * i + 8, a_str(m, name[i]), 8);
		put(w, entries + 24 * i + 16, value[i], 8);
	}
	return at;
}

/* With attributes in a dict. */
static raddr an_object(struct made *m, const char *class, raddr dict)
{
	raddr at = take(m->w, 64), type = a_type(m->w, class, 32, 0);

	world_put(m->w, type, m->w->l.object.type_flags, 1 << 4, 8);
	world_put(m->w, type, m->w->l.object.type_dict, 16, 8);
	put(m->w, m->w->l.attrs == PY_ATTRS_DICT ? at + 16 : at - 24, dict, 8);
	return of_type(m->w, at, type);
}

/* Where the top of its values is. */
static raddr top_of(const struct made *m, raddr coro)
{
	const struct pylayout *l = &m->w->l;

	if (!l->lasti_unit)
		return coro + m->g->frame + pyoff_get(l->frame.localsplus) + 8 * LOCALS;
	return load_u64(world_mem(m->w, coro + m->g->frame)) + ROOM - 64;
}

static raddr frame_object(struct made *m, raddr coro)
{
	struct world *w = m->w;
	raddr at = take(w, ROOM);

	put(w, coro + m->g->frame, at, 8);
	world_put(w, at, m->g->frame_of, coro, 8);
	world_put(w, at, m->g->values, top_of(m, coro), 8);
	world_put(w, at, m->g->top, top_of(m, coro) + 8, 8);
	world_put(w, at, m->g->depth, 1, 4);
	return at;
}

/* Which stands in an await at @unit. */
static raddr a_coroutine(struct made *m, uint32_t unit)
{
	struct world *w = m->w;
	raddr at = of_type(w, take(w, ROOM), m->coroutine);
	raddr frame = w->l.lasti_unit ? frame_object(m, at) : at + m->g->frame;

	put(w, at + m->g->qualname, a_str(m, "made.up"), 8);
	world_frame(w, frame, 'g', m->code, world_instr(w, m->code, unit), 0);
	world_put(w, frame, w->l.frame.stacktop, LOCALS + 1, 4);
	if (!w->l.lasti_unit)
		world_put(w, frame, m->g->top, top_of(m, at) + 8 + 8 * m->g->above, 8);
	if (pyoff_has(m->g->state))
		world_put(w, w->l.lasti_unit ? frame : at, m->g->state,
			  m->g->opcode[0] ? 0xff : (uint8_t)m->g->waits, 1);
	return at;
}

/* The opcode behind each instruction. */
static void put_opcodes(struct made *m, uint8_t opcode)
{
	raddr at = m->code + m->w->l.code.size;

	if (m->w->l.lasti_unit)
		at = world_get(m->w, m->code, m->w->l.code.instructions) +
		     pyoff_get(m->w->l.bytes.data);
	for (uint32_t i = 0; i < UNITS; i++)
		put(m->w, at + 2 * i, opcode | 3 << 8, 2);
}

static void make_sets(struct made *m, raddr interp)
{
	struct world *w = m->w;
	raddr table = take(w, 16 * TABLE), ref = take(w, 64), weak, module = take(w, 64);

	m->set = take(w, 256);
	m->slot = ref + 16;
	put(w, m->slot, m->task, 8);
	put(w, table + 16 * 3, ref, 8);
	put(w, table + 16 * 5, ref, 8); /* was taken out */
	put(w, table + 16 * 5 + 8, UINT64_MAX, 8);
	put(w, m->set + 16, 2, 8);
	put(w, m->set + 24, 1, 8);
	put(w, m->set + 32, TABLE - 1, 8);
	put(w, m->set + 40, table, 8);
	weak = an_object(m, "WeakSet",
			 a_dict(m, 2, (const char *[]){ "_remove", "data" },
				(raddr[]){ WORLD_NOWHERE, m->set }));
	world_put(w, module, w->l.module.dict,
		  a_dict(m, 2,
			 (const char *[]){ "x", w->l.version < 0x030c ? "_all_tasks" :
									"_scheduled_tasks" },
			 (raddr[]){ WORLD_NOWHERE, weak }),
		  8);
	world_put(w, interp, w->l.interp.modules,
		  a_dict(m, 2, (const char *[]){ "sys", "asyncio.tasks" },
			 (raddr[]){ WORLD_NOWHERE, module }),
		  8);
}

/* In a thread's list, behind one that has none. */
static void make_lists(struct made *m, raddr interp)
{
	struct world *w = m->w;
	const struct tasklists *l = tasklists_find(w->l.version, w->l.interp.size);
	raddr of_interp = interp + l->in_interp, of_thread;

	world_take(w, 8192); /* the interpreter is so large */
	of_thread = world_thread(w, interp, 1, true) + l->in_tstate;
	world_take(w, 1024);
	m->slot = m->task + pyoff_get(m->t->node);
	put(w, of_interp, of_interp, 8);
	put(w, of_interp + 8, of_interp, 8);
	put(w, of_thread, m->slot, 8);
	put(w, of_thread + 8, m->slot, 8);
	put(w, m->slot, of_thread, 8);
	put(w, m->slot + 8, of_thread, 8);
}

static void make_task(struct made *m, size_t version)
{
	struct world *w = m->w;
	raddr type = a_type(w, "_asyncio.Task", sizes[version], 0);

	m->task = of_type(w, take(w, ROOM), type);
	put(w, m->task + m->t->coro, m->coro[0], 8);
	if (pyoff_has(m->t->name))
		world_put(w, m->task, m->t->name, a_str(m, "its name"), 8);
}

static void make(struct made *m, size_t version)
{
	const struct world_code code = {
		.name = "f", .file = "f.py", .line = 10, .units = UNITS
	};

	m->w = world_create(pylayout_find(versions[version]));
	if (interp_sizes[version])
		m->w->l.interp.size = interp_sizes[version];
	m->g = genlayout_find(versions[version]);
	m->t = tasklayout_find(versions[version], sizes[version]);
	assert_non_null(m->g);
	assert_non_null(m->t);
	m->str = a_type(m->w, "str", 80, 0);
	m->none = a_type(m->w, "NoneType", 16, 0);
	m->coroutine = a_type(m->w, "coroutine", 88, 0);
	m->code = world_code(m->w, &code);
	put_opcodes(m, m->g->opcode[0] ? m->g->opcode[0] : 9);
	for (uint32_t i = 0; i < 3; i++)
		m->coro[i] = a_coroutine(m, i + 1);
	for (size_t i = 0; i < 2; i++)
		put(m->w, top_of(m, m->coro[i]), m->coro[i + 1], 8);
	/* The last one awaits something else. */
	put(m->w, top_of(m, m->coro[2]), of_type(m->w, take(m->w, 64), m->none), 8);
	make_task(m, version);
	if (pyoff_has(m->t->node))
		make_lists(m, world_interp(m->w));
	else
		make_sets(m, world_interp(m->w));
}

static int read_it(struct made *m, struct pytask *ret)
{
	const struct pytask_ref at = { m->task, m->slot };

	return pytasks_read(&m->w->base, &m->w->l, &m->w->walk, &at, ret);
}

static int read_by_pages(struct made *m, struct rmem_pages *p, struct pytask *ret)
{
	const struct pytask_ref at = { m->task, m->slot };

	return pytasks_read(&p->base, &m->w->l, &m->w->walk, &at, ret);
}

static struct pytask *new_task(void)
{
	return calloc(1, sizeof(struct pytask));
}

/* Of each version. */
static void each(void (*test)(struct made *m, struct pytask *t))
{
	struct pytask *t = new_task();

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct made m = { 0 };

		make(&m, i);
		test(&m, t);
		free(m.w);
	}
	free(t);
}

static void is_whole(struct made *m, struct pytask *t)
{
	struct pytasks all;

	assert_int_equal(pytasks_find(&m->w->base, &m->w->l, m->w->runtime, &all), 0);
	assert_int_equal(all.n, 1);
	assert_false(all.cut);
	assert_int_equal(all.task[0].at, m->task);
	assert_int_equal(all.task[0].slot, m->slot);
	pytasks_deinit(&all);
	assert_int_equal(read_it(m, t), 0);
	assert_int_equal(t->state, PYTASK_WAITING);
	assert_int_equal(t->has_name, pyoff_has(m->t->name));
	if (t->has_name)
		assert_string_equal(t->name, "its name");
	assert_true(t->has_coroutine);
	assert_string_equal(t->coroutine, "made.up");
	assert_int_equal(t->chain.n, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(t->chain.frame[i].instr - t->chain.frame[0].instr, 2 * i);
}

static void test_whole(void **state)
{
	each(is_whole);
}

/* By pages it is the same, in fewer reads, and as it was until they are forgotten. */
static void is_whole_by_pages(struct made *m, struct pytask *t)
{
	unsigned char (*page)[RMEM_PAGE] = malloc(RMEM_PAGES * sizeof(*page));
	struct rmem_pages pages, *p = &pages;
	struct pytask *by_pages = new_task();
	int calls;

	m->w->calls = 0;
	assert_int_equal(read_it(m, t), 0);
	calls = m->w->calls;
	m->w->calls = 0;
	rmem_pages_init(p, &m->w->base, page, RMEM_PAGES);
	assert_int_equal(read_by_pages(m, p, by_pages), 0);
	assert_true(pytasks_same(t, by_pages));
	assert_true(m->w->calls * 2 < calls);
	put(m->w, m->slot, 0, 8);
	assert_int_equal(read_by_pages(m, p, by_pages), 0);
	rmem_pages_forget(p);
	assert_int_equal(read_by_pages(m, p, by_pages), -ENOENT);
	assert_int_equal(rmem_read(&p->base, WORLD_AT + WORLD_BYTES - 4, &calls, 4), 0);
	assert_true(rmem_read(&p->base, WORLD_AT + WORLD_BYTES - 4, t, 8) < 0);
	free(by_pages);
	free(page);
}

static void test_pages(void **state)
{
	each(is_whole_by_pages);
}

static void put_state(struct made *m, int8_t told, uint8_t running)
{
	raddr at = m->coro[0];

	if (pyoff_has(m->g->running)) {
		world_put(m->w, at, m->g->running, running, 1);
		return;
	}
	if (m->w->l.lasti_unit)
		at = load_u64(world_mem(m->w, at + m->g->frame));
	world_put(m->w, at, m->g->state, (uint8_t)told, 1);
}

static void runs(struct made *m, struct pytask *t)
{
	raddr frame = m->coro[0] + m->g->frame;

	put_state(m, m->g->runs, 1);
	assert_int_equal(read_it(m, t), 0);
	assert_int_equal(t->state, PYTASK_RUNNING);
	assert_int_equal(t->chain.n, 0);
	assert_int_equal(t->chain.runs,
			 m->w->l.lasti_unit ? load_u64(world_mem(m->w, frame)) : frame);
	put_state(m, 100, 100);
	assert_int_equal(read_it(m, t), -EBADMSG);
}

static void test_runs(void **state)
{
	each(runs);
}

static void is_done(struct made *m, struct pytask *t)
{
	for (uint32_t s = 0; s < 4; s++) {
		put(m->w, m->task + m->t->state, s, 4);
		assert_int_equal(read_it(m, t), s > 2 ? -EBADMSG : 0);
		if (s < 3)
			assert_int_equal(t->state, s ? PYTASK_DONE : PYTASK_WAITING);
	}
	put(m->w, m->task + m->t->state, 2, 4);
	put(m->w, m->task + m->t->coro, 0, 8);
	assert_int_equal(read_it(m, t), 0);
	assert_false(t->has_coroutine);
	put(m->w, m->task + m->t->state, 0, 4);
	assert_int_equal(read_it(m, t), -EBADMSG);
}

static void test_done(void **state)
{
	each(is_done);
}

static void goes_in_a_circle(struct made *m, struct pytask *t)
{
	put(m->w, top_of(m, m->coro[2]), m->coro[0], 8);
	assert_int_equal(read_it(m, t), -EBADMSG);
	put(m->w, top_of(m, m->coro[0]), m->coro[0], 8);
	assert_int_equal(read_it(m, t), -EBADMSG);
}

static void test_circle(void **state)
{
	each(goes_in_a_circle);
}

/* A type that has itself as its base, and another that refers to itself. */
static void has_types_in_a_circle(struct made *m, struct pytask *t)
{
	raddr own = a_type(m->w, "Own", sizes[0], 0), wrapper;

	put(m->w, own + 256, own, 8);
	of_type(m->w, m->task, own);
	assert_int_equal(read_it(m, t), -ENOTSUP);
	make_task(m, 0);
	wrapper = of_type(m->w, take(m->w, 64), a_type(m->w, "coroutine_wrapper", 24, 0));
	put(m->w, wrapper + 16, wrapper, 8);
	put(m->w, top_of(m, m->coro[2]), wrapper, 8);
	put(m->w, m->slot, m->task, 8);
	assert_true(read_it(m, t) < 0);
}

static void test_types_in_a_circle(void **state)
{
	each(has_types_in_a_circle);
}

static void stands_elsewhere(struct made *m, struct pytask *t)
{
	put_opcodes(m, 9);
	if (!m->g->opcode[0])
		for (size_t i = 0; i < 3; i++)
			world_put(m->w, m->coro[i], m->g->state, (uint8_t)(m->g->waits - 1),
				  1);
	assert_int_equal(read_it(m, t), 0);
	assert_int_equal(t->chain.n, 1);
}

/* It yields by itself: its topmost value is no matter of ours. */
static void test_no_await(void **state)
{
	each(stands_elsewhere);
}

static void is_of_another_size(struct made *m, struct pytask *t)
{
	raddr type = world_get(m->w, m->task, m->w->l.object.type);
	raddr derived = a_type(m->w, "Derived", 4096, type);

	of_type(m->w, m->task, derived);
	assert_int_equal(read_it(m, t), 0);
	put(m->w, type + 32, sizes[0] + 4, 8);
	assert_int_equal(read_it(m, t), -ENOTSUP);
	of_type(m->w, m->task, m->none);
	assert_int_equal(read_it(m, t), -ENOENT);
}

static void test_size(void **state)
{
	each(is_of_another_size);
}

static void has_garbage(struct made *m, struct pytask *t)
{
	static const raddr garbage[] = {
		0, 1, 8, 0x7fffffffffff, UINT64_MAX, WORLD_NOWHERE, WORLD_AT
	};

	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		put(m->w, top_of(m, m->coro[2]), garbage[i], 8);
		assert_true(read_it(m, t) < 0 || t->chain.n == 3);
	}
	for (size_t i = 0; i < ARRAY_SIZE(garbage) && pyoff_has(m->t->name); i++) {
		world_put(m->w, m->task, m->t->name, garbage[i], 8);
		assert_true(read_it(m, t) < 0);
	}
	put(m->w, m->slot, m->task + 8, 8);
	assert_int_equal(read_it(m, t), -ENOENT);
}

static void test_garbage(void **state)
{
	each(has_garbage);
}

/* A list must end where it began, by nodes that know each other. */
static void has_a_strange_list(struct made *m)
{
	static const raddr strange[] = { 0, 1, WORLD_AT, WORLD_NOWHERE, UINT64_MAX };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(strange); i++) {
		raddr at = m->slot + 8 * (i % 2);
		uint64_t was = load_u64(world_mem(m->w, at));
		struct pytasks all;

		put(m->w, at, strange[i / 2], 8);
		assert_true(pytasks_find(&m->w->base, &m->w->l, m->w->runtime, &all) < 0);
		assert_true(all.n <= 1);
		pytasks_deinit(&all);
		put(m->w, at, was, 8);
	}
	/* Of another build. */
	m->w->l.interp.size += 8;
	assert_false(pytasks_known(&m->w->l));
	m->w->l.interp.size -= 8;
}

static void has_a_strange_set(struct made *m, struct pytask *t)
{
	static const struct {
		uint32_t at;
		uint64_t value;
	} strange[] = { { 32, 6 },
			{ 32, UINT64_MAX },
			{ 24, 5 },
			{ 16, 100 },
			{ 40, 0 },
			{ 32, (8ull << 16) * 2 - 1 },
			{ 40, WORLD_NOWHERE } };

	if (pyoff_has(m->t->node)) {
		has_a_strange_list(m);
		is_whole(m, t);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(strange); i++) {
		uint64_t was = load_u64(world_mem(m->w, m->set + strange[i].at));
		struct pytasks all;

		put(m->w, m->set + strange[i].at, strange[i].value, 8);
		assert_true(pytasks_find(&m->w->base, &m->w->l, m->w->runtime, &all) < 0);
		assert_int_equal(all.n, 0);
		pytasks_deinit(&all);
		put(m->w, m->set + strange[i].at, was, 8);
	}
	is_whole(m, t);
}

static void test_set(void **state)
{
	each(has_a_strange_set);
}

/* Whatever stands in memory, a look ends, and stays within it. */
static void is_noise(struct made *m, struct pytask *t)
{
	raddr last = m->w->next;

	srand(1);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t words = (last - WORLD_AT) / 8;
		raddr at = WORLD_AT + 8 * ((uint64_t)rand() % words);
		uint64_t was = load_u64(world_mem(m->w, at));
		raddr other = WORLD_AT + 8 * ((uint64_t)rand() % words);
		struct pytasks all;

		put(m->w, at, rand() % 4 ? other : (uint64_t)rand() * (uint64_t)rand(), 8);
		m->w->calls = 0;
		pytasks_find(&m->w->base, &m->w->l, m->w->runtime, &all);
		assert_true(all.n <= PYTASKS_MAX);
		for (size_t j = 0; j < MIN(all.n, (size_t)4); j++) {
			pytasks_read(&m->w->base, &m->w->l, &m->w->walk, &all.task[j], t);
			assert_true(t->chain.n <= PYAWAIT_MAX);
		}
		pytasks_deinit(&all);
		assert_true(m->w->calls < CALLS_MAX);
		/* Some of it stays, so that errors add up. */
		if (rand() % 8)
			put(m->w, at, was, 8);
		if (i % 64 == 63)
			put(m->w, at, was, 8);
	}
}

static void test_noise(void **state)
{
	each(is_noise);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_done),
		cmocka_unit_test(test_circle),
		cmocka_unit_test(test_no_await),
		cmocka_unit_test(test_types_in_a_circle),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
