/* SPDX-License-Identifier: MIT
 *
 * pystack_scenes - threads of pystack_fix.h in the middle of something: an activation that is
 * entered, several interpreters, generators.
 */
#ifndef PYSTACK_SCENES_H
#define PYSTACK_SCENES_H

#include "pystack_fix.h"

static inline void put_top(struct fix *f, raddr top)
{
	uint32_t chunk = pyoff_get(f->w->l.tstate.datastack_chunk);

	world_put(f->w, f->ts, (pyoff)AT(chunk + 8), top, 8);
}

static inline void put_chunk(struct fix *f, raddr at)
{
	world_put(f->w, f->ts, f->w->l.tstate.datastack_chunk, at, 8);
}

static inline void put_exc(struct fix *f, raddr at)
{
	world_put(f->w, f->ts, f->w->l.tstate.exc_info, at, 8);
}

static inline void put_cframe(struct fix *f, raddr at, raddr frame, raddr previous)
{
	world_put(f->w, at, f->w->l.cframe.current_frame, frame, 8);
	world_put(f->w, at, f->w->l.cframe.previous, previous, 8);
}

/* The stack @letters of pyworld.h, of functions @codes, each at its unit 3. */
static inline void put_letters(struct fix *f, const char *letters, const char *codes)
{
	raddr code[WORLD_FRAMES] = { 0 }, instr[WORLD_FRAMES] = { 0 };

	for (size_t i = 0; codes[i]; i++) {
		code[i] = code_of(f, codes[i]);
		instr[i] = world_instr(f->w, code[i], 3);
	}
	world_stack(f->w, f->ts, letters, code, instr);
}

/* The fixture's thread has one more state, in an interpreter of its own; the old one. */
static inline raddr enter_another(struct fix *f)
{
	raddr before = f->ts, interp = world_interp(f->w);

	f->ts = world_thread(f->w, interp, INNER, false);
	return before;
}

/* Another runtime beside the first one: a thread of it that bears the same number. */
static inline raddr another_runtime(struct fix *f, struct pystack_others *o, bool proven)
{
	raddr first = f->w->runtime, interp, last = f->w->last_interp, ret;

	f->w->runtime = world_take(f->w, 1024);
	f->w->last_interp = 0;
	*o = (struct pystack_others){ .n = 1 };
	o->of[0].proven = proven;
	o->of[0].target.layout = f->w->l;
	pywalk_layout_init(&o->of[0].target.walk, &f->w->l, f->w->runtime);
	interp = world_interp(f->w);
	ret = world_thread(f->w, interp, INNER, true);
	f->w->runtime = first;
	f->w->last_interp = last;
	return ret;
}

/* "a" on "b", and C called by a enters an activation of e. */
struct entered {
	raddr cframe, before; /* of the new activation; of a's */
	raddr frame;	      /* e's, on the data stack */
	raddr gen;	      /* the exc_state of a generator that is alive, its frame */
	raddr gen_frame;
};

static inline struct entered entered(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	struct entered e = { .cframe = world_take(f->w, 64) };
	raddr gen = world_take(f->w, 256);

	was_walked(f);
	stack(f, "ab", NULL);
	e.before = world_get(f->w, f->ts, l->tstate.cframe);
	e.frame = world_frame_room(f->w, 'f');
	world_frame(f->w, e.frame, 'f', code_of(f, 'e'),
		    world_instr(f->w, code_of(f, 'e'), 0) - 2, 0);
	put_top(f, f->w->stack);
	e.gen = gen + pyoff_get(l->gen.exc_state);
	e.gen_frame = gen + pyoff_get(l->gen.frame);
	world_frame(f->w, e.gen_frame, 'g', code_of(f, 'g'),
		    world_instr(f->w, code_of(f, 'g'), 3), 0);
	world_put(f->w, gen, l->gen.exc_previous, f->ts + 16, 8);
	put_exc(f, f->ts + 16);
	world_put(f->w, f->ts, l->tstate.cframe, e.cframe, 8);
	put_cframe(f, e.cframe, WORLD_NOWHERE, e.before);
	return e;
}

/* No generator, and no frame of its own yet. */
static inline void entered_generator(struct fix *f, const struct entered *e)
{
	put_top(f, e->frame);
	put_exc(f, e->gen);
}

/* 'e' is entered: its frame, which is returned, is published and has not begun; its link is
 * @shim. */
static inline raddr enter_by(struct fix *f, raddr shim)
{
	raddr e = world_frame_room(f->w, 'f');

	world_frame(f->w, e, 'f', code_of(f, 'e'), world_instr(f->w, code_of(f, 'e'), 0),
		    shim);
	put_top(f, f->w->stack);
	world_top(f->w, f->ts, e);
	return e;
}

#endif
