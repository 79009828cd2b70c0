/* SPDX-License-Identifier: MIT
 *
 * layout_room: whatever debug info says of a field, or of two: a layout that pylayout_check() takes
 * is used on a made-up CPython. What is read by it has room, and what is loaded out of that was
 * read: sanitizers see what does not, and layout_room.h knows all that is.
 */
#include <stdlib.h>

#include "unit.h"
#include "layout_room.h"
#include "offsets/pyfields.h"
#include "pyworld.h"
#include "python/pydict.h"
#include "python/pyfind.h"
#include "python/pystack.h"

enum { TID = 7, FRAMES = 20, TAKEN_MIN = 20000 };
static const char module_name[] = "greenlet._greenlet"; /* the longest that is looked for */

struct use {
	struct world *w;
	struct pystack *p;
	raddr interp, text;
	int program;
	uint32_t taken;
};

static bool any_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	return true;
}

/* A str, or where these are none what has its place: bytes. */
static raddr a_text(struct world *w, const char *s)
{
	raddr at = world_str(w, s), type;

	if (pyoff_has(w->l.str.state))
		return at;
	at = world_take(w, 64);
	type = world_take(w, 512);
	world_put(w, type, w->l.object.type_flags, 1 << 27, 8); /* of bytes */
	world_put(w, at, w->l.object.type, type, 8);
	world_put(w, at, w->l.bytes.size, strlen(s), 8);
	memcpy(world_mem(w, at + pyoff_get(w->l.bytes.data)), s, strlen(s));
	return at;
}

/* Of as many general entries as are read at once, in any version. */
static raddr a_dict(struct world *w, raddr key)
{
	const struct pylayout *l = &w->l;
	raddr at = world_take(w, 128), keys = world_take(w, 4096), entry = keys;

	world_put(w, at, l->dict.keys, keys, 8);
	world_put(w, at, l->dict.mask, PYDICT_PIECE - 1, 8);
	world_put(w, at, l->dict.fill, PYDICT_PIECE, 8);
	world_put(w, keys, l->dictkeys.size, PYDICT_PIECE, 8);
	world_put(w, keys, l->dictkeys.index_log2, 6, 1);
	world_put(w, keys, l->dictkeys.n, PYDICT_PIECE, 8);
	if (!pyoff_has(l->dict.mask))
		entry += pyoff_get(l->dictkeys.entries) + PYDICT_PIECE;
	for (uint32_t i = 0; i < PYDICT_PIECE; i++) {
		world_put(w, entry, (pyoff)AT(24 * i + 8), key, 8);
		world_put(w, entry, (pyoff)AT(24 * i + 16), key, 8);
	}
	return at;
}

/* A thread with a function that C has called, and a module. */
static struct use make(const struct pylayout *l)
{
	struct use u = { .w = world_create(l),
			 .p = pystack_create(FRAMES, any_code, NULL) };
	const struct world_code c = { "f", "f.py", 10, 8, 2, 3 };
	raddr code = world_code(u.w, &c), instr = world_instr(u.w, code, 3), ts;

	u.interp = world_interp(u.w);
	ts = world_thread(u.w, u.interp, TID, true);
	if (l->owner_shim)
		world_stack(u.w, ts, "fs", (raddr[]){ code, 0 }, (raddr[]){ instr, 0 });
	else
		world_stack(u.w, ts, "e", &code, &instr);
	u.text = a_text(u.w, module_name);
	world_put(u.w, u.interp, l->interp.modules, a_dict(u.w, u.text), 8);
	return u;
}

static void unmake(struct use *u)
{
	pystack_destroy(u->p);
	free(u->w);
}

static bool has_stack(struct use *u, const struct pylayout *l)
{
	struct pystack_target t = { .pid = 1, .program = ++u->program, .layout = *l };

	pywalk_layout_init(&t.walk, l, u->w->runtime);
	return pystack_read(u->p, &t, &u->w->base, TID, TID).end == PYSTACK_OK;
}

/* All that loads out of what it has read. */
static void use(struct use *u, const struct pylayout *l)
{
	const struct pyproc proc = { .runtime = u->w->runtime, .layout = *l };
	struct rmem *m = &u->w->base;
	struct err err;
	char text[64];
	raddr at;

	has_stack(u, l);
	pydict_text(m, l, u->text, text, sizeof(text));
	pydict_module(m, l, u->interp, module_name, &at);
	pyfind_selfcheck_by(&proc, m, 1, &err);
}

static void try(struct use *u, const struct pylayout *l)
{
	const char *outside;

	if (pylayout_check(l, NULL) < 0)
		return;
	u->taken++;
	outside = layout_outside(l);
	if (outside)
		fail_msg("%x%s: %s", l->version, l->free_threaded ? "t" : "", outside);
	use(u, l);
}

/* @value of the field; UINT32_MAX: it is absent, if it can be. */
static void put_field(struct pylayout *l, const struct pyfield *f, uint32_t value)
{
	value += f->offset;
	memcpy((char *)l + f->at, &value, f->size);
}

static bool is_of_one_struct(const struct pyfield *a, const struct pyfield *b)
{
	const char *dot = strchr(a->name, '.');

	return dot && !strncmp(a->name, b->name, (size_t)(dot + 1 - a->name));
}

/* Heads' sizes, what lies at their ends and behind them, and none. */
static const uint32_t some[] = { 0,   16,  24,	56,  72,  104,
				 112, 120, 128, 136, 248, UINT32_MAX };

static void two_fields(struct use *u, const struct pyfield *a, const struct pyfield *b)
{
	struct pylayout l = u->w->l;

	for (size_t i = 0; i < ARRAY_SIZE(some); i++)
		for (size_t j = 0; j < ARRAY_SIZE(some); j++) {
			put_field(&l, a, some[i]);
			put_field(&l, b, some[j]);
			try(u, &l);
		}
}

static void one_field(struct use *u, const struct pyfield *f)
{
	struct pylayout l = u->w->l;

	for (uint32_t v = 0; v <= 1024; v = v < 272 ? v + 4 : v + 16) {
		put_field(&l, f, v);
		try(u, &l);
	}
	put_field(&l, f, UINT32_MAX);
	try(u, &l);
}

/* It is such a CPython as the table says, or all this would be in vain. */
static bool is_used(struct use *u)
{
	const struct pylayout *l = &u->w->l;
	struct rmem *m = &u->w->base;
	char text[64];
	raddr at;

	return pydict_module(m, l, u->interp, module_name, &at) == 0 && at == u->text &&
	       pydict_text(m, l, u->text, text, sizeof(text)) == 0 &&
	       !strcmp(text, module_name) && has_stack(u, l);
}

static uint32_t each_field(const struct pylayout *table)
{
	struct use u = make(table);
	size_t n;
	const struct pyfield *row = pyfield_all(&n);

	try(&u, table);
	assert_int_equal(u.taken, 1);
	assert_true(is_used(&u));
	for (size_t i = 0; i < n; i++) {
		if (!pyfield_is_of(&row[i], table->version, table->free_threaded))
			continue;
		one_field(&u, &row[i]);
		for (size_t j = i + 1; j < n; j++)
			if (pyfield_is_of(&row[j], table->version, table->free_threaded) &&
			    is_of_one_struct(&row[i], &row[j]))
				two_fields(&u, &row[i], &row[j]);
	}
	unmake(&u);
	return u.taken;
}

static void what_is_read_by_a_layout_has_room(void **state)
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);
	uint32_t taken = 0;

	for (size_t i = 0; i < n; i++)
		taken += each_field(all[i]);
	for (uint16_t v = 0x030d; pylayout_find_free_threaded(v); v++)
		taken += each_field(pylayout_find_free_threaded(v));
	assert_true(taken > TAKEN_MIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read_by_a_layout_has_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
