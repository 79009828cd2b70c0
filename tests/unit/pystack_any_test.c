/* SPDX-License-Identifier: MIT
 *
 * pystack: whatever happens to two programs' threads and codes, each sample has the frames that
 * stand there then, whether all was seen before or nothing was.
 */
#include <stdlib.h>

#include "unit.h"
#include "python/pystack_int.h"
#include "pyworld.h"

enum {
	PROGRAMS = 2,
	THREADS = 3,
	CODES = 6,
	KINDS = 20, /* functions that a code object may be */
	UNITS = 8,
	TRACED = 2,
	DEPTH = 6,
	ROUNDS = 80,
	MAX_IDS = 1 << 15,
};

/* A reader, and what its codes are called. */
struct reader {
	struct pystack *p;
	uint64_t last_id;
	char name[MAX_IDS];
};

/* What a thread runs, innermost first. */
struct stack {
	uint32_t n, code[DEPTH], unit[DEPTH];
};

/* A program. Thread i bears number i + 1. */
struct program {
	struct world *w;
	struct stack stack[THREADS];
	uint32_t is[CODES]; /* which function each code is */
	struct pystack_target t;
	raddr interp[2], ts[THREADS];
	raddr code[CODES], copies[CODES], function[CODES], kind[KINDS];
	raddr count; /* of code objects; 0: nowhere */
	uint32_t versions;
};

struct fix {
	struct reader old, young;
	struct program of[PROGRAMS];
};

static bool new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct reader *r = arg;
	char name[8];

	assert_true(id > r->last_id && id < MAX_IDS);
	pycode_name(c, name, sizeof(name));
	r->name[id] = name[0];
	r->last_id = id;
	return true;
}

static bool keep(void *arg, uint64_t id, uint64_t was)
{
	struct reader *r = arg;

	r->name[id] = r->name[was];
	r->last_id = id;
	return true;
}

/* Below @n. */
static uint32_t any(uint32_t n)
{
	return (uint32_t)rand() % n;
}

/* What lies at code @i becomes function @kind, as after a free and a new one. */
static void put_code(struct program *g, uint32_t i, uint32_t kind)
{
	struct world *w = g->w;
	const struct pylayout *l = &w->l;

	g->is[i] = kind;
	memcpy(world_mem(w, g->code[i]), world_mem(w, g->kind[kind]), l->code.size);
	world_put(w, g->code[i], l->code.version, ++g->versions, 4);
	world_put(w, g->code[i], l->code.tlbc, g->copies[i], 8);
	if (g->count)
		world_put(w, g->count, (pyoff)AT(0), g->versions + 1, 4);
	if (pyoff_has(l->frame.func))
		world_put(w, g->function[i], l->func.version, any(4) ? g->versions : 0, 4);
}

static void make_codes(struct program *g)
{
	struct world *w = g->w;
	const struct pylayout *l = &w->l;

	for (uint32_t k = 0; k < KINDS; k++) {
		char name[2] = { (char)('a' + k), 0 };
		const struct world_code c = { name, "/x.py", 10 + k, UNITS, TRACED, 0 };

		g->kind[k] = world_code(w, &c);
		world_take(w, 4096);
	}
	for (uint32_t i = 0; i < CODES; i++) {
		g->code[i] = world_take(w, l->code.size + 2 * UNITS);
		if (pyoff_has(l->code.tlbc))
			g->copies[i] = world_copies(w, g->code[i], 1);
		g->function[i] = world_take(w, 256);
		if (pyoff_has(l->frame.func))
			world_put(w, g->function[i], l->func.code, g->code[i], 8);
		put_code(g, i, i);
	}
}

static void put_stack(struct program *g, uint32_t thread)
{
	const struct pylayout *l = &g->w->l;
	struct stack *s = &g->stack[thread];
	raddr code[DEPTH + 1] = { 0 }, instr[DEPTH + 1] = { 0 };
	char letters[DEPTH + 2] = "";

	s->n = any(DEPTH) + 1;
	for (uint32_t i = 0; i < s->n; i++) {
		s->code[i] = any(CODES);
		s->unit[i] = TRACED + 1 + any(UNITS - TRACED - 1); /* it has begun */
		letters[i] = 'f';
		code[i] = g->code[s->code[i]];
		instr[i] = code[i] + l->code.size + 2 * s->unit[i];
	}
	if (l->owner_shim)
		letters[s->n] = pyoff_has(l->tstate.base_frame) ? 'b' : 's';
	else
		letters[s->n - 1] = 'e';
	world_stack(g->w, g->ts[thread], letters, code, instr);
	for (uint32_t i = 0; i < s->n; i++)
		world_put(g->w, g->w->frame[i], l->frame.func, g->function[s->code[i]], 8);
}

static void make_program(struct program *g, const struct pylayout *l, int number, bool counted)
{
	struct world *w = g->w = world_create(l);

	w->chunk = 2048;
	g->t = (struct pystack_target){ .pid = 100 * number,
					.program = PYSTACK_SEVERAL * number,
					.layout = w->l,
					.walk = w->walk };
	for (int i = 0; i < 2; i++)
		g->interp[i] = world_interp(w);
	if (counted && pyoff_has(l->code.version))
		g->t.code_versions = g->count = world_take(w, 16);
	make_codes(g);
	for (uint32_t i = 0; i < THREADS; i++) {
		g->ts[i] = world_thread(w, g->interp[i % 2], i + 1, true);
		put_stack(g, i);
	}
}

static void unlink_state(struct program *g, raddr interp, raddr ts)
{
	const struct pylayout *l = &g->w->l;
	raddr next = world_get(g->w, ts, l->tstate.next);
	raddr at = world_get(g->w, interp, l->interp.threads_head);

	if (at == ts) {
		world_put(g->w, interp, l->interp.threads_head, next, 8);
		return;
	}
	while (world_get(g->w, at, l->tstate.next) != ts)
		at = world_get(g->w, at, l->tstate.next);
	world_put(g->w, at, l->tstate.next, next, 8);
}

/* The thread ends, and another one begins with its number. */
static void replace_thread(struct program *g, uint32_t thread)
{
	struct world *w = g->w;
	const struct pylayout *l = &w->l;
	raddr chunk = world_get(w, g->ts[thread], l->tstate.datastack_chunk);

	unlink_state(g, g->interp[thread % 2], g->ts[thread]);
	memset(world_mem(w, g->ts[thread]), 0x55, l->tstate.size);
	g->ts[thread] = world_thread(w, g->interp[thread % 2], thread + 1, true);
	world_put(w, g->ts[thread], l->tstate.datastack_chunk, chunk, 8);
	put_stack(g, thread);
}

static void happen(struct fix *f, struct program *g)
{
	uint32_t thread = any(THREADS);

	switch (any(16)) {
	case 0:
		replace_thread(g, thread);
		break;
	case 1:
		world_stack(g->w, g->ts[thread], "", NULL, NULL); /* runs no Python */
		g->stack[thread].n = 0;
		break;
	case 2:
		pystack_forget_codes(f->old.p, g->t.program);
		break;
	case 3:
		pystack_age_codes(f->old.p, keep, &f->old);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		put_code(g, any(CODES), any(KINDS));
		break;
	default:
		put_stack(g, thread);
	}
}

/* What @r says of a thread. */
static void check(struct reader *r, struct program *g, uint32_t thread)
{
	const struct stack *s = &g->stack[thread];
	struct pystack_result is = pystack_read(r->p, &g->t, &g->w->base,
						g->t.pid + 1 + (pid_t)thread,
						(pid_t)thread + 1);

	assert_int_equal(s->n ? PYSTACK_OK : PYSTACK_NOPYTHON, is.end);
	assert_int_equal(s->n, is.n);
	assert_false(is.truncated || is.switching || is.code_lost || is.several);
	if (s->n)
		assert_int_equal(g->ts[thread], is.tstate);
	for (uint32_t i = 0; i < is.n; i++) {
		uint64_t id = is.frames[i].code_id;

		assert_true(id && id <= r->last_id);
		assert_int_equal('a' + g->is[s->code[i]], r->name[id]);
		assert_int_equal(2 * s->unit[i], is.frames[i].lasti);
	}
}

/* Who has seen all, and who has seen nothing. */
static void both(struct fix *f, struct program *g, uint32_t thread)
{
	check(&f->old, g, thread);
	memset(&f->young, 0, sizeof(f->young));
	f->young.p = pystack_create(PYWALK_MAX_FRAMES, new_code, &f->young);
	check(&f->young, g, thread);
	pystack_destroy(f->young.p);
}

static void live(const struct pylayout *l, bool counted)
{
	struct fix *f = calloc(1, sizeof(*f));

	srand(1);
	f->old.p = pystack_create(PYWALK_MAX_FRAMES, new_code, &f->old);
	for (int i = 0; i < PROGRAMS; i++)
		make_program(&f->of[i], l, i + 1, counted);
	for (int i = 0; i < ROUNDS; i++) {
		struct program *g = &f->of[any(PROGRAMS)];

		for (uint32_t n = any(4); n; n--)
			happen(f, g);
		both(f, g, any(THREADS));
	}
	for (int i = 0; i < PROGRAMS; i++)
		free(f->of[i].w);
	pystack_destroy(f->old.p);
	free(f);
}

static void test_any(void **state)
{
	for (uint16_t v = 0x030b; v <= 0x030f; v++) {
		live(pylayout_find(v), false);
		live(pylayout_find(v), true);
		if (v >= 0x030d)
			live(pylayout_find_free_threaded(v), false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
