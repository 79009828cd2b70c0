/* SPDX-License-Identifier: MIT
 *
 * pystack_join: tasks that wait for the one that runs, put into a stack behind its coroutine.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"
#include "python/pydict.h"
#include "python/pystack.h"
#include "pytasks_made.h"

enum {
	PID = 4711,
	TID = 31,
	INNER = 7,
	MAX_IDS = 1024,
	TEXT_MAX = 64 << 10,
	MOST_WAITING = 63, /* tasks that wait for one another, of which all are told */
	MOST_ITEMS = 2048, /* frames and names of them */
	LOOPS = 4,	   /* event loops that run a task */
	MOST_READS = 2048, /* that a look at who waits takes */
	BASES = 15,	   /* of a type whose bases are all looked at */
};

/* A thread in leaf(), called by the coroutine main(), which loop() runs. */
struct fix {
	struct made m;
	struct pystack_target t;
	struct pystack *p;
	raddr interp, ts, task_type, current; /* _current_tasks */
	raddr running;			      /* its values */
	raddr task;			      /* that runs main() */
	size_t version;
	bool refuses; /* codes */
	uint64_t last_id;
	char name[MAX_IDS][PYNAME_MAX + 16];
	bool label[MAX_IDS];
	char text[TEXT_MAX];
};

static bool new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct fix *f = arg;

	assert_true(pycode_copy_valid(c, pycode_copy_size(c)));
	assert_true(id > f->last_id && id < MAX_IDS);
	if (f->refuses)
		return false;
	f->last_id = id;
	f->label[id] = c->flags == PYCODE_LABEL;
	pycode_name(c, f->name[id], sizeof(f->name[id]));
	return true;
}

static raddr a_function(struct fix *f, const char *name)
{
	f->m.code = world_code(f->m.w, &(struct world_code){ name, "f.py", 10, UNITS, 0, 0 });
	put_opcodes(&f->m, f->m.g->opcode[0] ? f->m.g->opcode[0] : 9);
	return f->m.code;
}

static raddr a_task(struct fix *f, const char *name, raddr coro)
{
	struct made *m = &f->m;
	raddr at = of_type(m->w, take(m->w, ROOM), f->task_type);

	put(m->w, at + m->t->coro, coro, 8);
	if (pyoff_has(m->t->name))
		world_put(m->w, at, m->t->name, a_str(m, name), 8);
	return at;
}

/* Coroutine @name, which awaits @next, or with 0 a future. */
static raddr a_waiting(struct fix *f, const char *name, raddr next)
{
	struct made *m = &f->m;
	raddr at;

	a_function(f, name);
	at = a_coroutine(m, 4);
	put(m->w, top_of(m, at), next ? next : of_type(m->w, take(m->w, 64), m->none), 8);
	return at;
}

static void put_running(struct fix *f, raddr coro, raddr frame)
{
	struct world *w = f->m.w;
	const struct genlayout *g = f->m.g;

	if (pyoff_has(g->running))
		world_put(w, coro, g->running, 1, 1);
	else
		world_put(w, w->l.lasti_unit ? frame : coro, g->state, (uint8_t)g->runs, 1);
}

/* The coroutine that the generator's frame at @frame, of the stack, is of. */
static raddr coroutine_of(struct fix *f, raddr frame)
{
	struct world *w = f->m.w;
	const struct genlayout *g = f->m.g;
	raddr at = w->l.lasti_unit ? take(w, ROOM) : frame - g->frame;

	of_type(w, at, f->m.coroutine);
	put(w, at + g->qualname, a_str(&f->m, "main"), 8);
	if (w->l.lasti_unit) {
		put(w, at + g->frame, frame, 8);
		world_put(w, frame, g->frame_of, at, 8);
	}
	put_running(f, at, frame);
	return at;
}

/* leaf(), main(), and loop() @loops times; who called main() is C. The place of main(). */
static uint32_t stack(struct fix *f, uint32_t loops)
{
	const struct pylayout *l = &f->m.w->l;
	raddr leaf = a_function(f, "leaf"), gen = a_function(f, "main");
	raddr loop = a_function(f, "loop"), code[64] = { 0 }, instr[64] = { 0 };
	char letters[64] = "f";
	uint32_t n = 1, main_at;

	code[0] = leaf;
	if (l->owner_shim)
		letters[n++] = 's';
	else if (!l->lasti_unit)
		letters[0] = 'e';
	main_at = n;
	code[n] = gen;
	letters[n++] = l->owner_shim || l->lasti_unit ? 'g' : 'G';
	if (l->owner_shim)
		letters[n++] = 's';
	for (uint32_t i = 0; i < loops; i++) {
		code[n] = loop;
		letters[n++] = 'f';
	}
	if (l->owner_shim)
		letters[n++] = pyoff_has(l->tstate.base_frame) ? 'b' : 's';
	else if (!l->lasti_unit && loops)
		letters[n - 1] = 'e';
	for (uint32_t i = 0; i < n; i++)
		instr[i] = code[i] ? world_instr(f->m.w, code[i], 3) : 0;
	world_stack(f->m.w, f->ts, letters, code, instr);
	return main_at;
}

/* Has this version lists of tasks, and each thread the one that it runs? */
static bool in_lists(const struct fix *f)
{
	return pyoff_has(f->m.t->node);
}

/* What the event loop number @i runs. */
static void put_task(struct fix *f, uint32_t i, raddr task)
{
	struct world *w = f->m.w;

	if (in_lists(f))
		put(w, f->ts + the_lists.running, task, 8);
	else
		put(w, f->running + 24 * i, task, 8);
}

static void make_loops(struct fix *f)
{
	struct made *m = &f->m;
	struct world *w = m->w;
	raddr none[LOOPS] = { 0 };
	raddr current = a_dict(m, LOOPS, (const char *[]){ "a", "b", "c", "d" }, none);

	f->current = current;
	f->running = world_get(w, current, w->l.dict.keys) + pyoff_get(w->l.dictkeys.entries) +
		     TABLE + 16;
	if (in_lists(f)) {
		m->told = a_told(m);
		import_asyncio(m, f->interp);
		return;
	}
	import(m, f->interp, "asyncio.tasks",
	       a_module(m, a_dict(m, 2, (const char *[]){ "x", "_current_tasks" },
				  (raddr[]){ WORLD_NOWHERE, current })));
}

/* The thread stands in leaf(), and the task in main(). */
static void run(struct fix *f, uint32_t loops)
{
	raddr frame = f->m.w->frame[stack(f, loops)];

	f->task = a_task(f, "main's", coroutine_of(f, frame));
	put_task(f, 0, f->task);
}

static struct fix *fix_create(size_t version, uint32_t max_frames)
{
	struct fix *f = calloc(1, sizeof(*f));
	struct world *w;

	make_bare(&f->m, version);
	w = f->m.w;
	f->version = version;
	f->interp = world_interp(w);
	world_take(w, 8192);
	f->ts = world_thread(w, f->interp, INNER, true);
	world_take(w, 1024);
	f->task_type = a_type(w, "_asyncio.Task", sizes[version], 0);
	make_loops(f);
	f->t = (struct pystack_target){
		.pid = PID, .program = PYSTACK_SEVERAL, .layout = w->l, .walk = w->walk
	};
	f->p = pystack_create(max_frames, new_code, f);
	run(f, 1);
	return f;
}

static void fix_destroy(struct fix *f)
{
	pystack_destroy(f->p);
	free(f->m.w);
	free(f);
}

static void each(void (*test)(struct fix *f))
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fix *f = fix_create(i, PYWALK_MAX_FRAMES);

		test(f);
		fix_destroy(f);
	}
}

static struct pystack_result read_joined(struct fix *f, bool one_name)
{
	struct pystack_result r = pystack_read(f->p, &f->t, &f->m.w->base, TID, INNER);

	assert_int_equal(r.end, PYSTACK_OK);
	pystack_join(f->p, &f->t, TID, one_name, &r);
	return r;
}

/* "leaf6 main6 [task a]": names, each function's with where in it. */
static const char *text_of(struct fix *f, const struct pystack_result *r)
{
	char *p = f->text;

	*p = '\0';
	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t id = r->frames[i].code_id;

		assert_true(id && id <= f->last_id);
		p += sprintf(p, "%s%s", i ? " " : "", f->name[id]);
		if (!f->label[id])
			p += sprintf(p, "%u", r->frames[i].lasti);
		assert_true(p - f->text < TEXT_MAX - 256);
	}
	return f->text;
}

/* @text with the names of tasks as this version has them: 3.7's have none. */
static const char *as_here(struct fix *f, const char *text)
{
	static char ret[TEXT_MAX];
	char *p = ret;

	if (pyoff_has(f->m.t->name))
		return text;
	while (*text) {
		bool names = !strncmp(text, "[task ", 6);

		p += sprintf(p, "%s", names ? "[task]" : (char[]){ *text, 0 });
		text += names ? strcspn(text, "]") + 1 : 1;
	}
	return ret;
}

static void expect(struct fix *f, enum pystack_joined joined, const char *text)
{
	struct pystack_result r = read_joined(f, false);

	assert_int_equal(r.joined, joined);
	assert_string_equal(text_of(f, &r), as_here(f, text));
	assert_false(r.truncated);
	assert_false(r.code_lost);
}

/* --- who waits --- */

static void waits(struct fix *f)
{
	raddr inner = a_waiting(f, "inner", 0);
	raddr a = a_task(f, "a", a_waiting(f, "outer", inner));
	raddr b = a_task(f, "b", a_waiting(f, "last", 0));

	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] loop6");
	put_awaited(&f->m, f->task, a);
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] inner8 outer8 [task a] loop6");
	put_awaited(&f->m, a, b);
	expect(f, PYSTACK_JOINED,
	       "leaf6 main6 [task main's] inner8 outer8 [task a] last8 [task b] loop6");
	put_task(f, 0, 0);
	expect(f, PYSTACK_NO_TASK, "leaf6 main6 loop6");
}

/* What is read of the one before is not taken for the one that can't be read. */
static void is_no_waiting_task(struct fix *f)
{
	struct world *w = f->m.w;
	raddr a = a_task(f, "a", a_waiting(f, "outer", 0));
	raddr b = a_task(f, "b", a_waiting(f, "last", 0));
	const char *part = "leaf6 main6 [task main's] outer8 [task a] "
			   "[awaiting tasks unknown] loop6";

	put_awaited(&f->m, f->task, a);
	put_awaited(&f->m, a, b);
	put(w, b + f->m.t->coro, f->m.none, 8); /* no coroutine */
	expect(f, PYSTACK_JOINED_PART, part);
	put(w, b + f->m.t->coro, a_waiting(f, "last", 0), 8);
	put(w, b + f->m.t->state, 1, 4); /* done */
	expect(f, PYSTACK_JOINED_PART, part);
	put(w, b + f->m.t->state, 0, 4);
	of_type(w, b, a_type(w, "_asyncio.Task", sizes[f->version] + 8, 0)); /* not known */
	expect(f, PYSTACK_JOINED_PART, part);
	of_type(w, b, f->m.none);
	expect(f, PYSTACK_JOINED_PART, part);
	put_awaited(&f->m, a, WORLD_NOWHERE);
	expect(f, PYSTACK_JOINED_PART, part);
	put_awaited(&f->m, f->task, b);
	expect(f, PYSTACK_JOINED_PART,
	       "leaf6 main6 [task main's] [awaiting tasks unknown] loop6");
}

/* A frame without a code is no name, be it the outermost one or another. */
static void has_no_code(struct fix *f)
{
	struct world *w = f->m.w;
	raddr inner = a_waiting(f, "inner", 0), coro[] = { inner, a_waiting(f, "outer", inner) };

	put_awaited(&f->m, f->task, a_task(f, "a", coro[1]));
	for (size_t i = 0; i < ARRAY_SIZE(coro); i++) {
		raddr frame = coro[i] + f->m.g->frame;
		uint64_t code;

		if (w->l.lasti_unit)
			frame = load_u64(world_mem(w, frame));
		code = world_get(w, frame, w->l.frame.code);
		world_put(w, frame, w->l.frame.code, 0, 8);
		expect(f, PYSTACK_JOINED_PART,
		       "leaf6 main6 [task main's] [awaiting tasks unknown] loop6");
		world_put(w, frame, w->l.frame.code, code, 8);
	}
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] inner8 outer8 [task a] loop6");
}

/* A circle of tasks has no end. */
static void awaits_itself(struct fix *f)
{
	raddr a = a_task(f, "a", a_waiting(f, "outer", 0));
	raddr b = a_task(f, "b", a_waiting(f, "last", 0));
	struct pystack_result r;

	put_awaited(&f->m, f->task, a);
	put_awaited(&f->m, a, b);
	put_awaited(&f->m, b, a);
	r = read_joined(f, false);
	assert_int_equal(r.joined, PYSTACK_JOINED_PART);
	assert_int_equal(r.n, 2 + 1 + 2 * (MOST_WAITING + 1) + 1 + 1);
}

static void is_in_no_stack_twice(struct fix *f)
{
	put_awaited(&f->m, f->task, f->task);
	expect(f, PYSTACK_JOINED_PART,
	       "leaf6 main6 [task main's] [awaiting tasks unknown] loop6");
}

static void test_waiting(void **state)
{
	each(waits);
	each(is_no_waiting_task);
	each(has_no_code);
	each(awaits_itself);
	each(is_in_no_stack_twice);
}

static void awaited_by_two(struct fix *f)
{
	struct made *m = &f->m;
	const struct awaiterlayout *l = awaiterlayout_find(&m->w->l);
	raddr a = a_task(f, "a", a_waiting(f, "outer", 0));
	raddr b = a_task(f, "b", a_waiting(f, "last", 0));
	raddr c = a_task(f, "c", a_waiting(f, "last", 0));

	put_awaited(m, f->task, a);
	if (l->awaited_by) {
		raddr set = take(m->w, 64), table = take(m->w, 16 * TABLE);

		put(m->w, table, b, 8);
		put(m->w, table + 16, c, 8);
		put(m->w, in(m->w, set, 8), 2, 8);
		put(m->w, in(m->w, set, 16), TABLE - 1, 8);
		put(m->w, in(m->w, set, 24), table, 8);
		put(m->w, a + l->awaited_by, set, 8);
		put(m->w, a + l->awaited_by_is_set, 1, 1);
	} else {
		raddr list = of_type(m->w, take(m->w, 64), a_type(m->w, "list", 40, 0));
		raddr pair = of_type(m->w, take(m->w, 64), a_type(m->w, "tuple", 24, 0));
		raddr item = take(m->w, 64);

		put_awaited(m, a, b);
		put(m->w, in(m->w, pair, 8), load_u64(world_mem(m->w, a + l->callback)), 8);
		put_awaited(m, a, c);
		put(m->w, item, pair, 8);
		put(m->w, in(m->w, list, 0), 1, 8);
		put(m->w, in(m->w, list, 8), item, 8);
		put(m->w, a + l->callbacks, list, 8);
	}
	expect(f, PYSTACK_JOINED_SEVERAL,
	       "leaf6 main6 [task main's] outer8 [task a] [awaited by several tasks] loop6");
}

static void test_several(void **state)
{
	each(awaited_by_two);
}

/* --- whose task --- */

/* It is the one whose coroutine is on the stack, wherever it stands among those that run. */
static void runs_among_others(struct fix *f)
{
	raddr other = a_waiting(f, "elsewhere", 0);
	raddr their, idle = a_task(f, "idle", a_waiting(f, "idle", 0));

	put_running(f, other,
		    f->m.w->l.lasti_unit ? load_u64(world_mem(f->m.w, other + f->m.g->frame)) :
					   0);
	their = a_task(f, "theirs", other);
	put_task(f, 0, their);
	expect(f, PYSTACK_NO_TASK, "leaf6 main6 loop6");
	put_task(f, 0, idle);
	expect(f, PYSTACK_NO_TASK, "leaf6 main6 loop6");
	if (!in_lists(f)) {
		put_task(f, 0, their);
		put_task(f, 1, WORLD_NOWHERE);
		put_task(f, 2, idle);
	}
	put_task(f, in_lists(f) ? 0 : 3, f->task);
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] loop6");
	/* What the sample before left of it is forgotten. */
	of_type(f->m.w, f->task, a_type(f->m.w, "_asyncio.Task", 8, 0));
	expect(f, PYSTACK_NO_TASK, "leaf6 main6 loop6");
}

/* More event loops run a task than there is room for: nothing is written behind it. */
static void runs_among_too_many(struct fix *f)
{
	struct pytasks_place place = { 0 };
	raddr ret[LOOPS] = { 0 };
	int most = in_lists(f) ? 1 : LOOPS;

	for (uint32_t i = 0; i < LOOPS; i++)
		put_task(f, i, f->task);
	for (int cap = 1; cap <= LOOPS; cap++) {
		memset(ret, 0, sizeof(ret));
		assert_int_equal(pytasks_running(&f->m.w->base, &f->m.w->l, f->ts, PID, &place,
						 ret, (uint32_t)cap),
				 MIN(cap, most));
		for (int i = 0; i < LOOPS; i++)
			assert_int_equal(ret[i], i < MIN(cap, most) ? f->task : 0);
	}
}

/* Where the modules can't be read, or are gone, what they told before is not told again. */
static void modules_are_gone(struct fix *f)
{
	struct world *w = f->m.w;
	const struct pylayout *l = &w->l;
	struct pytasks_place place = { 0 };
	raddr ret[LOOPS];

	for (uint32_t i = 0; i < LOOPS; i++)
		put_task(f, i, 0);
	assert_int_equal(pytasks_running(&w->base, l, f->ts, PID, &place, ret, LOOPS), 0);
	put_task(f, 0, f->task);
	if (in_lists(f))
		return;
	assert_int_equal(pytasks_running(&w->base, l, f->ts, PID, &place, ret, LOOPS), 1);
	world_put(w, f->interp, l->interp.modules, 0, 8);
	assert_int_equal(pytasks_running(&w->base, l, f->ts, PID, &place, ret, LOOPS), 0);
	world_put(w, f->interp, l->interp.modules, WORLD_NOWHERE, 8);
	assert_int_equal(pytasks_running(&w->base, l, f->ts, PID, &place, ret, LOOPS),
			 -EFAULT);
}

/* What can't be read for a moment is looked up again, though no module came. */
static void modules_are_out_of_reach(struct fix *f)
{
	struct world *w = f->m.w;
	const struct pylayout *l = &w->l;
	raddr modules = world_get(w, f->interp, l->interp.modules);
	raddr second = world_get(w, modules, l->dict.keys) + pyoff_get(l->dictkeys.entries) +
		       TABLE + 24 + 16;
	uint64_t asyncio = load_u64(world_mem(w, second));
	struct pytasks_place place = { 0 };
	raddr ret[LOOPS];

	put(w, second, WORLD_NOWHERE, 8);
	assert_int_equal(pytasks_running(&w->base, l, f->ts, PID, &place, ret, LOOPS),
			 -EFAULT);
	put(w, second, asyncio, 8);
	assert_int_equal(pytasks_running(&w->base, l, f->ts, PID, &place, ret, LOOPS), 1);
	assert_int_equal(ret[0], f->task);
}

/* The last of more loops than are read at once; nothing lies behind it. */
static void runs_among_many(struct fix *f)
{
	enum { LOG2 = 7, LAST = PYDICT_PIECE };
	struct world *w = f->m.w;
	const struct pylayout *l = &w->l;
	struct pytasks_place place = { 0 };
	raddr ret[LOOPS], keys, at;

	if (in_lists(f))
		return;
	keys = take(w, 4096);
	at = keys + pyoff_get(l->dictkeys.entries) + (1 << LOG2) + 24 * LAST;
	world_put(w, f->current, l->dict.keys, keys, 8);
	world_put(w, keys, l->dictkeys.size, 1 << LOG2, 8);
	world_put(w, keys, l->dictkeys.index_log2, LOG2, 1);
	world_put(w, keys, l->dictkeys.n, LAST + 1, 8);
	put(w, at + 16, f->task, 8);
	world_hole(w, at + 24, 8);
	assert_int_equal(pytasks_running(&w->base, l, f->ts, PID, &place, ret, LOOPS), 1);
	assert_int_equal(ret[0], f->task);
}

/* No loop runs: nothing is read of where their tasks would be. */
static void runs_among_none(struct fix *f)
{
	struct world *w = f->m.w;
	struct pytasks_place place = { 0 };
	raddr ret[LOOPS];

	if (in_lists(f))
		return;
	world_put(w, world_get(w, f->current, w->l.dict.keys), w->l.dictkeys.n, 0, 8);
	assert_int_equal(pytasks_running(&w->base, &w->l, f->ts, PID, &place, ret, LOOPS), 0);
}

/* What was told of lists is not asked again; what was not told is, when a module came, and of
 * another program. */
static void imports_c_later(struct fix *f)
{
	struct world *w = f->m.w;
	raddr keys =
		world_get(w, world_get(w, f->interp, w->l.interp.modules), w->l.dict.keys);
	raddr size = f->m.told + 8 * 7;

	world_put(w, keys, w->l.dictkeys.n, 1, 8);
	expect(f, PYSTACK_NO_TASK, "leaf6 main6 loop6");
	put(w, size, 1, 8); /* of another build */
	world_put(w, keys, w->l.dictkeys.n, 2, 8);
	expect(f, PYSTACK_JOINED_NOT, "leaf6 main6 loop6");
	put(w, size, w->l.interp.size, 8);
	expect(f, PYSTACK_JOINED_NOT, "leaf6 main6 loop6");
	f->t.program += PYSTACK_SEVERAL;
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] loop6");
	put(w, size, 1, 8);
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] loop6");
	f->t.program += PYSTACK_SEVERAL;
	expect(f, PYSTACK_JOINED_NOT, "leaf6 main6 loop6");
}

/* A module more, or another program, and where it was told is looked up anew. */
static void imports_asyncio_later(struct fix *f)
{
	struct world *w = f->m.w;
	raddr modules = world_get(w, f->interp, w->l.interp.modules);
	raddr keys = world_get(w, modules, w->l.dict.keys);

	if (in_lists(f)) {
		imports_c_later(f);
		return;
	}
	world_put(w, keys, w->l.dictkeys.n, 1, 8);
	expect(f, PYSTACK_NO_TASK, "leaf6 main6 loop6");
	world_put(w, keys, w->l.dictkeys.n, 2, 8);
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] loop6");
	make_loops(f); /* which run nothing */
	expect(f, PYSTACK_NO_TASK, "leaf6 main6 loop6");
	put_task(f, 1, f->task);
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] loop6");
	modules = world_get(w, f->interp, w->l.interp.modules);
	make_loops(f);
	keys = world_get(w, modules, w->l.dict.keys);
	/* The keys are those of before, with what is new. */
	memcpy(world_mem(w, keys),
	       world_mem(w, world_get(w, world_get(w, f->interp, w->l.interp.modules),
				      w->l.dict.keys)),
	       ROOM);
	world_put(w, f->interp, w->l.interp.modules, modules, 8);
	f->t.program += PYSTACK_SEVERAL;
	expect(f, PYSTACK_NO_TASK, "leaf6 main6 loop6");
}

static void test_whose(void **state)
{
	each(runs_among_others);
	each(runs_among_too_many);
	each(runs_among_many);
	each(runs_among_none);
	each(modules_are_gone);
	each(modules_are_out_of_reach);
	each(imports_asyncio_later);
}

/* Functions alone run no task, whatever the sample before had. */
static void has_no_coroutine(struct fix *f)
{
	struct pystack_result r = read_joined(f, false);
	const struct pylayout *l = &f->m.w->l;
	const char *shim = pyoff_has(l->tstate.base_frame) ? "fb" : "fs";
	const char *letters = l->owner_shim ? shim : "e";
	raddr instr[2] = { 0 };

	assert_int_equal(r.joined, PYSTACK_JOINED);
	f->t.layout.version = 0x0306; /* tasks of which are not known */
	r = read_joined(f, false);
	assert_int_equal(r.joined, PYSTACK_JOINED_NOT);
	assert_string_equal(text_of(f, &r), "leaf6 main6 loop6");
	r.end = PYSTACK_NOPYTHON;
	r.joined = PYSTACK_NO_TASK;
	pystack_join(f->p, &f->t, TID, false, &r);
	assert_int_equal(r.joined, PYSTACK_NO_TASK);
	if (l->lasti_unit)
		return; /* a frame does not tell */
	instr[0] = world_instr(f->m.w, f->m.code, 5);
	world_stack(f->m.w, f->ts, letters, (raddr[]){ f->m.code, 0 }, instr);
	r = read_joined(f, false);
	assert_int_equal(r.joined, PYSTACK_NO_TASK);
	r.several = true;
	pystack_join(f->p, &f->t, TID, false, &r);
	assert_int_equal(r.joined, PYSTACK_JOINED_NOT);
}

static void test_no_coroutine(void **state)
{
	each(has_no_coroutine);
}

/* --- names --- */

static void has_names(struct fix *f)
{
	static const struct {
		const char *name;
		bool numbered;
	} names[] = {
		{ "Task-7", true },    { "Task-10", true },  { "Task-0", true },
		{ "Task-1", false },   { "Task-", false },   { "Task-7a", false },
		{ "Task7", false },    { "task-7", false },  { "ask-7", false },
		{ "A-Task-7", false }, { "Task--7", false }, { "fetch 'x'", false },
	};
	static const char one[] = "leaf6 main6 [task Task-*] loop6";
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(names) && pyoff_has(f->m.t->name); i++) {
		struct pystack_result r;

		world_put(f->m.w, f->task, f->m.t->name, a_str(&f->m, names[i].name), 8);
		sprintf(text, "leaf6 main6 [task %s] loop6", names[i].name);
		expect(f, PYSTACK_JOINED, text);
		r = read_joined(f, true);
		assert_string_equal(text_of(f, &r), names[i].numbered ? one : text);
	}
}

static raddr a_wide_str(struct fix *f, const uint32_t *text, size_t n)
{
	const struct pylayout *l = &f->m.w->l;
	raddr at = world_take(f->m.w, l->str.compact_data + 4 * n);
	uint32_t state = 4u << l->str_kind_shift | 1u << l->str_compact_bit;

	world_put(f->m.w, at, l->str.length, n, 8);
	world_put(f->m.w, at, l->str.state, state, 4);
	for (size_t i = 0; i < n; i++)
		put(f->m.w, at + l->str.compact_data + 4 * i, text[i], 4);
	return of_type(f->m.w, at, f->m.str);
}

/* Of one, two, three and four bytes in UTF-8, the least and the greatest of each. */
static void has_wide_names(struct fix *f)
{
	static const uint32_t text[] = { 'a',	 0x7e,	 0xa0,	 0x7ff,	  0x800,   0x20ac,
					 0xffff, 0xd7ff, 0xe000, 0x10000, 0x1f40d, 0x10ffff };

	if (!pyoff_has(f->m.t->name))
		return;
	world_put(f->m.w, f->task, f->m.t->name, a_wide_str(f, text, ARRAY_SIZE(text)), 8);
	expect(f, PYSTACK_JOINED,
	       "leaf6 main6 [task a~\u00a0\u07ff\u0800\u20ac\uffff\ud7ff\ue000\U00010000"
	       "\U0001f40d\U0010ffff] loop6");
}

/* However many there are, each has its own, and one that was met again the same. */
static void has_many_names(struct fix *f)
{
	char name[32], text[64];
	uint64_t last;

	for (int i = 0; i < 100 && pyoff_has(f->m.t->name); i++) {
		sprintf(name, "number %d", i);
		world_put(f->m.w, f->task, f->m.t->name, a_str(&f->m, name), 8);
		sprintf(text, "leaf6 main6 [task %s] loop6", name);
		expect(f, PYSTACK_JOINED, text);
		last = f->last_id;
		expect(f, PYSTACK_JOINED, text);
		assert_int_equal(f->last_id, last);
	}
}

static void test_names(void **state)
{
	each(has_names);
	each(has_wide_names);
	each(has_many_names);
}

/* There is no room for a name: that is told, and it is tried again. */
static void loses_a_name(struct fix *f)
{
	struct pystack_result r = read_joined(f, false);

	if (!pyoff_has(f->m.t->name))
		return;
	world_put(f->m.w, f->task, f->m.t->name, a_str(&f->m, "new"), 8);
	f->refuses = true;
	r = read_joined(f, false);
	assert_true(r.code_lost);
	f->refuses = false;
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task new] loop6");
}

static void test_lost(void **state)
{
	each(loses_a_name);
}

/* --- what can't be named --- */

static void has_bad_codes(struct fix *f)
{
	const char *part = "leaf6 main6 [task main's] [awaiting tasks unknown] loop6";
	raddr outer = a_waiting(f, "outer", 0), code = f->m.code, frame;
	raddr a = a_task(f, "a", a_waiting(f, "last", outer));
	struct world *w = f->m.w;

	put_awaited(&f->m, f->task, a);
	frame = outer + f->m.g->frame;
	frame = w->l.lasti_unit ? load_u64(world_mem(w, frame)) : frame;
	world_put(w, frame, w->l.frame.instr, world_instr(w, code, UNITS), 8);
	expect(f, PYSTACK_JOINED_PART, part);
	world_put(w, frame, w->l.frame.instr, world_instr(w, code, UNITS - 1), 8);
	put(w, top_of(&f->m, outer), of_type(w, take(w, 64), f->m.none), 8);
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] outer14 last8 [task a] loop6");
	world_put(w, code, w->l.code.qualname, WORLD_NOWHERE, 8);
	world_put(w, code, w->l.code.version, 99, 4);
	expect(f, PYSTACK_JOINED_PART, part);
}

/* From 3.11 on one that stands before its first instruction is at that one; up to 3.10 lasti says
 * that it begins. */
static void begins(struct fix *f)
{
	struct world *w = f->m.w;
	raddr outer = a_waiting(f, "outer", 0), frame = outer + f->m.g->frame;

	if (w->l.lasti_unit)
		return;
	put_awaited(&f->m, f->task, a_task(f, "a", outer));
	world_put(w, frame, w->l.frame.instr, world_instr(w, f->m.code, 0) - 2, 8);
	expect(f, PYSTACK_JOINED, "leaf6 main6 [task main's] outer0 [task a] loop6");
}

static void test_bad(void **state)
{
	each(has_bad_codes);
	each(begins);
}

/* --- how much --- */

/* The outermost of @n coroutines. */
static raddr a_chain(struct fix *f, uint32_t n)
{
	raddr at = a_waiting(f, "c", 0), next;

	while (--n) {
		next = at;
		at = a_coroutine(&f->m, 4);
		put(f->m.w, top_of(&f->m, at), next, 8);
	}
	return at;
}

/* @n tasks that wait for one another, each with the same chain. */
static void await_many(struct fix *f, uint32_t n, raddr chain)
{
	raddr at = f->task, next;

	while (n--) {
		next = a_task(f, "w", chain);
		put_awaited(&f->m, at, next);
		at = next;
	}
}

static void expect_many(struct fix *f, uint32_t tasks, uint32_t frames, bool whole)
{
	struct pystack_result r;

	await_many(f, tasks, a_chain(f, frames));
	r = read_joined(f, false);
	assert_int_equal(r.joined, whole ? PYSTACK_JOINED : PYSTACK_JOINED_PART);
	assert_int_equal(r.n, 2 + 1 + tasks * (frames + 1) + !whole + 1);
}

static void awaited_by_many(struct fix *f)
{
	expect_many(f, MOST_WAITING, 1, true);
	expect_many(f, MOST_WAITING + 1, 1, false);
}

static void test_many(void **state)
{
	each(awaited_by_many);
}

/* A chain that has no room is left out as a whole. */
static void awaited_by_long_ones(struct fix *f)
{
	await_many(f, 23, a_chain(f, 88));
	assert_int_equal(1 + 23 * 89, MOST_ITEMS);
	assert_int_equal(read_joined(f, false).n, 3 + MOST_ITEMS);
	await_many(f, 32, a_chain(f, 63));
	assert_int_equal(1 + 32 * 64, MOST_ITEMS + 1);
	expect(f, PYSTACK_JOINED_PART,
	       "leaf6 main6 [task main's] [awaiting tasks unknown] loop6");
}

static void test_long(void **state)
{
	each(awaited_by_long_ones);
}

/* What is cut at @max frames is what stands there otherwise. */
static void cut_at(size_t version, uint32_t max, uint32_t loops, uint32_t waiting)
{
	struct fix *f = fix_create(version, max), *whole = fix_create(version, 4096);
	struct pystack_result a, b;
	char *text;

	for (struct fix **each = (struct fix *[]){ f, whole, NULL }; *each; each++) {
		run(*each, loops);
		await_many(*each, waiting, a_waiting(*each, "c", 0));
	}
	a = read_joined(f, false);
	b = read_joined(whole, false);
	assert_int_equal(a.joined, PYSTACK_JOINED);
	assert_int_equal(a.truncated, b.n > max);
	assert_int_equal(a.n, MIN(b.n, max));
	text = strdup(text_of(f, &a));
	b.n = a.n;
	assert_string_equal(text, text_of(whole, &b));
	assert_true(a.n_anchors <= b.n_anchors && a.n_anchors);
	for (uint32_t i = 0; i < a.n_anchors; i++)
		assert_int_equal(a.anchors[i].n, MIN(b.anchors[i].n, max));
	free(text);
	fix_destroy(f);
	fix_destroy(whole);
}

static void test_cut(void **state)
{
	for (size_t version = 0; version < ARRAY_SIZE(versions); version++)
		for (uint32_t max = 12; max < 17; max++)
			for (uint32_t waiting = 0; waiting < 8; waiting += 3)
				cut_at(version, max, max % 5 + 1, waiting);
}

/* Frames of the tasks lie in the loop that runs the coroutine. */
static void has_anchors(struct fix *f)
{
	struct pystack_result r;
	uint32_t n[3], before;

	r = pystack_read(f->p, &f->t, &f->m.w->base, TID, INNER);
	before = r.n_anchors;
	assert_int_equal(before, 3);
	for (uint32_t i = 0; i < before; i++)
		n[i] = r.anchors[i].n;
	await_many(f, 2, a_waiting(f, "c", 0));
	pystack_join(f->p, &f->t, TID, false, &r);
	assert_int_equal(r.n, 3 + 5);
	assert_int_equal(r.n_anchors, before);
	for (uint32_t i = 0; i < before; i++)
		assert_int_equal(r.anchors[i].n, n[i] < 2 ? n[i] : n[i] + 5);
	assert_int_equal(r.anchors[0].n, 1);
	assert_int_equal(r.anchors[1].n, 2 + 5);
}

/* So do they where the coroutine is the innermost frame. */
static void has_anchors_of_the_innermost(struct fix *f)
{
	const struct pylayout *l = &f->m.w->l;
	raddr code[4] = { a_function(f, "main") }, instr[4] = { world_instr(f->m.w, code[0], 3) };
	const char *shims = pyoff_has(l->tstate.base_frame) ? "gsfb" : "gsfs";
	uint32_t loop = l->owner_shim ? 2 : 1;
	struct pystack_result r;

	code[loop] = a_function(f, "loop");
	instr[loop] = world_instr(f->m.w, code[loop], 3);
	world_stack(f->m.w, f->ts, l->owner_shim ? shims : l->lasti_unit ? "gf" : "Ge", code,
		    instr);
	f->task = a_task(f, "main's", coroutine_of(f, f->m.w->frame[0]));
	put_task(f, 0, f->task);
	await_many(f, 2, a_waiting(f, "c", 0));
	r = read_joined(f, false);
	assert_int_equal(r.n, 2 + 5);
	assert_int_equal(r.n_anchors, 2);
	assert_int_equal(r.anchors[0].n, 1 + 5);
	assert_int_equal(r.anchors[1].n, 2 + 5);
}

static void test_anchors(void **state)
{
	each(has_anchors);
	each(has_anchors_of_the_innermost);
}

/* An object of a type with many bases, each in a page of its own. */
static raddr of_many_bases(struct fix *f)
{
	raddr type = 0;

	for (uint32_t i = 0; i < BASES; i++) {
		type = a_type(f->m.w, "c", 32, type);
		world_take(f->m.w, 4096 - TYPE_BYTES);
	}
	return of_type(f->m.w, take(f->m.w, 64), type);
}

/* What wakes who is in its closure. */
static raddr a_callback(struct fix *f)
{
	enum { CELLS = 8 };
	struct made *m = &f->m;
	struct world *w = m->w;
	const struct awaiterlayout *l = awaiterlayout_find(&w->l);
	raddr func = of_type(w, take(w, 256), a_type(w, "function", 136, 0));
	raddr cells = take(w, 16 + 8 * CELLS + 64), cell;

	put(w, func + l->func_module, a_str(m, "asyncio.tasks"), 8);
	put(w, func + l->func_qualname, a_str(m, "gather.<locals>._done_callback"), 8);
	put(w, func + l->func_closure, cells, 8);
	put(w, in(w, cells, 0), CELLS, 8);
	for (uint32_t i = 0; i < CELLS; i++) {
		cell = take(w, 64);
		put(w, in(w, cell, 0), of_many_bases(f), 8);
		put(w, in(w, cells, 8 + 8 * i), cell, 8);
	}
	return func;
}

/* A list of callbacks, as many as are looked at. */
static raddr many_callbacks(struct fix *f)
{
	enum { CALLBACKS = 64 };
	struct world *w = f->m.w;
	raddr list = of_type(w, take(w, 64), a_type(w, "list", 40, 0));
	raddr pair = of_type(w, take(w, 64), a_type(w, "tuple", 24, 0));
	raddr items = take(w, 8 * CALLBACKS);

	put(w, in(w, pair, 8), a_callback(f), 8);
	for (uint32_t i = 0; i < CALLBACKS; i++)
		put(w, items + 8 * i, pair, 8);
	put(w, in(w, list, 0), CALLBACKS, 8);
	put(w, in(w, list, 8), items, 8);
	return list;
}

/* A program can make a look at who waits as long as it likes: it ends, and says so. */
static void costs_too_much(struct fix *f)
{
	const struct awaiterlayout *l = awaiterlayout_find(&f->m.w->l);
	raddr a = a_task(f, "a", a_waiting(f, "outer", 0)), list;
	struct pystack_result r;
	int before;

	if (l->awaited_by)
		return; /* it says who waits, itself */
	list = many_callbacks(f);
	put_awaited(&f->m, f->task, a);
	put(f->m.w, f->task + l->callbacks, list, 8);
	r = pystack_read(f->p, &f->t, &f->m.w->base, TID, INNER);
	before = f->m.w->calls;
	pystack_join(f->p, &f->t, TID, false, &r);
	assert_in_range(f->m.w->calls - before, MOST_READS / 2, MOST_READS);
	assert_int_equal(r.joined, PYSTACK_JOINED_PART);
	assert_int_equal(r.n_joined, MOST_READS);
	assert_string_equal(text_of(f, &r),
			    as_here(f, "leaf6 main6 [task main's] [awaiting tasks unknown] "
				       "loop6"));
}

/* A hold is charged with what was looked at. */
static void costs_something(struct fix *f)
{
	struct pystack_result r;

	await_many(f, 3, a_waiting(f, "c", 0));
	r = read_joined(f, false);
	assert_int_equal(r.joined, PYSTACK_JOINED);
	assert_in_range(r.n_joined, 1, 200);
}

static void test_costs(void **state)
{
	each(costs_too_much);
	each(costs_something);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waiting), cmocka_unit_test(test_several),
		cmocka_unit_test(test_whose),	cmocka_unit_test(test_no_coroutine),
		cmocka_unit_test(test_names),	cmocka_unit_test(test_lost),
		cmocka_unit_test(test_bad),	cmocka_unit_test(test_many),
		cmocka_unit_test(test_long),	cmocka_unit_test(test_cut),
		cmocka_unit_test(test_anchors), cmocka_unit_test(test_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
