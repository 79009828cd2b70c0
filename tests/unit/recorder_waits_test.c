/* SPDX-License-Identifier: MIT
 *
 * recorder_messages: who sleeps already as it is dealt with waits since then (--mode wall).
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "unit.h"
#include "capture/waits.h"
#include "fake_ring.h"
#include "record/recorder_int.h"
#include "targets/ours.h"

enum { FORKED_NS = 1000, PERIOD_NS = 1000000 };

struct fix {
	struct fake *f;
	struct recorder r;
	pid_t pid; /* a child of ours that sleeps */
};

/* Another process, asleep. */
static pid_t start(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	while (proc_state(pid, pid) != 'S')
		usleep(100);
	return pid;
}

static void add_target(struct fix *f, pid_t pid)
{
	struct target *t = target_create(pid);

	assert_non_null(t);
	assert_int_equal(targets_publish(&f->r.tracker.targets, &t, 1), 0);
}

/* Waits are read, and no process but ours was a target when that began. */
static void begin(struct fix *f)
{
	uint64_t start_ns = now_ns();

	f->r.waits = waits_create(&f->r.config);
	assert_non_null(f->r.waits);
	f->r.config.waits = waits_post(f->r.waits);
	assert_int_equal(waits_start(f->r.waits, PERIOD_NS, start_ns), 0);
	while (waits_told_ns(f->r.waits) <= start_ns)
		usleep(100);
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	fake_setup((void **)&f->f);
	fake_lay(f->f);
	f->pid = start();
	f->r.session = &f->f->session;
	f->r.o.follow = true;
	f->r.config = f->f->c;
	f->r.config.targets = &f->r.tracker.targets;
	f->r.config.kick = eventfd(0, EFD_NONBLOCK);
	f->r.config.ours = ours_create(NULL);
	assert_non_null(f->r.config.ours);
	assert_int_equal(tracker_init(&f->r.tracker, -1), 0);
	f->r.tracker.births = f->f->c.births;
	add_target(f, getpid());
	ours_set(f->r.config.ours, f->pid, true);
	begin(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	waits_stop(f->r.waits);
	waits_destroy(f->r.waits);
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	tracker_deinit(&f->r.tracker);
	ours_destroy(f->r.config.ours);
	close(f->r.config.kick);
	fake_destroy(f->f);
	free(f);
	return 0;
}

static void tell(struct fix *f, enum ctl_type type, struct ctl_msg m)
{
	struct ctl_msg *to = queue_reserve(&f->f->slots[0].ctl, type, sizeof(*to));

	assert_non_null(to);
	*to = m;
	queue_commit(&f->f->slots[0].ctl);
	recorder_take_messages(&f->r);
}

static void tell_fork(struct fix *f)
{
	tell(f, CTL_FORK, (struct ctl_msg){ f->pid, getpid(), getpid(), FORKED_NS });
}

/* How many waits of @tid there are when the recording ends. */
static int waits_of(struct fix *f, pid_t tid)
{
	const struct queue_record *rec;
	int n = 0;

	waits_stop(f->r.waits);
	for (; (rec = queue_peek(waits_queue(f->r.waits))); queue_pop(waits_queue(f->r.waits)))
		n += rec->type == Q_WAIT && ((const struct q_wait *)rec->data)->tid == tid;
	return n;
}

/* Where CPUs tell, what a child did before the record of its fork was read is nobody's. */
static void a_child(void **state)
{
	struct fix *f = *state;

	tell_fork(f);
	assert_int_equal(waits_of(f, f->pid), 1);
}

/* Where threads tell, it is known already. */
static void a_child_whose_own_events_tell(void **state)
{
	struct fix *f = *state;

	f->r.config.split = true;
	tell_fork(f);
	assert_int_equal(waits_of(f, f->pid), 0);
}

static void a_child_that_is_no_target(void **state)
{
	struct fix *f = *state;

	f->r.o.follow = false;
	tell_fork(f);
	assert_int_equal(waits_of(f, f->pid), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_child),
		TEST(a_child_whose_own_events_tell),
		TEST(a_child_that_is_no_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
