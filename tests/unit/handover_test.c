/* SPDX-License-Identifier: MIT
 *
 * handover: who ends a hold first, reader or tracer, and that the other one learns it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base.h"
#include "capture/handover.h"
#include "clock.h"

enum { TID = 77, TURNS = 500, PATIENCE_NS = 20000000 };

struct side {
	struct handover h;
	_Atomic bool over;
	int held;
};

static void *reader(void *arg)
{
	struct side *s = arg;

	while (!s->over) {
		pid_t tid;
		uint32_t turn = handover_held(&s->h, &tid);
		bool same = turn && s->h.regs[0] == (uint64_t)tid;

		if (turn && handover_release(&s->h, turn)) {
			assert_true(same);
			s->held++;
		}
	}
	return NULL;
}

/* On a busy machine the tracer's patience may end first: that takes its time. */
static void each_thread_is_given_back(void **state)
{
	struct side s = { 0 };
	pthread_t thread;
	eventfd_t posted;
	int slow = 0;

	assert_int_equal(handover_init(&s.h), 0);
	assert_int_equal(pthread_create(&thread, NULL, reader, &s), 0);
	for (int i = 1; i <= TURNS; i++) {
		uint64_t begin = now_ns();

		s.h.regs[0] = (uint64_t)i;
		handover_give(&s.h, i);
		slow += now_ns() - begin >= PATIENCE_NS;
	}
	s.over = true;
	pthread_join(thread, NULL);
	assert_in_range(s.held, TURNS - slow, TURNS);
	assert_true(s.held > 0);
	assert_int_equal(eventfd_read(s.h.posted, &posted), 0);
	assert_int_equal(posted, TURNS);
	handover_deinit(&s.h);
}

/* A reader that comes too late, even while the same thread is held again. */
static void the_tracer_does_not_wait_for_ever(void **state)
{
	struct handover h = { 0 };
	uint32_t first = 1;
	pid_t tid;

	assert_int_equal(handover_init(&h), 0);
	assert_int_equal(handover_held(&h, &tid), 0);
	handover_give(&h, TID);
	assert_int_equal(handover_held(&h, &tid), 0);
	assert_false(handover_release(&h, first));
	assert_false(handover_release(&h, 0));
	handover_give(&h, TID);
	assert_false(handover_release(&h, first));
	h.turn++; /* given a third time, and not yet taken back */
	assert_false(handover_release(&h, first));
	assert_true(handover_release(&h, handover_held(&h, &tid)));
	assert_int_equal(tid, TID);
	handover_deinit(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_thread_is_given_back),
		cmocka_unit_test(the_tracer_does_not_wait_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
