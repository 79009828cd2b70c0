/* SPDX-License-Identifier: MIT
 *
 * pystack_calls_test - how many calls the reads of a thread take whose stack stays as it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pystack_fix.h"

enum { OFTEN = 12, /* longer than what no walk touches is kept in the plan */
       MANY = 32 };

/* After the first two each read takes one call. */
static void expect_one_call_each(struct fix *f, const char *want)
{
	for (int i = 0; i < OFTEN; i++) {
		assert_string_equal(read_stack(f), want);
		if (i > 1)
			assert_int_equal(1, f->w->calls);
	}
}

/* The frames @codes stand in copies of their bytecode, each at unit 4 of copy 2. */
static void stand_in_copies(struct fix *f, const char *codes)
{
	stack(f, codes, NULL);
	for (size_t i = 0; codes[i]; i++) {
		raddr list = world_copies(f->w, code_of(f, codes[i]), 3);
		raddr copy = world_take(f->w, 2 * UNITS);

		world_take(f->w, 8192); /* lists are far from each other */
		world_put(f->w, list + 8 * 3, (pyoff)AT(0), copy, 8);
		world_put(f->w, f->w->frame[i], f->w->l.frame.instr, copy + 2 * 4, 8);
		world_put(f->w, f->w->frame[i], f->w->l.frame.tlbc_index, 2, 4);
	}
}

/* Where the target counts its code objects nobody reads a code again, but its list of copies. */
static void copies_are_planned(void **state)
{
	for (uint16_t v = 0x030e; v <= 0x030f; v++)
		for (int counts = 0; counts < 2; counts++) {
			struct fix *f = fix_create_for(pylayout_find_free_threaded(v), 100);

			if (counts)
				f->count = f->t.code_versions = world_take(f->w, 16);
			stand_in_copies(f, "abc");
			expect_one_call_each(f, "a4 b4 c4");
			fix_destroy(f);
		}
}

/* Ours is the last of many states, each far from the others. */
static void among_many(struct fix *f)
{
	world_put(f->w, f->ts, f->w->l.tstate.native_tid, 99, 8);
	for (uint64_t i = 0; i < MANY; i++) {
		world_take(f->w, 8192);
		f->ts = world_thread(f->w, f->interp, i + 1 < MANY ? 100 + i : INNER, true);
	}
	world_take(f->w, 8192);
}

/* A state that was suggested and has no frame: as no state was made or freed since, it is the
 * thread's still, and nobody searches for another. */
static void idle(struct fix *f)
{
	uint64_t unique;

	among_many(f);
	stack(f, "", NULL);
	assert_int_equal(0, pyframe_threads_unique(&f->w->base, &f->w->walk, &unique));
	pystack_suggest(f->p, &f->t, TID, INNER, f->ts, unique);
	for (int i = 0; i < OFTEN; i++) {
		assert_string_equal(read_stack(f), "nopython");
		assert_in_range(f->w->calls, 1, MANY / 2);
	}
	world_thread(f->w, f->interp, 8, true);
	assert_string_equal(read_stack(f), "nopython");
	assert_in_range(f->w->calls, MANY, 4 * MANY);
}

static void who_is_idle_is_not_searched_for(void **state)
{
	in_every_layout(idle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_planned),
		cmocka_unit_test(who_is_idle_is_not_searched_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
