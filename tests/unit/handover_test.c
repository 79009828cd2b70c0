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

enum { TID = 77, TURNS = 2000 };

static void *reader(void *arg)
{
	struct handover *h = arg;
	long held = 0;

	for (int i = 0; i < TURNS; i++) {
		uint32_t turn;
		pid_t tid;

		while (!(turn = handover_held(h, &tid)))
			;
		held += tid == TID + i && h->regs[0] == (uint64_t)i &&
			handover_release(h, turn);
	}
	return (void *)held;
}

static void each_thread_is_given_back(void **state)
{
	struct handover h = { 0 };
	pthread_t thread;
	eventfd_t posted;
	void *held;

	assert_int_equal(handover_init(&h), 0);
	assert_int_equal(pthread_create(&thread, NULL, reader, &h), 0);
	for (int i = 0; i < TURNS; i++) {
		h.regs[0] = (uint64_t)i;
		handover_give(&h, TID + i);
	}
	pthread_join(thread, &held);
	assert_int_equal((long)held, TURNS);
	assert_int_equal(eventfd_read(h.posted, &posted), 0);
	assert_int_equal(posted, TURNS);
	handover_deinit(&h);
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
