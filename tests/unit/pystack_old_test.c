/* SPDX-License-Identifier: MIT
 *
 * pystack, up to CPython 3.10: frames are objects that say how far into the bytecode they are,
 * and the bytecode is an object of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

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

static void codes(void **state)
{
	in_every_layout(lost_bytecode);
	in_every_layout(replaced);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units),
		cmocka_unit_test(anchors),
		cmocka_unit_test(codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
