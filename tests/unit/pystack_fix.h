/* SPDX-License-Identifier: MIT
 *
 * pystack_fix - a target of the made-up CPython, whose code objects are named by letters, and
 * what pystack reads of its thread, as text. For tests that include cmocka.h.
 */
#ifndef PYSTACK_FIX_H
#define PYSTACK_FIX_H

#include "python/pystack_int.h"
#include "pyworld.h"

enum { PID = 4711, PROGRAM = 12, TID = 31, INNER = 7, MAX_IDS = 1 << 15, TRACED = 2, UNITS = 8 };

struct fix {
	struct world *w;
	struct pystack_target t;
	struct pystack *p;
	raddr interp, ts, code['z' + 1];
	uint32_t version; /* last co_version given out */
	raddr count;	  /* where the target counts code objects; 0: nowhere */
	uint64_t last_id; /* of the copies so far */
	int reads;
	char refused;	  /* no copy of this one is taken */
	char name[MAX_IDS];
};

static inline bool new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct fix *f = arg;
	char name[8];

	assert_true(pycode_copy_valid(c, pycode_copy_size(c)));
	assert_true(id > f->last_id && id < MAX_IDS);
	assert_int_equal(pycode_name(c, name, sizeof(name)), 1);
	f->last_id = id;
	f->name[id] = name[0];
	return name[0] != f->refused;
}

static inline struct fix *fix_create_for(const struct pylayout *l, uint32_t max_frames)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->w = world_create(l);
	f->t = (struct pystack_target){
		.pid = PID, .program = PROGRAM, .layout = *l, .walk = f->w->walk
	};
	f->p = pystack_create(max_frames, new_code, f);
	f->interp = world_interp(f->w);
	world_thread(f->w, f->interp, 5, true);
	f->ts = world_thread(f->w, f->interp, INNER, true);
	return f;
}

static inline struct fix *fix_create(uint16_t version)
{
	return fix_create_for(pylayout_find(version), PYWALK_MAX_FRAMES);
}

static inline void fix_destroy(struct fix *f)
{
	pystack_destroy(f->p);
	free(f->w);
	free(f);
}

/* As after a sample. */
static inline void was_walked(struct fix *f)
{
	*pystack_compiled(f->p, PROGRAM) = (struct pycompiled){ .program = PROGRAM };
}

static inline void put_code(struct fix *f, raddr at, char letter)
{
	const struct world_code c = {
		(char[]){ letter, '\0' }, "/x.py", 10, UNITS, TRACED, ++f->version
	};

	world_take(f->w, 8192); /* names and tables are far from their code */
	world_code_put(f->w, at, &c);
	world_take(f->w, 8192);
	if (f->count)
		world_put(f->w, f->count, (pyoff)AT(0), f->version + 1, 4);
}

/* The same function, made anew at the same place. */
static inline void put_code_again(struct fix *f, char letter)
{
	world_put(f->w, f->code[(unsigned char)letter], f->w->l.code.version, ++f->version, 4);
}

static inline raddr code_of(struct fix *f, char letter)
{
	raddr *code = &f->code[(unsigned char)letter];

	if (!*code) {
		*code = world_take(f->w, f->w->l.code.size + 2 * UNITS);
		put_code(f, *code, letter);
	}
	return *code;
}

/* The stack of functions @codes, innermost first, each at its unit (NULL: 3), on top
 * of what is below a whole stack. */
static inline void stack(struct fix *f, const char *codes, const int *unit)
{
	size_t n = strlen(codes);
	char letters[WORLD_FRAMES + 2] = "";
	raddr code[WORLD_FRAMES + 1] = { 0 }, instr[WORLD_FRAMES + 1] = { 0 };

	for (size_t i = 0; i < n; i++) {
		letters[i] = 'f';
		code[i] = code_of(f, codes[i]);
		instr[i] = code[i] + f->w->l.code.size;
		instr[i] += (raddr)(2 * (int64_t)(unit ? unit[i] : 3));
	}
	if (f->w->l.owner_shim)
		letters[n] = pyoff_has(f->w->l.tstate.base_frame) ? 'b' : 's';
	else if (n)
		letters[n - 1] = 'e';
	world_stack(f->w, f->ts, letters, code, instr);
}

/* What a test does before each read, if it does. */
static void (*before_read)(struct fix *f);

static inline struct pystack_result read_result(struct fix *f)
{
	if (before_read)
		before_read(f);
	f->w->calls = 0;
	return pystack_read(f->p, &f->t, &f->w->base, TID, INNER);
}

/* "a3 b0": names and code units, innermost first; or why there are none. */
static inline const char *text_of(struct fix *f, struct pystack_result r)
{
	static const char *const ends[] = { "",	      "nopython", "fault",
					    "broken", "badcode",  "elsewhere" };
	static char text[WORLD_FRAMES * 4];
	char *p = text;

	text[0] = '\0';
	assert_non_null(r.of);
	if (r.end != PYSTACK_OK) {
		assert_int_equal(r.n, 0);
		return ends[r.end];
	}
	for (uint32_t i = 0; i < r.n; i++) {
		uint64_t id = r.frames[i].code_id;

		assert_true(id && id <= f->last_id);
		p += sprintf(p, "%s%c%u", i ? " " : "", f->name[id], r.frames[i].lasti / 2);
	}
	return text;
}

static inline const char *read_stack(struct fix *f)
{
	return text_of(f, read_result(f));
}

static inline void in_every_layout(void (*test)(struct fix *f))
{
	for (uint16_t v = 0x030b; v <= 0x030f; v++) {
		struct fix *f = fix_create(v);

		test(f);
		fix_destroy(f);
	}
	for (uint16_t v = 0x030d; v <= 0x030f; v++) {
		struct fix *f =
			fix_create_for(pylayout_find_free_threaded(v), PYWALK_MAX_FRAMES);

		test(f);
		fix_destroy(f);
	}
}

#endif
