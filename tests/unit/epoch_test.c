/* SPDX-License-Identifier: MIT
 *
 * epoch: what a user may still hold is not freed, also while many enter, look and leave.
 */
#include <pthread.h>
#include <stdlib.h>

#include "unit.h"
#include "base/epoch.h"

static void nobody_holds(void **state)
{
	struct epoch e;

	epoch_init(&e);
	assert_int_equal(epoch_safe(&e, NULL), 1);
	assert_int_equal(epoch_retire(&e), 2);
	assert_int_equal(epoch_retire(&e), 3);
	assert_int_equal(epoch_safe(&e, NULL), 3);
}

static void who_is_in_holds_what_is_retired_later(void **state)
{
	struct epoch_user a = { 0 }, b = { 0 };
	struct epoch e;

	epoch_init(&e);
	epoch_join(&e, &a);
	epoch_join(&e, &b);
	epoch_join(&e, &a); /* once more is nothing */
	epoch_retire(&e);
	epoch_enter(&e, &a);
	epoch_retire(&e);
	epoch_enter(&e, &b);
	epoch_retire(&e);
	epoch_enter(&e, &a); /* in already */
	assert_int_equal(epoch_safe(&e, NULL), 2);
	assert_int_equal(epoch_safe(&e, &a), 3);
	epoch_leave(&a);
	assert_int_equal(epoch_safe(&e, NULL), 3);
	epoch_move(&b, 4);
	assert_int_equal(epoch_safe(&e, NULL), 4);
	epoch_leave(&b);
	epoch_retire(&e);
	assert_int_equal(epoch_safe(&e, NULL), 5);
}

enum { READERS = 3, TURNS = 20000, KEPT = 64, GONE = 0xdead };

struct object {
	_Atomic uint32_t value;
	uint64_t retired;
};

struct world {
	struct epoch epoch;
	_Atomic(struct object *) shared;
	_Atomic bool stop;
	_Atomic uint64_t looks, wrong;
};

struct reader {
	struct world *w;
	struct epoch_user user;
	pthread_t thread;
};

static void *look(void *arg)
{
	struct reader *r = arg;

	while (!atomic_load(&r->w->stop)) {
		const struct object *o;

		epoch_enter(&r->w->epoch, &r->user);
		o = atomic_load(&r->w->shared);
		for (int i = 0; i < 10; i++)
			if (atomic_load_explicit(&o->value, memory_order_relaxed) == GONE)
				atomic_fetch_add(&r->w->wrong, 1);
		epoch_leave(&r->user);
		atomic_fetch_add(&r->w->looks, 1);
	}
	return NULL;
}

static void end_of(struct object *o)
{
	atomic_store_explicit(&o->value, GONE, memory_order_relaxed);
	free(o);
}

static struct object *object_create(void)
{
	struct object *o = calloc(1, sizeof(*o));

	assert_non_null(o);
	return o;
}

/* Objects are freed all the time: a thread sanitizer sees who still looks. */
static void freed_while_others_look(void **state)
{
	struct world w = { .stop = false };
	struct reader readers[READERS] = { 0 };
	struct object *kept[KEPT] = { 0 };
	size_t freed = 0;

	epoch_init(&w.epoch);
	atomic_store(&w.shared, object_create());
	for (size_t i = 0; i < READERS; i++) {
		readers[i].w = &w;
		epoch_join(&w.epoch, &readers[i].user);
		assert_int_equal(pthread_create(&readers[i].thread, NULL, look, &readers[i]),
				 0);
	}
	for (size_t i = 0; i < TURNS || atomic_load(&w.looks) < TURNS; i++) {
		struct object *old = atomic_exchange(&w.shared, object_create());
		struct object **place = &kept[i % KEPT];

		old->retired = epoch_retire(&w.epoch);
		while (*place && (*place)->retired > epoch_safe(&w.epoch, NULL))
			;
		freed += *place != NULL;
		if (*place)
			end_of(*place);
		*place = old;
	}
	atomic_store(&w.stop, true);
	for (size_t i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
	for (size_t i = 0; i < KEPT; i++)
		free(kept[i]);
	free(atomic_load(&w.shared));
	assert_int_equal(w.wrong, 0);
	assert_true(freed >= TURNS - KEPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_holds),
		cmocka_unit_test(who_is_in_holds_what_is_retired_later),
		cmocka_unit_test(freed_while_others_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
