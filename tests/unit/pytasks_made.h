/* SPDX-License-Identifier: MIT
 *
 * pytasks_made - a made-up CPython with one asyncio task, in any version.
 */
#ifndef PYTASKS_MADE_H
#define PYTASKS_MADE_H

#include "base/base.h"
#include "offsets/tasklayout.h"
#include "python/pytasks.h"
#include "pyworld.h"

enum {
	UNITS = 8,
	TYPE_BYTES = 1024,
	LOCALS = 1 + WORLD_LOCALS / 8, /* nlocalsplus of world_code() */
	TABLE = 8,		       /* entries of a set, and of a dict */
	ROOM = 512,		       /* of a coroutine, a frame or a task */
	BEFORE = 32,		       /* bytes before an object */
};

/* A process with one task. */
struct made {
	struct world *w;
	const struct genlayout *g;
	const struct tasklayout *t;
	raddr coroutine, str, none; /* types */
	raddr task, slot, set;
	raddr told;    /* from 3.14 on */
	raddr coro[3]; /* outermost first */
	raddr code;
};

/* The last three are without the GIL. */
static const uint16_t versions[] = { 0x0307, 0x0308, 0x0309, 0x030a, 0x030b, 0x030c,
				     0x030d, 0x030e, 0x030f, 0x030d, 0x030e, 0x030f };
static const uint16_t sizes[] = { 136, 144, 184, 192, 176, 176, 144, 168, 168, 160, 192, 192 };
enum { WITH_GIL = 9 };

static inline void put(struct world *w, raddr at, uint64_t v, size_t n)
{
	memcpy(world_mem(w, at), &v, n);
}

static inline raddr take(struct world *w, size_t n)
{
	return world_take(w, n + BEFORE) + BEFORE;
}

static inline raddr chars(struct world *w, const char *s)
{
	raddr at = world_take(w, strlen(s) + 1);

	memcpy(world_mem(w, at), s, strlen(s) + 1);
	return at;
}

/* A field of an object, @at bytes behind its head. */
static inline raddr in(const struct world *w, raddr object, uint64_t at)
{
	return object + pylayout_head(&w->l) + at;
}

static inline raddr a_type(struct world *w, const char *name, uint64_t size, raddr base)
{
	raddr at = take(w, TYPE_BYTES);

	world_put(w, at, w->l.object.type_name, chars(w, name), 8);
	put(w, in(w, at, 16), size, 8);
	put(w, in(w, at, 240), base, 8);
	return at;
}

static inline raddr of_type(struct world *w, raddr at, raddr type)
{
	world_put(w, at, w->l.object.type, type, 8);
	return at;
}

static inline raddr a_str(struct made *m, const char *s)
{
	return of_type(m->w, world_str(m->w, s), m->str);
}

/* With the keys @name, in any version. */
static inline raddr a_dict(struct made *m, size_t n, const char *const name[],
			   const raddr value[])
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
static inline raddr an_object(struct made *m, const char *class, raddr dict)
{
	raddr at = take(m->w, 64), type = a_type(m->w, class, 32, 0);

	world_put(m->w, type, m->w->l.object.type_flags, 1 << 4, 8);
	world_put(m->w, type, m->w->l.object.type_dict, 16, 8);
	put(m->w,
	    m->w->l.attrs == PY_ATTRS_DICT	  ? at + 16 :
	    m->w->l.attrs == PY_ATTRS_INLINE_BARE ? at - 8 :
						    at - 24,
	    dict, 8);
	return of_type(m->w, at, type);
}

/* Where the top of its values is. */
static inline raddr top_of(const struct made *m, raddr coro)
{
	const struct pylayout *l = &m->w->l;

	if (!l->lasti_unit)
		return coro + m->g->frame + pyoff_get(l->frame.localsplus) + 8 * LOCALS;
	return load_u64(world_mem(m->w, coro + m->g->frame)) + ROOM - 64;
}

static inline raddr frame_object(struct made *m, raddr coro)
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
static inline raddr a_coroutine(struct made *m, uint32_t unit)
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
static inline void put_opcodes(struct made *m, uint8_t opcode)
{
	raddr at = m->code + m->w->l.code.size;

	if (m->w->l.lasti_unit)
		at = world_get(m->w, m->code, m->w->l.code.instructions) +
		     pyoff_get(m->w->l.bytes.data);
	for (uint32_t i = 0; i < UNITS; i++)
		put(m->w, at + 2 * i, opcode | 3 << 8, 2);
}

static inline raddr a_module(struct made *m, raddr dict)
{
	raddr at = take(m->w, 64);

	world_put(m->w, at, m->w->l.module.dict, dict, 8);
	return at;
}

/* The module @name is imported, and no other. */
static inline void import(struct made *m, raddr interp, const char *name, raddr module)
{
	world_put(m->w, interp, m->w->l.interp.modules,
		  a_dict(m, 2, (const char *[]){ "sys", name },
			 (raddr[]){ WORLD_NOWHERE, module }),
		  8);
}

static inline void make_sets(struct made *m, raddr interp)
{
	struct world *w = m->w;
	raddr table = take(w, 16 * TABLE), ref = take(w, 64), weak;

	m->set = take(w, 256);
	m->slot = in(w, ref, 0);
	put(w, m->slot, m->task, 8);
	put(w, table + 16 * 3, ref, 8);
	put(w, table + 16 * 5, ref, 8); /* was taken out */
	put(w, table + 16 * 5 + 8, UINT64_MAX, 8);
	put(w, in(w, m->set, 0), 2, 8);
	put(w, in(w, m->set, 8), 1, 8);
	put(w, in(w, m->set, 16), TABLE - 1, 8);
	put(w, in(w, m->set, 24), table, 8);
	weak = an_object(m, "WeakSet",
			 a_dict(m, 2, (const char *[]){ "_remove", "data" },
				(raddr[]){ WORLD_NOWHERE, m->set }));
	import(m, interp, "asyncio.tasks",
	       a_module(m, a_dict(m, 2,
				  (const char *[]){ "x", w->l.version < 0x030c ?
								 "_all_tasks" :
								 "_scheduled_tasks" },
				  (raddr[]){ WORLD_NOWHERE, weak })));
}

/* From 3.14 on: where the lists are, as _asyncio tells; @told is what it says, in words. */
static const struct tasklists the_lists = { 10848, 872, 864 };

static inline raddr a_told(struct made *m)
{
	const uint64_t words[] = { m->t->size,
				   pyoff_get(m->t->name),
				   96,
				   108,
				   109,
				   m->t->coro,
				   pyoff_get(m->t->node),
				   m->w->l.interp.size,
				   the_lists.in_interp,
				   1104,
				   856,
				   the_lists.running,
				   the_lists.in_tstate };
	raddr at = take(m->w, sizeof(words));

	memcpy(world_mem(m->w, at), words, sizeof(words));
	return at;
}

/* Imports C's module, whose state has a pointer to what is told, the last of 20. */
static inline void import_asyncio(struct made *m, raddr interp)
{
	raddr module = a_module(m, 0), state = take(m->w, 256);

	for (uint32_t i = 0; i < 18; i++)
		put(m->w, state + 8 * i, m->task, 8);
	put(m->w, state + 8 * 18, 7, 8);
	put(m->w, state + 8 * 19, m->told, 8);
	world_put(m->w, module, m->w->l.module.state, state, 8);
	import(m, interp, "_asyncio", module);
}

/* In a thread's list, behind one that has none. */
static inline void make_lists(struct made *m, raddr interp)
{
	struct world *w = m->w;
	raddr of_interp = interp + the_lists.in_interp, of_thread;

	world_take(w, 8192); /* the interpreter is so large */
	of_thread = world_thread(w, interp, 1, true) + the_lists.in_tstate;
	world_take(w, 1024);
	m->told = a_told(m);
	import_asyncio(m, interp);
	m->slot = m->task + pyoff_get(m->t->node);
	put(w, of_interp, of_interp, 8);
	put(w, of_interp + 8, of_interp, 8);
	put(w, of_thread, m->slot, 8);
	put(w, of_thread + 8, m->slot, 8);
	put(w, m->slot, of_thread, 8);
	put(w, m->slot + 8, of_thread, 8);
}

static inline void make_task(struct made *m, size_t version)
{
	struct world *w = m->w;
	raddr type = a_type(w, "_asyncio.Task", sizes[version], 0);

	m->task = of_type(w, take(w, ROOM), type);
	put(w, m->task + m->t->coro, m->coro[0], 8);
	if (pyoff_has(m->t->name))
		world_put(w, m->task, m->t->name, a_str(m, "its name"), 8);
}

/* The task at @task is awaited by that at @by alone: by a callback, or as the task says. */
static inline void put_awaited(struct made *m, raddr task, raddr by)
{
	const struct awaiterlayout *a = awaiterlayout_find(&m->w->l);
	raddr wrapper;

	if (a->awaited_by) {
		put(m->w, task + a->awaited_by, by, 8);
		return;
	}
	wrapper = of_type(m->w, take(m->w, 64), a_type(m->w, "TaskWakeupMethWrapper", 24, 0));
	put(m->w, in(m->w, wrapper, 0), by, 8);
	put(m->w, task + a->callback, wrapper, 8);
}

/* Nothing but the layout of @version, and types. */
static inline void make_bare(struct made *m, size_t version)
{
	m->w = world_create(version < WITH_GIL ?
				    pylayout_find(versions[version]) :
				    pylayout_find_free_threaded(versions[version]));
	m->g = genlayout_find(&m->w->l);
	m->t = tasklayout_find(&m->w->l, sizes[version]);
	assert_non_null(m->g);
	assert_non_null(m->t);
	m->str = a_type(m->w, "str", 80, 0);
	m->none = a_type(m->w, "NoneType", 16, 0);
	m->coroutine = a_type(m->w, "coroutine", 88, 0);
}

static inline void make(struct made *m, size_t version)
{
	const struct world_code code = {
		.name = "f", .file = "f.py", .line = 10, .units = UNITS
	};

	make_bare(m, version);
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

#endif
