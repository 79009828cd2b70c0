/* SPDX-License-Identifier: MIT
 *
 * pytasks, pyawait: tasks in a made-up CPython, and what becomes of them when its memory is
 * not what it should be.
 */
#include <errno.h>
#include <stdlib.h>

#include "unit.h"
#include "damage.h"
#include "pytasks_made.h"
#include "remote/remote_pages.h"

enum {
	ROUNDS = 4000,
	CALLS_MAX = 200000, /* reads of one look, whatever is there */
};

static struct damage damaged_tasks, damaged_lists;

/* A task, and what was read of it before. */
struct known {
	struct made *m;
	const struct pytask *task;
};

static int look_at_task(void *arg)
{
	const struct known *k = arg;
	const struct pytask_ref at = { k->m->task, k->m->slot };
	struct pytask *t = calloc(1, sizeof(*t));
	int r = pytasks_read(&k->m->w->base, &k->m->w->l, &k->m->w->walk, &at, t);

	if (r == 0)
		r = pytasks_same(t, k->task) ? 0 : 1 + (int)t->state;
	else
		r = r == -EBADMSG ? 5 : r == -EFAULT ? 6 : 7;
	free(t);
	return r;
}

static int look_at_list(void *arg)
{
	struct made *m = arg;
	struct pytasks all;
	int r = pytasks_find(&m->w->base, &m->w->l, m->w->runtime, &all);
	bool same = all.n == 1 && all.task[0].at == m->task && all.task[0].slot == m->slot;

	if (r == 0)
		r = same ? 0 : 1 + (int)MIN(all.n, (size_t)2);
	else
		r = r == -EBADMSG ? 4 : r == -EFAULT ? 5 : 6;
	pytasks_deinit(&all);
	return r;
}

static int read_it(struct made *m, struct pytask *ret)
{
	const struct pytask_ref at = { m->task, m->slot };
	int r = pytasks_read(&m->w->base, &m->w->l, &m->w->walk, &at, ret);

	if (r == 0)
		damage_reads(&damaged_tasks, m->w, look_at_task, &(struct known){ m, ret });
	return r;
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
	damage_reads(&damaged_lists, m->w, look_at_list, m);
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

	put(m->w, in(m->w, own, 240), own, 8);
	of_type(m->w, m->task, own);
	assert_int_equal(read_it(m, t), -ENOTSUP);
	make_task(m, 0);
	wrapper = of_type(m->w, take(m->w, 64), a_type(m->w, "coroutine_wrapper", 24, 0));
	put(m->w, in(m->w, wrapper, 0), wrapper, 8);
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

/* Each state from that in which it awaits up to that in which it runs, which 3.15 has one of
 * between. */
static void is_looked_at(struct made *m, struct pytask *t)
{
	if (m->g->opcode[0])
		return;
	for (int8_t told = m->g->waits; told < m->g->runs; told++) {
		for (size_t i = 0; i < 3; i++)
			world_put(m->w, m->coro[i], m->g->state, (uint8_t)told, 1);
		assert_int_equal(read_it(m, t), 0);
		assert_int_equal(t->chain.n, 3);
	}
}

static void test_looked_at(void **state)
{
	each(is_looked_at);
}

static void is_of_another_size(struct made *m, struct pytask *t)
{
	raddr type = world_get(m->w, m->task, m->w->l.object.type);
	raddr derived = a_type(m->w, "Derived", 4096, type);

	of_type(m->w, m->task, derived);
	assert_int_equal(read_it(m, t), 0);
	put(m->w, in(m->w, type, 16), sizes[0] + 4, 8);
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
}

static int find(const struct made *m)
{
	struct pytasks all;
	int r = pytasks_find(&m->w->base, &m->w->l, m->w->runtime, &all);

	r = r == 0 ? (int)all.n : r;
	pytasks_deinit(&all);
	return r;
}

/* What _asyncio tells is taken if all of it fits. */
static void tells_another_build(struct made *m)
{
	static const struct {
		uint32_t word;
		uint64_t value;
	} told[] = { { 0, 176 },
		     { 1, 144 },
		     { 5, 120 },
		     { 6, 160 },
		     { 7, 8 },
		     { 8, 10852 },
		     { 8, UINT32_MAX - 7 },
		     { 9, 824 },
		     { 9, 872 },
		     { 9, 65536 },
		     { 11, 1100 },
		     { 11, 1104 },
		     { 11, 868 },
		     { 12, 1096 },
		     { 12, UINT64_MAX - 7 } };

	for (size_t i = 0; i < ARRAY_SIZE(told); i++) {
		raddr at = m->told + 8 * told[i].word;
		uint64_t was = load_u64(world_mem(m->w, at));

		put(m->w, at, told[i].value, 8);
		assert_int_equal(find(m), -ENOTSUP);
		put(m->w, at, was, 8);
		assert_int_equal(find(m), 1);
	}
}

static raddr state_of_asyncio(const struct made *m)
{
	raddr module;

	assert_int_equal(
		pydict_module(&m->w->base, &m->w->l, m->w->last_interp, "_asyncio", &module),
		0);
	return world_get(m->w, module, m->w->l.module.state);
}

/* The last places that fit. */
static void tells_the_last(struct made *m)
{
	static const uint64_t at[] = { 11, 1096, 12, 1088, 9, 1104 };
	uint64_t size = m->w->l.interp.size;
	struct tasklists l = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(at); i += 2)
		put(m->w, m->told + 8 * at[i], at[i + 1], 8);
	put(m->w, m->told + 8 * 8, size - 16, 8);
	assert_int_equal(pytasks_lists(&m->w->base, &m->w->l, m->w->last_interp, &l), 0);
	assert_int_equal(l.in_interp, size - 16);
	assert_int_equal(l.in_tstate, 1088);
	assert_int_equal(l.running, 1096);
	/* Behind the state nothing is mapped. */
	world_hole(m->w, state_of_asyncio(m) + 160, 8);
	assert_int_equal(pytasks_lists(&m->w->base, &m->w->l, m->w->last_interp, &l), 0);
}

/* Without the module no task of C's is there. */
static void has_no_asyncio(struct made *m)
{
	raddr modules = world_get(m->w, m->w->last_interp, m->w->l.interp.modules);
	pyoff state = m->w->l.module.state;

	world_put(m->w, world_get(m->w, modules, m->w->l.dict.keys), m->w->l.dictkeys.n, 1, 8);
	assert_int_equal(find(m), 0);
	world_put(m->w, world_get(m->w, modules, m->w->l.dict.keys), m->w->l.dictkeys.n, 2, 8);
	m->w->l.module.state = (pyoff){ 0 };
	assert_false(pytasks_known(&m->w->l));
	assert_true(find(m) < 0);
	m->w->l.module.state = state;
	assert_true(pytasks_known(&m->w->l));
	assert_int_equal(find(m), 1);
}

static void has_a_strange_set(struct made *m, struct pytask *t)
{
	static const struct {
		uint32_t at;
		uint64_t value;
	} strange[] = { { 16, 6 },
			{ 16, UINT64_MAX },
			{ 8, 5 },
			{ 0, 100 },
			{ 24, 0 },
			{ 16, (8ull << 16) * 2 - 1 },
			{ 24, WORLD_NOWHERE } };

	if (pyoff_has(m->t->node)) {
		has_a_strange_list(m);
		tells_another_build(m);
		has_no_asyncio(m);
		is_whole(m, t);
		tells_the_last(m);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(strange); i++) {
		raddr at = in(m->w, m->set, strange[i].at);
		uint64_t was = load_u64(world_mem(m->w, at));
		struct pytasks all;

		put(m->w, at, strange[i].value, 8);
		assert_true(pytasks_find(&m->w->base, &m->w->l, m->w->runtime, &all) < 0);
		assert_int_equal(all.n, 0);
		pytasks_deinit(&all);
		put(m->w, at, was, 8);
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

/* Keys of strings before whose characters as much lies as a process may say; the first is @name. */
static raddr keys_with_large_heads(struct made *m, const char *name)
{
	struct world *w = m->w;
	raddr at = take(w, 64), keys = take(w, 4096), entries;

	world_put(w, at, w->l.dict.keys, keys, 8);
	world_put(w, keys, w->l.dictkeys.index_log2, 6, 1);
	world_put(w, keys, w->l.dictkeys.n, PYDICT_PIECE, 8);
	entries = keys + pyoff_get(w->l.dictkeys.entries) + PYDICT_PIECE;
	for (uint32_t i = 0; i < PYDICT_PIECE; i++) {
		put(w, entries + 24 * i + 8, a_str(m, i ? "of another name" : name), 8);
		put(w, entries + 24 * i + 16, m->none, 8);
	}
	return at;
}

/* What a process says of its strings is taken up to this size, and read into buffers. */
static void test_large_heads(void **state)
{
	static const char name[] = "a name as long as few";
	struct made m;
	struct pylayout *l;
	struct pydict d;
	raddr value;
	char text[64];

	make_bare(&m, 6);
	l = &m.w->l;
	l->str.ascii_data = l->str.compact_data = PYLAYOUT_HEADER_MAX;
	l->str.length = (pyoff)AT(PYLAYOUT_HEADER_MAX - 8);
	assert_int_equal(pylayout_check(l, NULL), 0);
	assert_int_equal(
		pydict_read(&m.w->base, l, keys_with_large_heads(&m, name), &d), 0);
	assert_int_equal(pydict_value(&m.w->base, l, &d, name, &value), 0);
	assert_int_equal(value, m.none);
	assert_int_equal(pydict_text(&m.w->base, l, a_str(&m, name), text, sizeof(text)), 0);
	assert_string_equal(text, name);
	l->str.compact_data += 8;
	assert_int_equal(pylayout_check(l, NULL), -EBADMSG);
	free(m.w);
}

/* Of all looks above. */
static void test_damage(void **state)
{
	damage_expect(&damaged_tasks, (uint64_t[DAMAGE_ENDS]){ 39379, 461, 12209, 3859, 0,
							       17066, 8076, 7410 });
	damage_expect(&damaged_lists,
		      (uint64_t[DAMAGE_ENDS]){ 12870, 2306, 224, 144, 5704, 0, 1312, 0 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),	  cmocka_unit_test(test_pages),
		cmocka_unit_test(test_runs),	  cmocka_unit_test(test_done),
		cmocka_unit_test(test_circle),	  cmocka_unit_test(test_no_await),
		cmocka_unit_test(test_looked_at), cmocka_unit_test(test_types_in_a_circle),
		cmocka_unit_test(test_size),	  cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_set),	  cmocka_unit_test(test_noise),
		cmocka_unit_test(test_large_heads), cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
