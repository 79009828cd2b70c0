/* SPDX-License-Identifier: MIT
 *
 * pystack, up to CPython 3.10: frames are objects that say how far into the bytecode they are,
 * and the bytecode is an object of its own.
 */
#include "unit.h"
#include "offsets/tasklayout.h"
#include "python/pystack_int.h"
#include "pyworld.h"

enum { PID = 4711, TID = 31, INNER = 7, UNITS = 8, CODES = 3 };

struct fix {
	struct world *w;
	struct pystack_target t;
	struct pystack *p;
	raddr ts, code[CODES]; /* of a(), b() and c() */
	char name[64];	       /* by the copies' ids */
	uint64_t last_id;
};

static bool new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct fix *f = arg;
	char name[8];

	assert_true(id > f->last_id && id < sizeof(f->name));
	assert_int_equal(pycode_name(c, name, sizeof(name)), 1);
	f->last_id = id;
	f->name[id] = name[0];
	return true;
}

static struct fix *fix_create(uint16_t version)
{
	const struct pylayout *l = pylayout_find(version);
	struct fix *f = calloc(1, sizeof(*f));
	raddr interp;

	assert_non_null(l);
	f->w = world_create(l);
	f->t = (struct pystack_target){
		.pid = PID, .program = 1, .layout = *l, .walk = f->w->walk
	};
	f->p = pystack_create(16, new_code, f);
	interp = world_interp(f->w);
	world_thread(f->w, interp, 5, true);
	f->ts = world_thread(f->w, interp, INNER, true);
	for (int i = 0; i < CODES; i++)
		f->code[i] =
			world_code(f->w, &(struct world_code){ (char[]){ (char)('a' + i), 0 },
							       "/x.py", 10, UNITS, 0, 0 });
	return f;
}

static void fix_destroy(struct fix *f)
{
	pystack_destroy(f->p);
	free(f->w);
	free(f);
}

/* a() at unit @a, called by b() at @b, called by c() at its unit 3. */
static void stack(struct fix *f, int a, int b)
{
	const int unit[CODES] = { a, b, 3 };
	raddr instr[CODES];

	for (int i = 0; i < CODES; i++)
		instr[i] = unit[i] < 0 ? UINT64_MAX :
					 world_instr(f->w, f->code[i], (uint32_t)unit[i]);
	world_stack(f->w, f->ts, "fff", f->code, instr);
}

/* "a2 b5 c3": names and code units, innermost first; "a- b5 c3": a() has not begun. */
static const char *text_of(struct fix *f, const struct pystack_result *r)
{
	static char text[64];
	char *p = text;

	text[0] = '\0';
	for (uint32_t i = 0; i < r->n; i++) {
		const struct pystack_frame *frame = &r->frames[i];

		p += sprintf(p, "%s%c", i ? " " : "", f->name[frame->code_id]);
		p += frame->lasti == PYCODE_BEGINS ? sprintf(p, "-") :
						     sprintf(p, "%u", frame->lasti / 2);
	}
	return text;
}

static struct pystack_result read_result(struct fix *f)
{
	return pystack_read(f->p, &f->t, &f->w->base, TID, INNER);
}

static void expect(struct fix *f, enum pystack_end end, const char *text)
{
	struct pystack_result r = read_result(f);

	assert_int_equal(r.end, end);
	assert_string_equal(text_of(f, &r), text);
}

static void in_every_layout(void (*test)(struct fix *f))
{
	for (uint16_t v = 0x0306; v <= 0x030a; v++) {
		struct fix *f = fix_create(v);

		test(f);
		fix_destroy(f);
	}
}

static void where_frames_are(struct fix *f)
{
	stack(f, 2, 5);
	expect(f, PYSTACK_OK, "a2 b5 c3");
	stack(f, 0, UNITS - 1);
	expect(f, PYSTACK_OK, "a0 b7 c3");
	stack(f, 1, 6);
	expect(f, PYSTACK_OK, "a1 b6 c3");
	assert_int_equal(f->last_id, 3);
	/* It is there from the moment that it is linked. */
	stack(f, -1, 5);
	expect(f, PYSTACK_OK, "a- b5 c3");
	stack(f, UNITS, 5); /* behind its bytecode */
	expect(f, PYSTACK_BADCODE, "");
	stack(f, 2, 1 << 20);
	expect(f, PYSTACK_BADCODE, "");
}

/* Memory that can't be read for a moment: what is said is true or nothing, and then as before. */
static void holes(struct fix *f)
{
	static const unsigned char nothing[16];

	/* That of a thread that has ended is nobody's. */
	raddr number = world_get(f->w, f->ts, f->w->l.tstate.thread_id) +
		       arch_host->pthread_tid[0];

	stack(f, 2, 5);
	for (raddr at = WORLD_AT; at < f->w->next; at += sizeof(nothing)) {
		struct pystack_result r;

		if (memcmp(world_mem(f->w, at), nothing, sizeof(nothing)) == 0 ||
		    number - at < sizeof(nothing))
			continue;
		expect(f, PYSTACK_OK, "a2 b5 c3");
		world_hole(f->w, at, sizeof(nothing));
		r = read_result(f);
		assert_int_not_equal(PYSTACK_NOPYTHON, r.end);
		if (r.end == PYSTACK_OK)
			assert_string_equal("a2 b5 c3", text_of(f, &r));
		f->w->chunks[0] = (struct rmem_chunk){ WORLD_AT, WORLD_BYTES, f->w->mem };
		f->w->chunks[1] = (struct rmem_chunk){ 0 };
	}
	expect(f, PYSTACK_OK, "a2 b5 c3");
}

static void memory_that_is_missing(void **state)
{
	in_every_layout(holes);
}

static void units(void **state)
{
	in_every_layout(where_frames_are);
}

/* Each evaluation loop runs one frame. */
static void loops(struct fix *f)
{
	struct pystack_result r;

	stack(f, 2, 5);
	r = read_result(f);
	assert_int_equal(r.n_anchors, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(r.anchors[i].at, PYSTACK_IN_LOOP);
		assert_int_equal(r.anchors[i].n, i + 1);
	}
}

static void anchors(void **state)
{
	in_every_layout(loops);
}

/* --- frames that throw() links --- */

enum { SUSPENDED = -1, EXECUTES = 0, ENDS = 1 };

static raddr awaited_opcode(struct fix *f)
{
	return world_get(f->w, f->code[1], f->w->l.code.instructions) +
	       pyoff_get(f->w->l.bytes.data) + 2 * 6;
}

/* b() is a generator that awaits another one; its frame. */
static raddr stack_that_awaits(struct fix *f, int8_t state)
{
	const struct genlayout *g = genlayout_find(&f->w->l);
	raddr gen = world_take(f->w, 64), frame;

	stack(f, 2, 5);
	frame = f->w->frame[1];
	world_put(f->w, frame, g->frame_of, gen, 8);
	world_put(f->w, frame, g->values, gen, 8);
	world_put(f->w, frame, g->top, gen + 8, 8);
	world_put(f->w, frame, g->depth, 1, 4);
	world_put(f->w, frame, g->state, (uint8_t)state, 1);
	world_put(f->w, gen, g->running, 1, 1);
	world_put(f->w, awaited_opcode(f), (pyoff)AT(0), g->opcode[0], 1);
	return frame;
}

/* The same, linked to none. */
static raddr stack_without_a_caller(struct fix *f, int8_t state)
{
	raddr frame = stack_that_awaits(f, state);

	world_put(f->w, frame, f->w->l.frame.previous, 0, 8);
	return frame;
}

/* @n: how many Python frames each loop runs, innermost first. */
static void expect_loops(struct fix *f, const char *text, bool truncated, const char *n)
{
	struct pystack_result r = read_result(f);
	uint32_t total = 0;

	assert_int_equal(r.end, PYSTACK_OK);
	assert_string_equal(text_of(f, &r), text);
	assert_int_equal(r.truncated, truncated);
	assert_int_equal(r.n_anchors, strlen(n));
	for (uint32_t i = 0; i < r.n_anchors; i++) {
		total += (uint32_t)(n[i] - '0');
		assert_int_equal(r.anchors[i].at, PYSTACK_IN_LOOP);
		assert_int_equal(r.anchors[i].n, total);
	}
}

/* Up to 3.10.5 throw() links such a frame to none: who called it is not known. Nor is it later
 * in the last moment, when it is suspended again. */
static void thrown_without_a_caller(struct fix *f)
{
	bool links = f->w->l.version >= 0x0309;

	for (int8_t state = SUSPENDED; state <= EXECUTES; state++) {
		stack_without_a_caller(f, state);
		expect_loops(f, "a2 b5", links, links ? "1" : "11");
		world_top(f->w, f->ts, f->w->frame[1]); /* what it awaits does not run */
		expect_loops(f, "b5", links, links ? "" : "1");
	}
}

/* What a thread without other frames may begin with. */
static void not_thrown(struct fix *f)
{
	const struct genlayout *g = genlayout_find(&f->w->l);
	raddr frame = stack_without_a_caller(f, EXECUTES);

	world_put(f->w, frame, g->frame_of, 0, 8); /* a function's */
	expect_loops(f, "a2 b5", false, "11");
	frame = stack_without_a_caller(f, EXECUTES);
	world_put(f->w, frame, g->top, 0, 8); /* it runs */
	world_put(f->w, frame, g->depth, UINT32_MAX, 4);
	expect_loops(f, "a2 b5", false, "11");
	stack_without_a_caller(f, EXECUTES);
	world_put(f->w, awaited_opcode(f), (pyoff)AT(0), 9, 1); /* it stands elsewhere */
	expect_loops(f, "a2 b5", false, "11");
	if (!pyoff_has(g->state))
		return;
	stack_without_a_caller(f, ENDS);
	expect_loops(f, "a2 b5", false, "11");
}

/* From 3.10.6 on it is linked to the caller, whose loop it has no other than. */
static void thrown_with_a_caller(struct fix *f)
{
	bool told = pyoff_has(genlayout_find(&f->w->l)->state);

	stack_that_awaits(f, EXECUTES);
	expect_loops(f, "a2 b5 c3", false, told ? "12" : "111");
	stack_that_awaits(f, SUSPENDED); /* begins to run */
	expect_loops(f, "a2 b5 c3", false, "111");
}

static void in_layouts_with_awaits(void (*test)(struct fix *f))
{
	for (uint16_t v = 0x0307; v <= 0x030a; v++) {
		struct fix *f = fix_create(v);

		test(f);
		fix_destroy(f);
	}
}

static void thrown(void **state)
{
	(void)state;
	in_layouts_with_awaits(thrown_without_a_caller);
	in_layouts_with_awaits(thrown_with_a_caller);
	in_layouts_with_awaits(not_thrown);
}

/* b() has no bytecode: C code has linked its frame, and the loop of c() is below it. */
static void without_bytecode(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	struct pystack_result r;

	world_put(f->w, f->code[1], l->code.instructions, world_bytecode(f->w, 0), 8);
	stack(f, 2, -1);
	expect_loops(f, "a2 b- c3", false, "12");
	r = read_result(f);
	for (uint32_t i = 0; i < r.n; i++)
		assert_int_equal(r.frames[i].flags & PYSTACK_COMPILED,
				 i == 1 ? PYSTACK_COMPILED : 0);
	stack(f, 2, 0);
	expect(f, PYSTACK_BADCODE, "");
}

/* A code object's bytecode can't be read: nothing is known of where in it a frame is. */
static void lost_bytecode(struct fix *f)
{
	const struct pylayout *l = &f->w->l;

	world_put(f->w, f->code[1], l->code.instructions, WORLD_NOWHERE, 8);
	stack(f, 2, 5);
	expect(f, PYSTACK_BADCODE, "");
}

/* Others at the same address. */
static void replaced(struct fix *f)
{
	const struct world_code d = { "d", "/x.py", 10, UNITS / 2, 0, 0 };

	stack(f, 2, 3);
	expect(f, PYSTACK_OK, "a2 b3 c3");
	world_code_put(f->w, f->code[1], &d);
	expect(f, PYSTACK_OK, "a2 d3 c3");
	stack(f, 2, 4); /* which is shorter */
	expect(f, PYSTACK_BADCODE, "");
}

/* Another one of the same name, file and line table: two texts of one line for eval(). */
static void replaced_by_a_longer_one(struct fix *f)
{
	stack(f, 2, UNITS - 1);
	expect(f, PYSTACK_OK, "a2 b7 c3");
	world_put(f->w, f->code[1], f->w->l.code.instructions,
		  world_bytecode(f->w, UNITS + 2), 8);
	stack(f, 2, UNITS + 1);
	expect(f, PYSTACK_OK, "a2 b9 c3");
	stack(f, 2, UNITS + 2);
	expect(f, PYSTACK_BADCODE, "");
	assert_int_equal(f->last_id, CODES);
}

static void codes(void **state)
{
	in_every_layout(without_bytecode);
	in_every_layout(lost_bytecode);
	in_every_layout(replaced);
	in_every_layout(replaced_by_a_longer_one);
}

/* --- in several interpreters at once --- */

/* A thread with a state in each of @n interpreters, whose addresses evaluation loops have at
 * hand on its stack at @sp. */
struct entered {
	raddr ts[3], sp;
};

static struct entered enter(struct fix *f, int n)
{
	struct entered s = { .ts = { f->ts } };

	for (int i = 0; i < n; i++) {
		if (i)
			s.ts[i] = world_thread(f->w, world_interp(f->w), INNER, false);
		f->ts = s.ts[i];
		stack(f, i + 1, 5); /* told apart by where a() is */
	}
	s.sp = world_take(f->w, 256);
	for (int i = 0; i < n; i++)
		world_put(f->w, s.sp, (pyoff)AT(8 + 24 * i), s.ts[i], 8);
	return s;
}

/* @current: the state that the runtime says runs. */
static void expect_entered(struct fix *f, const struct entered *s, raddr current,
			   enum pystack_end end, const char *text)
{
	struct pystack_place place = { .sp = s->sp };

	world_put(f->w, f->w->runtime, f->w->l.runtime.current, current, 8);
	f->t.program++;
	pystack_stands(f->p, &place);
	expect(f, end, text);
}

static void who_runs_is_innermost(struct fix *f)
{
	struct entered s = enter(f, 2);

	if (pyoff_has(f->w->l.runtime.current)) {
		expect_entered(f, &s, s.ts[0], PYSTACK_OK, "a1 b5 c3 a2 b5 c3");
		expect_entered(f, &s, s.ts[1], PYSTACK_OK, "a2 b5 c3 a1 b5 c3");
	}
	/* Nobody says which: it may be either. */
	expect_entered(f, &s, 0, PYSTACK_BROKEN, "");
	f->ts = s.ts[1];
	world_stack(f->w, f->ts, "", NULL, NULL);
	expect_entered(f, &s, 0, PYSTACK_OK, "a1 b5 c3");
}

/* It is known which one is innermost, but not which is next. */
static void three_are_too_many(struct fix *f)
{
	struct entered s = enter(f, 3);

	expect_entered(f, &s, s.ts[2], PYSTACK_BROKEN, "");
	f->ts = s.ts[0];
	world_stack(f->w, f->ts, "", NULL, NULL);
	if (pyoff_has(f->w->l.runtime.current))
		expect_entered(f, &s, s.ts[2], PYSTACK_OK, "a3 b5 c3 a2 b5 c3");
}

/* One that bears the thread's number, but is not on its stack, may run on another thread; so
 * may one that is there, but bears another's. */
static void one_that_may_run_elsewhere(struct fix *f)
{
	struct entered s = enter(f, 2);
	const struct pystack_place in_register = { .sp = s.sp, .regs = { (void *)&s.ts[1], 8 } };
	raddr number = world_pthread(f->w, INNER + 1);

	world_put(f->w, s.sp, (pyoff)AT(8 + 24), 0, 8);
	expect_entered(f, &s, s.ts[0], PYSTACK_ELSEWHERE, "");
	if (pyoff_has(f->w->l.runtime.current)) {
		pystack_stands(f->p, &in_register);
		expect(f, PYSTACK_OK, "a1 b5 c3 a2 b5 c3");
	}
	if (!pyoff_has(f->w->l.tstate.native_tid)) {
		world_put(f->w, s.ts[1], f->w->l.tstate.thread_id, number, 8);
		expect_entered(f, &s, s.ts[0], PYSTACK_OK, "a1 b5 c3");
		world_put(f->w, s.sp, (pyoff)AT(8 + 24), s.ts[1], 8);
		expect_entered(f, &s, s.ts[0], PYSTACK_ELSEWHERE, "");
	}
}

static void bind(struct fix *f, raddr ts, pid_t tid)
{
	world_put(f->w, ts, f->w->l.tstate.native_tid, (uint64_t)tid, 8);
	world_put(f->w, ts, f->w->l.tstate.thread_id, world_pthread(f->w, (uint64_t)tid), 8);
}

/* The thread's states are the first and the last of all in memory, with more between them than are
 * read at once. */
static void the_first_and_the_last(struct fix *f)
{
	raddr interp = world_get(f->w, f->w->runtime, f->w->l.runtime.interp_head),
	      first = world_get(f->w, interp, f->w->l.interp.threads_head);
	struct entered s;

	for (int i = 0; i < RMEM_MAX_VEC; i++)
		world_thread(f->w, interp, 5, true);
	bind(f, f->ts, 5);
	bind(f, first, INNER);
	f->ts = first;
	s = enter(f, 2);
	if (pyoff_has(f->w->l.runtime.current)) {
		expect_entered(f, &s, s.ts[0], PYSTACK_OK, "a1 b5 c3 a2 b5 c3");
		expect_entered(f, &s, s.ts[1], PYSTACK_OK, "a2 b5 c3 a1 b5 c3");
	} else {
		expect_entered(f, &s, 0, PYSTACK_BROKEN, "");
	}
	/* The last one is freed; its memory is as it was. */
	world_put(f->w, f->w->last_interp, f->w->l.interp.threads_head, 0, 8);
	expect_entered(f, &s, s.ts[0], PYSTACK_OK, "a1 b5 c3");
}

/* Another runtime of the same version in the process, with a state of the thread. */
static raddr another_runtime(struct fix *f, struct pystack_others *o)
{
	raddr first = f->w->runtime, last = f->w->last_interp, interp, ts;

	f->w->runtime = world_take(f->w, 1024);
	f->w->last_interp = 0;
	*o = (struct pystack_others){ .n = 1 };
	o->of[0].proven = true;
	o->of[0].target.layout = f->w->l;
	pywalk_layout_init(&o->of[0].target.walk, &f->w->l, f->w->runtime);
	interp = world_interp(f->w);
	ts = world_thread(f->w, interp, INNER, true);
	f->w->runtime = first;
	f->w->last_interp = last;
	return ts;
}

/* Where a thread runs in two of them nothing tells whose frames are the inner ones. */
static void in_two_runtimes(struct fix *f)
{
	struct pystack_others o;
	raddr first = f->ts, second = another_runtime(f, &o);
	struct pystack_result r;

	f->t.program = PYSTACK_SEVERAL;
	for (int i = 0; i < 2; i++) {
		f->ts = i ? second : first;
		stack(f, 2, 5);
		r = pystack_read_all(f->p, &f->t, &o, &f->w->base, TID, INNER);
		assert_int_equal(r.end, i ? PYSTACK_BROKEN : PYSTACK_OK);
		assert_string_equal(text_of(f, &r), i ? "" : "a2 b5 c3");
	}
}

static void expect_forked(struct fix *f, pid_t tid, pid_t forker, enum pystack_end end)
{
	struct pystack_place place = { .forker = forker };
	struct pystack_result r;

	f->t.program++;
	pystack_stands(f->p, &place);
	r = pystack_read(f->p, &f->t, &f->w->base, tid, INNER + 1);
	assert_int_equal(r.end, end);
	assert_string_equal(text_of(f, &r), end == PYSTACK_OK ? "a2 b5 c3" : "");
}

/* The state of a child's first thread bears the number of who forked it, for a while. */
static void forked(struct fix *f)
{
	stack(f, 2, 5);
	expect_forked(f, PID, INNER, PYSTACK_OK);
	expect_forked(f, PID, INNER + 2, PYSTACK_NOPYTHON);
	expect_forked(f, TID, INNER, PYSTACK_NOPYTHON);
}

static void number_of_the_forker(void **state)
{
	in_every_layout(forked);
}

static void several_runtimes(void **state)
{
	in_every_layout(in_two_runtimes);
}

static void several_interpreters(void **state)
{
	in_every_layout(who_runs_is_innermost);
	in_every_layout(three_are_too_many);
	in_every_layout(one_that_may_run_elsewhere);
	in_every_layout(the_first_and_the_last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units),
		cmocka_unit_test(memory_that_is_missing),
		cmocka_unit_test(anchors),
		cmocka_unit_test(thrown),
		cmocka_unit_test(codes),
		cmocka_unit_test(several_interpreters),
		cmocka_unit_test(several_runtimes),
		cmocka_unit_test(number_of_the_forker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
