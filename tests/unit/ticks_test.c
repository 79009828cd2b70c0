/* SPDX-License-Identifier: MIT
 *
 * ticks - what targets use, by looks at them, whoever ends and is waited for.
 */
#include <stdlib.h>

#include "unit.h"
#include "record/ticks.h"

enum { FIRST = 100, A = 1, B, C, D };

/* Process, parent, own, of its children. */
struct use {
	pid_t pid, parent;
	uint64_t own, children;
	uint64_t begun;
	bool unread;
};

#define LOOK(t, ...)                                                                          \
	look(t, (const struct use[]){ __VA_ARGS__ },                                          \
	     sizeof((const struct use[]){ __VA_ARGS__ }) / sizeof(struct use))

static struct proc_use use_of(const struct use *u)
{
	return (struct proc_use){ .parent = u->parent,
				  .own = { u->own, 2 * u->own },
				  .children = { u->children, 2 * u->children },
				  .begun = u->begun };
}

/* What was used by then, in user mode: in the kernel it is twice that. */
static int look(struct ticks *t, const struct use *use, size_t n)
{
	struct ticks_row *row = calloc(n, sizeof(*row));

	for (size_t i = 0; i < n; i++)
		row[i] = (struct ticks_row){ .pid = use[i].pid,
					     .unread = use[i].unread,
					     .use = use_of(&use[i]) };
	ticks_look(t, row, n);
	assert_int_equal(t->used.kernel, 2 * t->used.user);
	return (int)t->used.user;
}

/* A with 100 ticks, and B, its child, with 1,000 from before the recording. */
static void begin(struct ticks *t)
{
	*t = (struct ticks){ 0 };
	LOOK(t, { B, A, 1000 }, { A, 0, FIRST });
	ticks_begin(t);
}

static void what_is_from_before_does_not_count(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1000 }), 0);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 5 }, { B, A, 1010 }), 15);
	ticks_deinit(&t);
}

/* Its parent is told of all that it ever used. */
static void who_ends_and_is_waited_for(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1010 }), 10);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 1, 1013 }), 14);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 2, 1013 }), 15);
	ticks_deinit(&t);
}

/* A zombie is no target any more. */
static void who_is_waited_for_later(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 1 }), 1);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 2 }), 2);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 3, 1007 }), 10);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 3, 1057 }), 60);
	ticks_deinit(&t);
}

/* What others use from then on counts at once. */
static void who_is_waited_for_by_nobody(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 7 }), 7);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 8 }), 8);
	ticks_deinit(&t);
}

static void born_and_ended_between_two_looks(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST, 30 }, { B, A, 1000 }), 30);
	ticks_deinit(&t);
}

static void born(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1000 }, { C, B, 20 }), 20);
	/* C's and B's end, of which A alone is told; D came and went. */
	assert_int_equal(LOOK(&t, { A, 0, FIRST, 1000 + 25 + 4 }), 29);
	ticks_deinit(&t);
}

static void who_joins(void **state)
{
	struct use joined = { D, 0, 500 };
	struct proc_use use = use_of(&joined);
	struct ticks t;

	begin(&t);
	assert_int_equal(ticks_known(&t, D, &use), 0);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1000 }, { D, 0, 502 }), 2);
	/* Known before as something else. */
	use.own = (struct cpu_ticks){ 600, 1200 };
	assert_int_equal(ticks_known(&t, D, &use), 0);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1000 }, { D, 0, 603 }), 5);
	ticks_deinit(&t);
}

static void another_of_its_number(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST, 1002 }, { B, A, 3, .begun = 9 }), 5);
	assert_int_equal(LOOK(&t, { A, 0, FIRST, 1002 }, { B, A, 4, .begun = 9 }), 6);
	ticks_deinit(&t);
}

static void who_sleeps_is_not_read(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, .unread = true }), 0);
	assert_int_equal(LOOK(&t, { A, 0, FIRST, 1000 }), 0);
	ticks_deinit(&t);
}

/* What it had used before the recording is found when it can be read. */
static void who_can_not_be_read_at_first(void **state)
{
	struct ticks t = { 0 };

	LOOK(&t, { A, 0, FIRST }, { D, .unread = true });
	ticks_begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 1 }, { D, .unread = true }), 1);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 1 }, { D, 0, 500, 70, .begun = 3 }), 1);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 1 }, { D, 0, 503, 74, .begun = 3 }), 8);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 1 }, { D, 0, 2, .begun = 9 }), 10);
	ticks_deinit(&t);
}

/* Of one that was born meanwhile all counts. */
static void who_can_not_be_read_later(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, .unread = true }, { B, A, 1001 },
			      { C, .unread = true }),
			 1);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 3, 5 }, { B, A, 1001 },
			      { C, B, 20, .begun = 3 }),
			 29);
	ticks_deinit(&t);
}

static void who_joins_and_can_not_be_read(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(ticks_known(&t, D, NULL), 0);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1000 }, { D, 0, 500, .begun = 3 }), 0);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1000 }, { D, 0, 502, .begun = 3 }), 2);
	/* Known before as something else: what it used until it can be read does not count. */
	assert_int_equal(ticks_known(&t, D, NULL), 0);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1000 }, { D, 0, 600, .begun = 3 }), 2);
	assert_int_equal(LOOK(&t, { A, 0, FIRST }, { B, A, 1000 }, { D, 0, 603, .begun = 3 }), 5);
	ticks_deinit(&t);
}

/* What a parent is told of children of which some are no targets does not count, nor what was
 * counted of it before that was known. */
static void who_has_strange_children(void **state)
{
	struct ticks t;

	begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 1, 200 }, { B, A, 1001, 7 }), 209);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 1, 230 }, { B, A, 1001, 8 }), 240);
	assert_true(ticks_strange(&t, A));
	assert_false(ticks_strange(&t, A));
	assert_int_equal(t.used.user, 10);
	assert_int_equal(t.used.kernel, 20);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 2, 2000 }, { B, A, 1001, 8 }), 11);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 3, 9000 }), 12); /* B's, too */
	assert_true(ticks_strange(&t, D)); /* it is not known yet */
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 3, 9000 }, { D, 0, 1, 500 }), 13);
	ticks_deinit(&t);
}

/* What it was told of children before the recording was not counted. */
static void who_had_children_before(void **state)
{
	struct ticks t = { 0 };

	LOOK(&t, { A, 0, FIRST, 5000 });
	ticks_begin(&t);
	assert_int_equal(LOOK(&t, { A, 0, FIRST + 10, 5007 }), 17);
	assert_true(ticks_strange(&t, A));
	assert_int_equal(t.used.user, 10);
	assert_int_equal(t.used.kernel, 20);
	ticks_deinit(&t);
}

/* They are forgotten when they have ended, and there are many. */
static void many_that_had_strange_children(void **state)
{
	struct ticks t;

	begin(&t);
	ticks_strange(&t, A);
	for (pid_t pid = 1000; pid < 9000; pid++)
		assert_true(ticks_strange(&t, pid));
	LOOK(&t, { A, 0, FIRST }, { B, A, 1000 });
	assert_false(ticks_strange(&t, A));
	assert_true(ticks_strange(&t, 1000));
	ticks_deinit(&t);
}

/* Parents that go round end. */
static void parents_in_a_circle(void **state)
{
	struct ticks t = { 0 };

	LOOK(&t, { A, B, 1 }, { B, A, 1 });
	assert_int_equal(LOOK(&t, { C, 0, 1 }), 3);
	ticks_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_from_before_does_not_count),
		cmocka_unit_test(who_ends_and_is_waited_for),
		cmocka_unit_test(who_is_waited_for_later),
		cmocka_unit_test(who_is_waited_for_by_nobody),
		cmocka_unit_test(born_and_ended_between_two_looks),
		cmocka_unit_test(born),
		cmocka_unit_test(who_joins),
		cmocka_unit_test(another_of_its_number),
		cmocka_unit_test(who_sleeps_is_not_read),
		cmocka_unit_test(who_can_not_be_read_at_first),
		cmocka_unit_test(who_can_not_be_read_later),
		cmocka_unit_test(who_joins_and_can_not_be_read),
		cmocka_unit_test(who_has_strange_children),
		cmocka_unit_test(who_had_children_before),
		cmocka_unit_test(many_that_had_strange_children),
		cmocka_unit_test(parents_in_a_circle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
