/* SPDX-License-Identifier: MIT
 *
 * pystack_calls_test - how many calls the reads of a thread take whose stack stays as it is.
 */
#include "unit.h"
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

/* What a read of thread TID + @i, which bears @number, finds; and whether that took a search. */
static const char *read_other(struct fix *f, int i, pid_t number, bool *searched)
{
	struct pystack_result r;

	f->w->calls = 0;
	r = pystack_read(f->p, &f->t, &f->w->base, TID + i, number);
	*searched = f->w->calls > MANY / 2;
	return r.end == PYSTACK_OK ? "frames" : text_of(f, r);
}

/* Who was searched for among many says who the others are, as long as they are; and who none of
 * them is. */
static void many(struct fix *f)
{
	const pid_t number = 99; /* of the first, which among_many() gives it */
	raddr other = f->ts;
	bool searched;

	stack(f, "b", NULL);
	among_many(f);
	stack(f, "a", NULL);
	assert_string_equal(read_other(f, 50, 8, &searched), "nopython");
	assert_true(searched);
	assert_string_equal(read_other(f, 0, INNER, &searched), "frames");
	assert_false(searched);
	assert_string_equal(read_other(f, 1, number, &searched), "frames");
	assert_false(searched);
	assert_string_equal(read_other(f, 2, 9, &searched), "nopython");
	assert_int_equal(searched, !f->w->l.owner_shim); /* 3.11: another may become its own */
	/* What was met is not read again for who is known. */
	expect_one_call_each(f, "a3");
	/* Another's by now. */
	world_put(f->w, other, f->w->l.tstate.native_tid, 10, 8);
	assert_string_equal(read_other(f, 3, number, &searched), "nopython");
	assert_true(searched);
	assert_string_equal(read_other(f, 4, 10, &searched), "frames");
	assert_false(searched);
	/* A new one, which nobody has met. */
	f->ts = world_thread(f->w, f->interp, 11, true);
	stack(f, "c", NULL);
	assert_string_equal(read_other(f, 5, 11, &searched), "frames");
	assert_true(searched);
}

static void many_are_met_by_one_search(void **state)
{
	in_every_layout(many);
}

/* The state that bears @number has a stack of function @code. */
static raddr give_stack(struct fix *f, uint64_t number, const char *code)
{
	f->ts = world_get(f->w, f->interp, f->w->l.interp.threads_head);
	while (world_get(f->w, f->ts, f->w->l.tstate.native_tid) != number)
		f->ts = world_get(f->w, f->ts, f->w->l.tstate.next);
	stack(f, code, NULL);
	return f->ts;
}

static void expect_frames(struct fix *f, int i, pid_t number, bool by_search)
{
	bool searched;

	assert_string_equal(read_other(f, i, number, &searched), "frames");
	assert_int_equal(searched, by_search);
}

/* A search ends where it has found whom it wants: those before are known then, others are not. Of
 * two the longer one is kept, unless it was of another program. */
static void some(struct fix *f)
{
	f->w->chunk = 8192;
	among_many(f);
	for (uint64_t number = 117; number < 122; number++)
		give_stack(f, number, "a");
	expect_frames(f, 0, 120, true);
	expect_frames(f, 1, 119, false);
	world_put(f->w, give_stack(f, 118, "a"), f->w->l.tstate.native_tid, 98, 8);
	expect_frames(f, 2, 98, true);
	expect_frames(f, 3, 120, false);
	expect_frames(f, 4, 121, true);
	expect_frames(f, 5, 121, false);
	f->t.program++;
	expect_frames(f, 6, 119, true);
	expect_frames(f, 7, 117, false);
	expect_frames(f, 8, 121, true);
}

static void those_before_it_are_met(void **state)
{
	in_every_layout(some);
}

/* What is met in one process is not what was met in another. */
static void two(struct fix *f)
{
	const struct pystack_target first = f->t;
	bool searched;
	raddr at;

	f->w->chunk = 8192;
	among_many(f);
	at = give_stack(f, 119, "a");
	assert_string_equal(read_other(f, 0, 8, &searched), "nopython");
	assert_true(searched);
	f->t.pid++;
	f->t.program++;
	world_put(f->w, at, f->w->l.tstate.native_tid, 98, 8);
	assert_string_equal(read_other(f, 1, 8, &searched), "nopython");
	assert_true(searched);
	expect_frames(f, 2, 98, false);
	f->t = first;
	world_put(f->w, at, f->w->l.tstate.native_tid, 119, 8);
	expect_frames(f, 3, 119, false);
}

static void two_processes_are_met(void **state)
{
	in_every_layout(two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_planned),
		cmocka_unit_test(who_is_idle_is_not_searched_for),
		cmocka_unit_test(many_are_met_by_one_search),
		cmocka_unit_test(those_before_it_are_met),
		cmocka_unit_test(two_processes_are_met),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
