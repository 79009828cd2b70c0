/* SPDX-License-Identifier: MIT
 *
 * target: published targets are found, replaced and removed, also while others look.
 */
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "base/clock.h"
#include "targets/target.h"

static struct target *publish(struct targets *t, pid_t pid)
{
	struct target *add = target_create(pid);

	assert_non_null(add);
	assert_int_equal(add->pid, pid);
	assert_int_equal(atomic_load(&add->state), TARGET_PENDING);
	assert_int_equal(targets_publish(t, &add, 1), 0);
	return add;
}

static void published_is_found(void **state)
{
	struct target *a, *b;
	struct targets t;

	assert_int_equal(targets_init(&t), 0);
	assert_null(targets_find(&t, 1));
	assert_null(targets_find(&t, 0));
	a = publish(&t, 1);
	b = publish(&t, 4000000);
	assert_ptr_equal(targets_find(&t, 1), a);
	assert_ptr_equal(targets_find(&t, 4000000), b);
	assert_null(targets_find(&t, 2));
	targets_deinit(&t);
}

/* The old one lives on, for a reader may still use it. */
static void replaced_and_removed(void **state)
{
	struct target *a, *b;
	struct targets t;

	assert_int_equal(targets_init(&t), 0);
	a = publish(&t, 7);
	publish(&t, 8);
	b = publish(&t, 7);
	assert_ptr_equal(targets_find(&t, 7), b);
	assert_int_equal(a->pid, 7);
	assert_int_equal(t.n, 2);
	targets_remove(&t, 7);
	assert_null(targets_find(&t, 7));
	assert_non_null(targets_find(&t, 8));
	targets_remove(&t, 99); /* was never there */
	assert_int_equal(t.n, 1);
	assert_int_equal(t.n_all, 3);
	targets_deinit(&t);
}

static void many(void **state)
{
	enum { N = 500 };
	struct target *all[N];
	struct targets t;

	assert_int_equal(targets_init(&t), 0);
	for (int i = 0; i < N; i++)
		all[i] = publish(&t, 1 + i * 16); /* near each other in the table */
	for (int i = 0; i < N; i++)
		assert_ptr_equal(targets_find(&t, 1 + i * 16), all[i]);
	for (int i = 0; i < N; i += 2)
		targets_remove(&t, 1 + i * 16);
	for (int i = 0; i < N; i++) {
		assert_ptr_equal(targets_find(&t, 1 + i * 16), i % 2 ? all[i] : NULL);
		assert_null(targets_find(&t, 2 + i * 16));
	}
	targets_deinit(&t);
}

struct look {
	struct targets *t;
	struct epoch_user user;
	_Atomic bool stop;
	unsigned long seen, wrong;
};

static void *look(void *arg)
{
	struct look *l = arg;

	while (!atomic_load(&l->stop)) {
		struct target *always, *p;

		epoch_enter(&l->t->epoch, &l->user);
		always = targets_find(l->t, 1);
		p = targets_find(l->t, 2);
		l->seen += p != NULL;
		l->wrong += !always || always->pid != 1 || (p && p->pid != 2);
		epoch_leave(&l->user);
	}
	return NULL;
}

static void found_while_others_change(void **state)
{
	struct targets t;
	struct look l = { .t = &t };
	pthread_t thread;

	assert_int_equal(targets_init(&t), 0);
	epoch_join(&t.epoch, &l.user);
	publish(&t, 1);
	assert_int_equal(pthread_create(&thread, NULL, look, &l), 0);
	for (int i = 0; i < 10 * TARGETS_RETIRED; i++) {
		publish(&t, 2);
		publish(&t, 3 + i % 50);
		targets_remove(&t, 2);
		targets_reap(&t);
	}
	atomic_store(&l.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(l.wrong, 0);
	/* However long it looked, and held what was retired, nobody does now. */
	for (int i = 0; i < 2 * TARGETS_RETIRED; i++) {
		publish(&t, 2);
		targets_reap(&t);
	}
	assert_true(t.n_all < 20 * TARGETS_RETIRED);
	targets_deinit(&t);
}

/* What is published, replaced and removed for ever takes no more memory; who holds what was
 * found keeps it. */
static void retired_are_freed(void **state)
{
	enum { TURNS = 20 * TARGETS_RETIRED, STAY = 300 };
	struct epoch_user user = { 0 };
	struct target *held, *seen;
	size_t tables = 0, most = 0;
	struct targets t;

	assert_int_equal(targets_init(&t), 0);
	epoch_join(&t.epoch, &user);
	for (pid_t pid = 1; pid <= STAY; pid++)
		publish(&t, pid);
	held = publish(&t, STAY + 1);
	targets_hold(held, 1);
	publish(&t, STAY + 1);
	publish(&t, STAY + 1);
	seen = publish(&t, STAY + 2);
	for (int i = 0; i < TURNS; i++) {
		pid_t pid = 1000 + i % 5000;

		if (i == TURNS / 2) {
			epoch_enter(&t.epoch, &user);
			assert_ptr_equal(targets_find(&t, STAY + 2), seen);
			targets_remove(&t, STAY + 2);
		}
		if (i == TURNS * 3 / 4) {
			assert_int_equal(seen->pid, STAY + 2);
			assert_true(t.n_all > TURNS / 4); /* it may hold them, too */
			epoch_leave(&user);
		}
		publish(&t, pid);
		targets_remove(&t, pid);
		targets_reap(&t);
		if (i < TURNS / 2)
			most = t.n_all > most ? t.n_all : most;
	}
	assert_true(most <= STAY + 4 + 2 * TARGETS_RETIRED);
	assert_true(t.n_all <= STAY + 4 + 2 * TARGETS_RETIRED);
	assert_true(t.n_all >= STAY + TARGETS_RETIRED); /* the newest are kept */
	assert_int_equal(t.n, STAY + 1);
	assert_int_equal(held->pid, STAY + 1);
	assert_null(atomic_load(&held->next)); /* nobody held that one */
	for (struct target_table *tab = atomic_load(&t.table); tab; tab = tab->older)
		tables++;
	assert_true(tables <= 3);
	assert_true(atomic_load(&t.table)->mask < 16 * STAY);
	assert_ptr_equal(targets_latest(&t, 1000 + (TURNS - 1) % 5000),
			 t.all[t.n_all - 1]); /* ended just now */
	targets_deinit(&t);
}

/* What was published later tells of the time since its own beginning. */
static void had_none(void **state)
{
	struct target *a, *b;
	struct targets t;

	assert_int_equal(targets_init(&t), 0);
	a = publish(&t, 7);
	a->none_ns = 10;
	assert_true(target_had_none(a, 10));
	assert_false(target_had_none(a, 11));
	b = target_create(7);
	b->begun_ns = 20;
	assert_int_equal(targets_publish(&t, &b, 1), 0);
	assert_true(target_had_none(a, 10));
	assert_false(target_had_none(a, 15));
	assert_false(target_had_none(a, 20)); /* nobody has looked yet */
	atomic_store(&b->none_ns, 30);
	assert_true(target_had_none(a, 20));
	assert_true(target_had_none(b, 30));
	assert_false(target_had_none(b, 10)); /* before it began */
	assert_false(target_had_none(b, 31));
	targets_remove(&t, 7);
	assert_true(target_had_none(a, 25)); /* gone, and still known */
	targets_deinit(&t);
}

/* A process that waits for its end, with the number @pid if that is not 0. */
static pid_t start(pid_t pid)
{
	struct clone_args a = { .exit_signal = SIGCHLD,
				.set_tid = pid ? (uintptr_t)&pid : 0,
				.set_tid_size = pid != 0 };
	pid_t got = (pid_t)syscall(SYS_clone3, &a, sizeof(a));

	while (got == 0)
		pause();
	return got;
}

static void end(pid_t pid)
{
	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void number_is_taken_over(void **state)
{
	uint64_t began = now_ns();
	pid_t pid = start(0), taken;
	struct target *target;
	struct targets t;

	assert_int_equal(targets_init(&t), 0);
	target = publish(&t, pid);
	assert_false(target_left(target, pid, now_ns())); /* none is held yet */
	assert_true(pid > 1);
	targets_open(&t, target);
	assert_true(target->pidfd >= 0);
	assert_false(target_left(target, pid, began));
	end(pid);
	assert_true(target_left(target, pid, began));
	assert_true(target_left(NULL, pid, began));
	taken = start(pid);
	if (taken < 0) /* it takes rights, or somebody was faster */
		skip();
	assert_int_equal(taken, pid);
	assert_true(target_left(target, pid, began));
	assert_false(target_left(publish(&t, pid), pid, now_ns()));
	end(pid);
	targets_deinit(&t);
}

/* None is held of what was retired, even if much of that is kept. */
static void descriptors_are_closed(void **state)
{
	pid_t pid = start(0);
	struct targets t;

	assert_int_equal(targets_init(&t), 0);
	for (int i = 0; i < 100; i++) {
		targets_open(&t, publish(&t, pid));
		targets_reap(&t);
		assert_true(t.n_pidfds >= 1 && t.n_pidfds <= 33);
	}
	assert_true(targets_find(&t, pid)->pidfd >= 0);
	assert_int_equal(t.n_all, 100);
	end(pid);
	targets_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_is_found),
		cmocka_unit_test(replaced_and_removed),
		cmocka_unit_test(many),
		cmocka_unit_test(found_while_others_change),
		cmocka_unit_test(retired_are_freed),
		cmocka_unit_test(had_none),
		cmocka_unit_test(number_is_taken_over),
		cmocka_unit_test(descriptors_are_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
