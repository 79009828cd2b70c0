/* SPDX-License-Identifier: MIT
 *
 * pystack_holes_test - memory that can't be read for a moment, wherever it is: what is said of
 * the stack is true or nothing, and once it is there again all is as before.
 */
#include "unit.h"
#include "pystack_fix.h"

enum { HOLE = 16, STEP = 16 }; /* bytes: a field or two */

static const char codes[] = "abcab", truth[] = "a3 b3 c3 a3 b3";

static void fill(struct fix *f)
{
	f->w->chunks[0] = (struct rmem_chunk){ WORLD_AT, WORLD_BYTES, f->w->mem };
	f->w->chunks[1] = (struct rmem_chunk){ 0 };
}

/* The next place from @at on where something stands; 0: none is left. */
static raddr something(struct fix *f, raddr at)
{
	static const unsigned char nothing[HOLE];

	for (; at < f->w->next; at += STEP)
		if (memcmp(world_mem(f->w, at), nothing, HOLE) != 0)
			return at;
	return 0;
}

static void expect_true_or_nothing(struct fix *f, raddr hole)
{
	struct pystack_result r = read_result(f);

	if (r.end == PYSTACK_OK && strcmp(text_of(f, r), truth) != 0)
		fail_msg("%x, hole at %#llx: %s", f->w->l.version,
			 (unsigned long long)(hole - WORLD_AT), text_of(f, r));
	if (r.end == PYSTACK_NOPYTHON)
		fail_msg("%x, hole at %#llx: no Python", f->w->l.version,
			 (unsigned long long)(hole - WORLD_AT));
}

/* Of a stack that is known by then. */
static void holes_later(struct fix *f)
{
	uint64_t id;

	stack(f, codes, NULL);
	assert_string_equal(read_stack(f), truth);
	id = f->last_id;
	for (raddr at = WORLD_AT; (at = something(f, at)); at += STEP) {
		world_hole(f->w, at, HOLE);
		expect_true_or_nothing(f, at);
		fill(f);
		assert_string_equal(read_stack(f), truth);
	}
	assert_in_range(f->last_id, id, MAX_IDS - 1);
}

/* Of one that nobody has read before. */
static void holes_first(struct fix *f)
{
	stack(f, codes, NULL);
	for (raddr at = WORLD_AT; (at = something(f, at)); at += STEP) {
		struct pystack *p = f->p;

		f->p = pystack_create(64, new_code, f);
		f->last_id = 0;
		world_hole(f->w, at, HOLE);
		expect_true_or_nothing(f, at);
		fill(f);
		assert_string_equal(read_stack(f), truth);
		pystack_destroy(f->p);
		f->p = p;
	}
}

static bool any_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct fix *f = arg;
	char name[8];

	assert_true(id > f->last_id && id < MAX_IDS);
	f->name[id] = pycode_name(c, name, sizeof(name)) == 1 ? name[0] : '?';
	f->last_id = id;
	return true;
}

/* Frames and code that are not true for a moment, as while they are written: they are not
 * believed any more once they are as before. */
static void damage(struct fix *f)
{
	const uint64_t values[] = { 0, 1, UINT64_MAX, WORLD_NOWHERE, WORLD_AT + 8 };

	pystack_destroy(f->p);
	f->p = pystack_create(64, any_code, f);
	stack(f, codes, NULL);
	assert_string_equal(read_stack(f), truth);
	for (raddr at = f->ts + f->w->l.tstate.size; (at = something(f, at)); at += 8)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			uint64_t was = load_u64(world_mem(f->w, at));

			memcpy(world_mem(f->w, at), &values[i], 8);
			read_result(f);
			memcpy(world_mem(f->w, at), &was, 8);
			if (strcmp(read_stack(f), truth) != 0)
				fail_msg("%x, %#llx at %#llx: %s", f->w->l.version,
					 (unsigned long long)values[i],
					 (unsigned long long)(at - WORLD_AT), read_stack(f));
		}
}

static void of_what_was_damaged(void **state)
{
	in_every_layout(damage);
}

static void of_what_is_known(void **state)
{
	in_every_layout(holes_later);
}

static void of_what_is_new(void **state)
{
	in_every_layout(holes_first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_what_is_known),
		cmocka_unit_test(of_what_is_new),
		cmocka_unit_test(of_what_was_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
