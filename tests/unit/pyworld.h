/* SPDX-License-Identifier: MIT
 *
 * pyworld - a made-up CPython in memory, laid out as a struct pylayout has it:
 * interpreters, threads, frames and code objects, behind a reader that counts.
 */
#ifndef PYWORLD_H
#define PYWORLD_H

#include "arch/arch.h"
#include "python/pycode.h"
#include "pyframe_walk.h"
#include "rmem_image.h"

enum {
	WORLD_BYTES = 1 << 20,
	WORLD_FRAMES = 1200,
	WORLD_STACK = 160 << 10,
	WORLD_HEAP = 4096, /* behind it: frames that are not on the data stack */
	WORLD_LOCALS = 40, /* bytes behind a frame's header */
};
static const raddr WORLD_AT = 0x7f5500000000, WORLD_NOWHERE = 0x7f5600000000;

/* The words that were read, each once. */
struct world_log {
	size_t n;
	raddr at[WORLD_BYTES / 8];
	bool seen[WORLD_BYTES / 8];
};

struct world {
	struct rmem base; /* counts, then reads the image */
	int calls;
	struct world_log *log; /* NULL: nobody asks */
	struct rmem_image image;
	struct rmem_chunk chunks[2]; /* up to the hole; behind it */
	struct pylayout l;
	struct pywalk_layout walk;
	raddr next;	       /* free from here on */
	uint64_t interpreters; /* made so far */
	raddr runtime, type;
	raddr last_interp, stack, heap; /* where the next frames go */
	size_t chunk;			/* bytes of a thread's data-stack chunk */
	raddr frame[WORLD_FRAMES];	/* of the last world_stack(), innermost first */
	_Alignas(16) unsigned char mem[WORLD_BYTES];
};

static inline void world_note(struct world_log *log, raddr at)
{
	bool *seen = &log->seen[(at - WORLD_AT) / 8 % (WORLD_BYTES / 8)];

	if (at - WORLD_AT >= WORLD_BYTES || *seen)
		return;
	*seen = true;
	log->at[log->n++] = at;
}

static inline int world_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct world *w = container_of(m, struct world, base);

	w->calls++;
	for (raddr word = at & ~(raddr)7; w->log && word < at + n; word += 8)
		world_note(w->log, word);
	return rmem_read(&w->image.base, at, buf, n);
}

static inline size_t world_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct world *w = container_of(m, struct world, base);

	w->calls += n > 0; /* nothing to read is no call below */
	for (size_t i = 0; w->log && i < n; i++)
		for (raddr word = v[i].at & ~(raddr)7; word < v[i].at + v[i].n; word += 8)
			world_note(w->log, word);
	return rmem_readv(&w->image.base, v, n);
}

static const struct rmem_ops world_ops = { "world", world_read, world_readv };

static inline void *world_mem(struct world *w, raddr at)
{
	return w->mem + (at - WORLD_AT);
}

static inline raddr world_take(struct world *w, size_t n)
{
	raddr at = w->next;

	w->next += (n + 15) & ~(size_t)15;
	if (w->next > WORLD_AT + WORLD_BYTES)
		abort();
	return at;
}

static inline void world_put(struct world *w, raddr at, pyoff field, uint64_t v, size_t n)
{
	if (pyoff_has(field))
		memcpy(world_mem(w, at + pyoff_get(field)), &v, n);
}

static inline uint64_t world_get(struct world *w, raddr at, pyoff field)
{
	return pyoff_has(field) ? load_u64(world_mem(w, at + pyoff_get(field))) : 0;
}

/* A hole: nothing there can be read. */
static inline void world_hole(struct world *w, raddr at, size_t n)
{
	w->chunks[0].n = at - WORLD_AT;
	at += n;
	w->chunks[1] =
		(struct rmem_chunk){ at, WORLD_AT + WORLD_BYTES - at, world_mem(w, at) };
}

static inline struct world *world_create(const struct pylayout *l)
{
	struct world *w = calloc(1, sizeof(*w));
	raddr name;

	w->base.ops = &world_ops;
	w->l = *l;
	w->chunks[0] = (struct rmem_chunk){ WORLD_AT, WORLD_BYTES, w->mem };
	rmem_image_init(&w->image, w->chunks, 2);
	w->next = WORLD_AT;
	w->chunk = WORLD_STACK;
	w->runtime = world_take(w, 1024);
	pywalk_layout_init(&w->walk, &w->l, w->runtime);
	w->type = world_take(w, 512);
	name = world_take(w, 8);
	memcpy(world_mem(w, name), "code", 5);
	world_put(w, w->type, l->object.type_name, name, 8);
	return w;
}

/* One more interpreter at the end of the list. */
static inline raddr world_interp(struct world *w)
{
	raddr at = world_take(w, 8192);

	world_put(w, at, w->l.interp.id, w->interpreters++, 8);
	if (w->last_interp)
		world_put(w, w->last_interp, w->l.interp.next, at, 8);
	else
		world_put(w, w->runtime, w->l.runtime.interp_head, at, 8);
	return w->last_interp = at;
}

/* What the C library has of a thread. */
static inline raddr world_pthread(struct world *w, uint64_t tid)
{
	raddr at = world_take(w, 4096);

	world_put(w, at, (pyoff)AT(arch_host->pthread_tid[0]), tid, 4);
	return at;
}

/* One more thread at the end of its interpreter's list. */
static inline raddr world_thread(struct world *w, raddr interp, uint64_t tid, bool active)
{
	raddr ts = world_take(w, w->l.tstate.size), at;
	uint64_t made = world_get(w, interp, w->l.interp.threads_unique);

	world_put(w, ts, w->l.tstate.interp, interp, 8);
	if (pyoff_has(w->l.tstate.native_tid))
		world_put(w, ts, w->l.tstate.native_tid, tid, 8);
	else
		world_put(w, ts, w->l.tstate.thread_id, world_pthread(w, tid), 8);
	world_put(w, ts, w->l.tstate.exc_info, ts + 16, 8); /* inside: no generator runs */
	world_put(w, ts, w->l.tstate.status, active ? 1u << w->l.active_bit : 0, 4);
	world_put(w, interp, w->l.interp.threads_unique, made + 1, 8);
	at = world_get(w, interp, w->l.interp.threads_head);
	if (!at) {
		world_put(w, interp, w->l.interp.threads_head, ts, 8);
		return ts;
	}
	while (world_get(w, at, w->l.tstate.next))
		at = world_get(w, at, w->l.tstate.next);
	world_put(w, at, w->l.tstate.next, ts, 8);
	return ts;
}

static inline raddr world_str(struct world *w, const char *s)
{
	size_t n = strlen(s);
	raddr at = world_take(w, w->l.str.ascii_data + n + 1);
	uint32_t state = 1u << w->l.str_kind_shift | 1u << w->l.str_compact_bit |
			 1u << w->l.str_ascii_bit;

	world_put(w, at, w->l.str.length, n, 8);
	world_put(w, at, w->l.str.state, state, 4);
	memcpy(world_mem(w, at + w->l.str.ascii_data), s, n + 1);
	return at;
}

/* @units code units, the first @traced of which run before the first line; each one
 * a line further than the one before, from @line on. */
struct world_code {
	const char *name, *file;
	uint32_t line, units, traced, version;
};

static inline raddr world_table(struct world *w, const struct world_code *c)
{
	raddr at = world_take(w, pyoff_get(w->l.bytes.data) + 2 * c->units + 1);
	unsigned char *p = world_mem(w, at + pyoff_get(w->l.bytes.data));

	world_put(w, at, w->l.bytes.size, 2 * c->units, 8);
	for (uint32_t i = 0; i < c->units; i++) {
		*p++ = 0x80 | 13 << 3;
		*p++ = i ? 2 : 0;
	}
	return at;
}

/* Up to 3.10 the bytecode is an object. */
static inline raddr world_bytecode(struct world *w, uint32_t units)
{
	raddr at = world_take(w, pyoff_get(w->l.bytes.data) + 2 * units + 1);

	world_put(w, at, w->l.bytes.size, 2 * units, 8);
	return at;
}

/* Without the GIL, 3.14 on: as a thread runs the bytecode itself, its copies are a list of
 * one. */
static inline raddr world_copies(struct world *w, raddr code, uint64_t n)
{
	raddr at = world_take(w, 8 + 8 * n);

	world_put(w, at, (pyoff)AT(0), n, 8);
	world_put(w, at, (pyoff)AT(8), code + w->l.code.size, 8);
	world_put(w, code, w->l.code.tlbc, at, 8);
	return at;
}

static inline void world_code_put(struct world *w, raddr at, const struct world_code *c)
{
	const struct pylayout *l = &w->l;

	world_put(w, at, l->object.type, w->type, 8);
	world_put(w, at, (pyoff)AT(pyoff_get(l->object.type) + 8), c->units, 8);
	world_put(w, at, l->code.qualname, world_str(w, c->name), 8);
	world_put(w, at, l->code.filename, world_str(w, c->file), 8);
	world_put(w, at, l->code.linetable, world_table(w, c), 8);
	if (pyoff_has(l->code.instructions))
		world_put(w, at, l->code.instructions, world_bytecode(w, c->units), 8);
	world_put(w, at, l->code.firstlineno, c->line, 4);
	world_put(w, at, l->code.flags, 3, 4);
	world_put(w, at, l->code.version, c->version, 4);
	world_put(w, at, l->code.firsttraceable, c->traced, 4);
	world_put(w, at, l->code.nlocalsplus, 1 + WORLD_LOCALS / 8, 4);
	if (pyoff_has(l->code.tlbc))
		world_copies(w, at, 1);
}

static inline raddr world_code(struct world *w, const struct world_code *c)
{
	raddr at = world_take(w, w->l.code.size + 2 * c->units);

	world_code_put(w, at, c);
	return at;
}

/* The address of code unit @unit as a frame's instruction pointer; up to 3.10 its f_lasti. */
static inline raddr world_instr(const struct world *w, raddr code, uint32_t unit)
{
	if (w->l.lasti_unit)
		return 2 * unit / w->l.lasti_unit;
	return code + w->l.code.size + 2 * unit;
}

/*
 * Stacks as letters, innermost first:
 *   f  a function's frame     e  ... that C called (3.11's is_entry)
 *   g  a generator's frame    G  ... that C called
 *   t  ... that throw() links: it says that C called it (3.11)
 *   s  a shim                 b  the base frame below all others (3.15)
 * and at the end, instead of NULL, what the last frame's predecessor is:
 *   ?  not readable           /  not aligned         @  the first frame again
 */

static inline raddr world_frame_room(struct world *w, char letter)
{
	raddr *at = letter == 'f' || letter == 'e' ? &w->stack : &w->heap;

	*at += w->l.frame.size + WORLD_LOCALS;
	return *at - w->l.frame.size - WORLD_LOCALS;
}

static inline void world_frame(struct world *w, raddr at, char letter, raddr code, raddr instr,
			       raddr previous)
{
	const struct pylayout *l = &w->l;
	bool entry = letter == 'e' || letter == 'G' || letter == 't';
	uint8_t owner = 0;

	if (letter == 's' || letter == 'b')
		owner = l->owner_shim;
	else if (letter == 'g' || letter == 'G' || letter == 't')
		owner = l->owner_generator;
	world_put(w, at, l->frame.code, code | l->code_tag_mask, 8);
	world_put(w, at, l->frame.instr, instr, 8);
	world_put(w, at, l->frame.previous, previous, 8);
	world_put(w, at, l->frame.owner, owner, 1);
	world_put(w, at, l->frame.is_entry, entry, 1);
	world_put(w, at, l->frame.stacktop, UINT32_MAX, 4);
}

/* What the thread's frame pointer is: in the thread state or the _PyCFrame. */
static inline void world_top(struct world *w, raddr ts, raddr frame)
{
	raddr cframe, own = ts + w->l.tstate.size - 24;

	if (!pyoff_has(w->l.tstate.cframe)) {
		world_put(w, ts, w->l.tstate.frame, frame, 8);
		return;
	}
	cframe = world_get(w, ts, w->l.tstate.cframe);
	if (cframe == own) /* the one that was left */
		cframe = world_get(w, own, w->l.cframe.previous);
	if (!frame) {
		world_put(w, own, w->l.cframe.previous, cframe, 8);
		cframe = own;
	} else if (!cframe) {
		cframe = world_take(w, 32);
	}
	world_put(w, cframe, w->l.cframe.current_frame, frame, 8);
	world_put(w, ts, w->l.tstate.cframe, cframe, 8);
}

/* The _PyCFrames before: of each activation whose newest frame stands below another's first. */
static inline void world_before(struct world *w, raddr ts, const char *letters, uint32_t n)
{
	const char *first = w->l.owner_shim ? "sb" : "eG";
	raddr cframe, before;

	if (!pyoff_has(w->l.tstate.cframe))
		return;
	cframe = world_get(w, ts, w->l.tstate.cframe);
	for (uint32_t i = 0; i < n; i++) {
		if (!strchr(first, letters[i]))
			continue;
		before = world_get(w, cframe, w->l.cframe.previous);
		before = before ? before : world_take(w, 32);
		world_put(w, cframe, w->l.cframe.previous, before, 8);
		world_put(w, before, w->l.cframe.current_frame,
			  i + 1 < n ? w->frame[i + 1] : 0, 8);
		cframe = before;
	}
}

static inline void world_datastack(struct world *w, raddr ts, raddr chunk)
{
	uint32_t at = pyoff_get(w->l.tstate.datastack_chunk);

	if (!pyoff_has(w->l.tstate.datastack_chunk))
		return;
	world_put(w, ts, (pyoff)AT(at), chunk, 8);
	world_put(w, ts, (pyoff)AT(at + 8), w->stack, 8);
	world_put(w, ts, (pyoff)AT(at + 16), chunk + w->chunk, 8);
}

static inline raddr world_end_of(const char *letters)
{
	return strchr(letters, '?') ? WORLD_NOWHERE :
	       strchr(letters, '/') ? WORLD_AT + 0x1004 :
				      0;
}

/* Give thread @ts the stack @letters instead of the one it has. code[i] and instr[i]
 * are those of letter i; NULL: (i + 1) << 12, and 16 more. */
static inline void world_stack(struct world *w, raddr ts, const char *letters,
			       const raddr *code, const raddr *instr)
{
	raddr chunk, at = world_end_of(letters);
	uint32_t n = (uint32_t)strcspn(letters, "?/@");

	chunk = world_get(w, ts, w->l.tstate.datastack_chunk);
	w->stack = chunk = chunk ? chunk : world_take(w, w->chunk + WORLD_HEAP);
	w->heap = chunk + w->chunk;
	for (uint32_t i = n; i-- > 0;) {
		raddr c = code ? code[i] : (raddr)(i + 1) << 12;

		w->frame[i] = world_frame_room(w, letters[i]);
		world_frame(w, w->frame[i], letters[i], c, instr ? instr[i] : c + 16, at);
		at = w->frame[i];
		if (letters[i] == 'b')
			world_put(w, ts, w->l.tstate.base_frame, at, 8);
	}
	if (strchr(letters, '@'))
		world_put(w, w->frame[n - 1], w->l.frame.previous, at, 8);
	world_top(w, ts, at);
	world_before(w, ts, letters, n);
	world_datastack(w, ts, chunk);
}

#endif
