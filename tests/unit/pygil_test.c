/* SPDX-License-Identifier: MIT
 *
 * pygil: who holds the GIL, in worlds of both kinds; nothing is known of what contradicts
 * itself.
 */
#include <errno.h>

#include "unit.h"
#include "python/pygil.h"
#include "damage.h"

static const uint16_t versions[] = { 0x0309, 0x030a, 0x030b, 0x030c, 0x030d, 0x030e, 0x030f };

/* An interpreter with two threads, and its GIL. */
struct fixture {
	struct world *w;
	raddr interp, gil, first, second;
	struct pygil gils;
};

static void set_gil(struct fixture *f, raddr gil, int32_t locked, raddr holder)
{
	world_put(f->w, gil, f->w->l.gil.locked, (uint32_t)locked, 4);
	world_put(f->w, gil, f->w->l.gil.holder, holder, 8);
	world_put(f->w, gil, f->w->l.gil.switches, 7, 8);
}

/* What the interpreter says elsewhere. */
static void set_running(struct fixture *f, raddr ts)
{
	const uint64_t bit = f->w->l.active_bit ? 1u << f->w->l.active_bit : 0;

	world_put(f->w, f->w->runtime, f->w->l.runtime.current, ts, 8);
	world_put(f->w, f->first, f->w->l.tstate.status, ts == f->first ? bit : 0, 4);
	world_put(f->w, f->second, f->w->l.tstate.status, ts == f->second ? bit : 0, 4);
}

static struct fixture make(uint16_t version)
{
	struct fixture f = { .w = world_create(pylayout_find(version)) };

	f.interp = world_interp(f.w);
	f.first = world_thread(f.w, f.interp, 101, false);
	f.second = world_thread(f.w, f.interp, 102, false);
	f.gil = pyoff_has(f.w->l.runtime.gil) ? f.w->runtime + pyoff_get(f.w->l.runtime.gil) :
						world_take(f.w, f.w->l.gil.size);
	world_put(f.w, f.interp, f.w->l.interp.gil, f.gil, 8);
	set_gil(&f, f.gil, 0, f.first);
	assert_int_equal(pygil_add(&f.w->base, &f.w->l, &f.w->walk, f.w->runtime, &f.gils), 0);
	assert_int_equal(f.gils.n, 1);
	return f;
}

static struct damage damaged;

/* What was known before. */
struct known {
	struct fixture *f;
	uint64_t holder;
};

static int look_again(void *arg)
{
	const struct known *k = arg;
	struct pygil_look ret;
	int r = pygil_read(&k->f->w->base, &k->f->gils, 0, &ret);

	if (r == 0)
		return ret.holder == k->holder ? 0 : ret.holder ? 1 : 2;
	return r == -EAGAIN ? 3 : r == -EBADMSG ? 4 : r == -EFAULT ? 5 : 6;
}

static struct pygil_look look(struct fixture *f, int want)
{
	struct pygil_look ret;

	assert_int_equal(pygil_read(&f->w->base, &f->gils, 0, &ret), want);
	assert_int_equal(ret.known, want == 0);
	damage_reads(&damaged, f->w, look_again, &(struct known){ f, ret.holder });
	return ret;
}

static void the_holder_is_found(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fixture f = make(versions[i]);

		assert_int_equal(look(&f, 0).holder, 0);
		set_gil(&f, f.gil, 1, f.second);
		set_running(&f, f.second);
		assert_int_equal(look(&f, 0).holder, 102);
		assert_int_equal(look(&f, 0).switches, 7);
		set_gil(&f, f.gil, -1, f.first);
		set_running(&f, 0);
		assert_int_equal(look(&f, 0).holder, 0);
		free(f.w);
	}
}

/* Between taking it and saying so, and back: it may be anybody's. */
static void in_between_nobody_is_named(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fixture f = make(versions[i]);

		set_gil(&f, f.gil, 1, f.first);
		look(&f, -EAGAIN);
		set_running(&f, f.second);
		look(&f, -EAGAIN);
		if (pyoff_has(f.w->l.runtime.current)) {
			set_gil(&f, f.gil, 0, f.first);
			look(&f, -EAGAIN);
		}
		free(f.w);
	}
}

static void what_is_no_gil_is_not_believed(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fixture f = make(versions[i]);

		set_running(&f, f.first);
		set_gil(&f, f.gil, 2, f.first);
		look(&f, -EBADMSG);
		set_gil(&f, f.gil, -2, f.first);
		look(&f, -EBADMSG);
		set_gil(&f, f.gil, 1, 0);
		look(&f, -EBADMSG);
		set_gil(&f, f.gil, 0, 0);
		look(&f, -EBADMSG);
		set_gil(&f, f.gil, 0, 5000); /* microseconds */
		look(&f, -EBADMSG);
		set_gil(&f, f.gil, 1, f.first);
		world_put(f.w, f.first, f.w->l.tstate.interp, 0, 8);
		look(&f, -EAGAIN);
		free(f.w);
	}
}

/* A state without a thread's number holds it: nobody can be named. */
static void a_holder_without_a_number_is_not_named(void **state)
{
	struct fixture f = make(0x030c);

	set_gil(&f, f.gil, 1, f.first);
	set_running(&f, f.first);
	world_put(f.w, f.first, f.w->l.tstate.native_tid, 0, 8);
	look(&f, -EBADMSG);
	free(f.w);
}

static void each_gil_is_found_once(void **state)
{
	struct fixture f = make(0x030c);
	raddr other = world_take(f.w, 256), interp;
	struct pygil_look ret;

	interp = world_interp(f.w);
	world_put(f.w, interp, f.w->l.interp.gil, f.gil, 8);
	interp = world_interp(f.w);
	world_put(f.w, interp, f.w->l.interp.gil, other, 8);
	world_interp(f.w); /* has none yet */
	assert_int_equal(pygil_add(&f.w->base, &f.w->l, &f.w->walk, f.w->runtime, &f.gils), 0);
	assert_int_equal(f.gils.n, 2);
	/* The first's states do not hold the second. */
	set_running(&f, f.first);
	set_gil(&f, other, 1, f.first);
	assert_int_equal(pygil_read(&f.w->base, &f.gils, 1, &ret), -EAGAIN);
	for (int i = 0; i < PYGIL_MAX; i++)
		world_put(f.w, world_interp(f.w), f.w->l.interp.gil, world_take(f.w, 256), 8);
	assert_int_equal(pygil_add(&f.w->base, &f.w->l, &f.w->walk, f.w->runtime, &f.gils),
			 -ELOOP);
	free(f.w);
}

static void who_waits_sleeps_in_it(void **state)
{
	struct fixture f = make(0x030d);
	const raddr end = f.gil + f.w->l.gil.size;

	assert_true(pygil_waits(&f.gils, f.gil));
	assert_true(pygil_waits(&f.gils, end - 1));
	assert_false(pygil_waits(&f.gils, f.gil - 1));
	assert_false(pygil_waits(&f.gils, end));
	assert_false(pygil_waits(&f.gils, 0));
	f.w->l.gil.size = 0;
	assert_false(pygil_waits(&f.gils, f.gil));
	free(f.w);
}

static bool sleeps(const struct fixture *f, raddr ts, raddr at)
{
	return pygil_sleeps(&f->w->base, &f->w->l, pygil_runtime(&f->w->l, &f->w->walk), ts, at);
}

static void a_state_waits_for_its_own_gil(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fixture f = make(versions[i]);
		const raddr end = f.gil + f.w->l.gil.size;

		assert_true(sleeps(&f, f.first, f.gil));
		assert_true(sleeps(&f, f.first, end - 1));
		assert_false(sleeps(&f, f.first, f.gil - 1));
		assert_false(sleeps(&f, f.first, end));
		assert_false(sleeps(&f, 0, f.gil));
		f.w->l.free_threaded = true;
		assert_false(sleeps(&f, f.first, f.gil));
		free(f.w);
	}
}

static void where_it_is_not_told_there_is_none(void **state)
{
	const struct pylayout *old = pylayout_find(0x0306), *two = pylayout_find(0x0207);
	struct fixture f = make(0x030d);
	struct pygil gils = { 0 };

	assert_int_equal(pygil_add(&f.w->base, old, &f.w->walk, f.w->runtime, &gils),
			 -ENOTSUP);
	assert_int_equal(pygil_add(&f.w->base, two, &f.w->walk, f.w->runtime, &gils),
			 -ENOTSUP);
	f.w->l.free_threaded = true;
	assert_int_equal(pygil_add(&f.w->base, &f.w->l, &f.w->walk, f.w->runtime, &gils),
			 -ENOTSUP);
	free(f.w);
}

static enum pygil_has has(const struct fixture *f, raddr ts)
{
	return pygil_has(&f->w->base, &f->w->l, pygil_runtime(&f->w->l, &f->w->walk), ts);
}

static void a_held_thread_has_it_or_not(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct fixture f = make(versions[i]);

		assert_int_equal(has(&f, f.first), PYGIL_HAS_NOT);
		set_gil(&f, f.gil, 1, f.second);
		set_running(&f, f.second);
		assert_int_equal(has(&f, f.first), PYGIL_HAS_NOT);
		assert_int_equal(has(&f, f.second), PYGIL_HAS);
		/* The first has taken it, and has not said so yet; or the second is about to
		 * give it away. */
		set_running(&f, 0);
		assert_int_equal(has(&f, f.first), PYGIL_HAS_NOT);
		assert_int_equal(has(&f, f.second), PYGIL_UNKNOWN);
		set_running(&f, f.first);
		assert_int_equal(has(&f, f.second), PYGIL_UNKNOWN);
		set_gil(&f, f.gil, -1, f.first);
		assert_int_equal(has(&f, f.first), PYGIL_HAS_NOT);
		set_gil(&f, f.gil, 2, f.first);
		assert_int_equal(has(&f, f.first), PYGIL_UNKNOWN);
		free(f.w);
	}
}

static void of_no_state_nothing_is_known(void **state)
{
	struct fixture f = make(0x030c);

	set_gil(&f, f.gil, 1, f.first);
	set_running(&f, f.first);
	assert_int_equal(has(&f, 0), PYGIL_UNKNOWN);
	assert_int_equal(has(&f, WORLD_NOWHERE), PYGIL_UNKNOWN);
	world_put(f.w, f.interp, f.w->l.interp.gil, 0, 8);
	assert_int_equal(has(&f, f.first), PYGIL_UNKNOWN);
	world_put(f.w, f.interp, f.w->l.interp.gil, f.gil, 8);
	assert_int_equal(has(&f, f.first), PYGIL_HAS);
	f.w->l.free_threaded = true;
	assert_int_equal(has(&f, f.first), PYGIL_UNKNOWN);
	free(f.w);
}

/* Of all looks above. */
static void damage(void **state)
{
	damage_expect(&damaged,
		      (uint64_t[DAMAGE_ENDS]){ 1054, 148, 32, 1527, 1595, 264, 0, 0 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_holder_is_found),
		cmocka_unit_test(in_between_nobody_is_named),
		cmocka_unit_test(what_is_no_gil_is_not_believed),
		cmocka_unit_test(a_holder_without_a_number_is_not_named),
		cmocka_unit_test(each_gil_is_found_once),
		cmocka_unit_test(who_waits_sleeps_in_it),
		cmocka_unit_test(a_state_waits_for_its_own_gil),
		cmocka_unit_test(where_it_is_not_told_there_is_none),
		cmocka_unit_test(a_held_thread_has_it_or_not),
		cmocka_unit_test(of_no_state_nothing_is_known),
		cmocka_unit_test(damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
