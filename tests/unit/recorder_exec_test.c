/* SPDX-License-Identifier: MIT
 *
 * recorder_messages: who has become a program that must fit a scope by itself is no target any
 * more, whichever message tells of it first, and stays none when the others come. And a thread
 * that has ended keeps no events, whether a message tells of it or not.
 */
#include <sys/eventfd.h>
#include <unistd.h>

#include "unit.h"
#include "base/clock.h"
#include "base/stats.h"
#include "noted.h"
#include "record/recorder_int.h"
#include "targets/ours.h"

enum { FORKED_NS = 1000, EXECED_NS = 2000 };

struct fix {
	struct recorder r;
	struct session session;
	struct stats stats;
	struct cpu_slot slot;
	pid_t pid; /* a process that lives */
};

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));
	struct reader_config *c = &f->r.config;
	struct target *t;

	f->pid = getpid();
	f->r.session = &f->session;
	f->session.stats = &f->stats;
	f->r.o.follow = true;
	c->slots = &f->slot;
	c->n_slots = 1;
	c->kick = eventfd(0, EFD_NONBLOCK);
	c->births = births_create();
	c->ours = ours_create(NULL);
	c->strangers = ours_create(NULL);
	assert_non_null(c->births);
	assert_non_null(c->ours);
	assert_non_null(c->strangers);
	assert_int_equal(queue_init(&f->slot.ctl, 4096), 0);
	assert_int_equal(queue_init(&f->r.own, 1 << 20), 0);
	assert_int_equal(tracker_init(&f->r.tracker, c->kick), 0);
	f->r.tracker.births = c->births;
	t = target_create(f->pid);
	assert_non_null(t);
	t->begun_ns = FORKED_NS;
	assert_int_equal(targets_publish(&f->r.tracker.targets, &t, 1), 0);
	ours_set(c->ours, f->pid, true);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;
	struct reader_config *c = &f->r.config;

	tracker_deinit(&f->r.tracker);
	queue_deinit(&f->slot.ctl);
	queue_deinit(&f->r.own);
	ours_destroy(c->strangers);
	ours_destroy(c->ours);
	births_destroy(c->births);
	close(c->kick);
	free(f);
	return 0;
}

static void tell_of(struct fix *f, enum ctl_type type, pid_t pid, pid_t parent, uint64_t time)
{
	struct ctl_msg *m = queue_reserve(&f->slot.ctl, type, sizeof(*m));

	assert_non_null(m);
	*m = (struct ctl_msg){ .pid = pid, .ppid = parent, .ptid = parent, .time = time };
	queue_commit(&f->slot.ctl);
	recorder_take_messages(&f->r);
}

static void tell(struct fix *f, enum ctl_type type, uint64_t time)
{
	tell_of(f, type, f->pid, 1, time);
}

static void is_stranger(struct fix *f)
{
	assert_null(targets_find(&f->r.tracker.targets, f->pid));
	assert_false(ours_has(f->r.config.ours, f->pid));
}

static void is_target(struct fix *f)
{
	assert_non_null(targets_find(&f->r.tracker.targets, f->pid));
	assert_true(ours_has(f->r.config.ours, f->pid));
}

/* A message of @type and @time tells first, and that of the exec after it. */
static void told_by(struct fix *f, enum ctl_type type, uint64_t time)
{
	note_exec(f->r.config.births, f->pid, EXECED_NS);
	tell(f, type, time);
	is_stranger(f);
	tell(f, CTL_EXEC, EXECED_NS);
	is_stranger(f);
}

static void by_its_exec(void **state)
{
	told_by(*state, CTL_EXEC, EXECED_NS);
}

static void by_a_sample(void **state)
{
	told_by(*state, CTL_LOOK, EXECED_NS);
}

static void by_its_fork(void **state)
{
	told_by(*state, CTL_FORK, FORKED_NS);
}

static void by_who_began_it(void **state)
{
	told_by(*state, CTL_BEGUN, EXECED_NS);
}

/* A sample of the program that it still is. */
static void not_before_its_exec(void **state)
{
	struct fix *f = *state;

	tell(f, CTL_LOOK, EXECED_NS);
	is_target(f);
}

/* The exec of a process whose number is as far away as births are many looks like its own. */
static void not_by_anothers_exec(void **state)
{
	struct fix *f = *state;

	note_exec(f->r.config.births, f->pid + BIRTHS, EXECED_NS);
	assert_int_equal(births_execed(f->r.config.births, f->pid), EXECED_NS);
	tell(f, CTL_LOOK, EXECED_NS);
	is_target(f);
}

/* A daemon: its parent's end lies in another ring, and is told before its fork. */
static void of_who_has_ended(void **state)
{
	struct fix *f = *state;
	pid_t child = getppid();

	f->r.config.descends = true;
	note_exec(f->r.config.births, child, EXECED_NS);
	tracker_gone(&f->r.tracker, f->pid);
	tell_of(f, CTL_FORK, child, f->pid, FORKED_NS);
	assert_non_null(targets_find(&f->r.tracker.targets, child));
}

/* A reader knows it as a Python since its exec, of which another one tells later. */
static void adopted_before_its_exec_is_told(void **state)
{
	struct fix *f = *state;

	f->r.joins = (struct joins *)f; /* there are some; nobody is looked at */
	f->r.by_table = true;
	note_exec(f->r.config.births, f->pid, EXECED_NS);
	tell(f, CTL_LOOK, EXECED_NS);
	ours_set(f->r.config.ours, f->pid, true);
	tell(f, CTL_EXEC, EXECED_NS);
	tell(f, CTL_STRANGER, EXECED_NS);
	is_target(f);
}

/* With events of its own for each thread, one has ended; another one is born. */
static void an_end_that_is_not_told(void **state)
{
	enum { ENDED = 5000000 /* no number of the kernel's */ };
	struct fix *f = *state;
	struct attach *a = &f->r.attach;

	f->r.config.tell_threads = true;
	a->session = &f->session;
	a->attached = calloc(2, sizeof(*a->attached));
	a->attached[a->n_attached++].tid = f->pid;
	a->attached[a->n_attached++].tid = ENDED;
	tell_of(f, CTL_THREAD, f->pid, f->pid, FORKED_NS);
	assert_true(attach_has(a, ENDED)); /* its end will be told */
	f->stats.side_lost = 1;
	tell_of(f, CTL_THREAD, f->pid, f->pid, FORKED_NS);
	assert_false(attach_has(a, ENDED));
	assert_true(attach_has(a, f->pid));
	attach_deinit(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(by_its_exec, setup, teardown),
		cmocka_unit_test_setup_teardown(by_a_sample, setup, teardown),
		cmocka_unit_test_setup_teardown(by_its_fork, setup, teardown),
		cmocka_unit_test_setup_teardown(by_who_began_it, setup, teardown),
		cmocka_unit_test_setup_teardown(not_before_its_exec, setup, teardown),
		cmocka_unit_test_setup_teardown(not_by_anothers_exec, setup, teardown),
		cmocka_unit_test_setup_teardown(of_who_has_ended, setup, teardown),
		cmocka_unit_test_setup_teardown(adopted_before_its_exec_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(an_end_that_is_not_told, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
