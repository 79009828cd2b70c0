/* SPDX-License-Identifier: MIT
 *
 * handover: who ends a hold first, reader or tracer, and that the other one learns it.
 */
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "watch/handover.h"
#include "base/clock.h"
#include "sys/cpus.h"

/* A CPU on which nobody is. */
enum { TID = 77, TURNS = 500, PATIENCE_NS = 20000000, CPU = CPUS_MAX };

struct side {
	struct handover h;
	_Atomic bool over;
	int held;
	uint64_t last; /* registers */
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
	int slow = 0;

	assert_int_equal(handover_init(&s.h, CPU), 0);
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
	handover_deinit(&s.h);
}

/* Was the reader woken since this was asked last? */
static bool is_posted(struct handover *h)
{
	eventfd_t n;

	return eventfd_read(h->posted, &n) == 0;
}

/* A reader that comes too late, even while the same thread is held again. */
static void the_tracer_does_not_wait_for_ever(void **state)
{
	struct handover h = { 0 };
	uint32_t first = 1;
	pid_t tid;

	assert_int_equal(handover_init(&h, CPU), 0);
	assert_int_equal(handover_held(&h, &tid), 0);
	assert_false(is_posted(&h));
	handover_give(&h, TID);
	assert_true(is_posted(&h));
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

/* --- while the tracer waits --- */

enum { TRIES = 50, LATER_US = 2000 };

/* How often this thread gave up its CPU by its own will. */
static long sleeps(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

/* On a busy machine its patience may end before it gets to that. */
static void the_tracer_sleeps_while_nobody_reads(void **state)
{
	struct handover h = { 0 };
	long before = sleeps();

	assert_int_equal(handover_init(&h, CPU), 0);
	for (int i = 0; i < TRIES && sleeps() == before; i++)
		handover_give(&h, TID);
	assert_true(sleeps() > before);
	handover_deinit(&h);
}

/* It looks for a moment, then it reads. */
static void *late_reader(void *arg)
{
	struct handover *h = arg;
	uint32_t turn;
	pid_t tid;

	while (!(turn = handover_held(h, &tid)))
		;
	usleep(LATER_US);
	handover_release(h, turn);
	return NULL;
}

/* On a busy machine not each time. */
static void a_release_wakes_the_tracer(void **state)
{
	struct handover h = { 0 };
	bool woken = false;

	assert_int_equal(handover_init(&h, CPU), 0);
	for (int i = 0; i < TRIES && !woken; i++) {
		pthread_t thread;
		uint64_t begin;

		assert_int_equal(pthread_create(&thread, NULL, late_reader, &h), 0);
		begin = now_ns();
		handover_give(&h, TID);
		woken = now_ns() - begin < PATIENCE_NS;
		pthread_join(thread, NULL);
	}
	assert_true(woken);
	handover_deinit(&h);
}

/* --- what a reader does before it would be woken --- */

static struct handover *given;
static void (*meanwhile)(struct handover *h); /* as the tracer has given and looks around */

/* Instead of the C library's: the tracer asks it before it waits. */
int sched_getcpu(void)
{
	if (meanwhile)
		meanwhile(given);
	return 0;
}

static void reads_quickly(struct handover *h)
{
	pid_t tid;

	assert_true(handover_release(h, handover_held(h, &tid)));
	assert_int_equal(tid, TID);
}

static void offers(struct handover *h)
{
	handover_offer(h, TID);
}

/* Was it woken though it did what @does says at once? Not on the tracer's own CPU, where it
 * can't run as long as that looks at it. */
static bool is_woken(void (*does)(struct handover *h), int cpu)
{
	struct handover h = { 0 };
	pid_t tid;
	bool woken;

	assert_int_equal(handover_init(&h, cpu), 0);
	given = &h;
	meanwhile = does;
	handover_give(&h, TID);
	meanwhile = NULL;
	woken = is_posted(&h);
	assert_int_equal(handover_held(&h, &tid), 0);
	assert_int_equal(handover_accepted(&h), does == offers);
	handover_deinit(&h);
	return woken;
}

static void who_is_quick_is_not_woken(void **state)
{
	assert_false(is_woken(reads_quickly, CPU));
	assert_false(is_woken(offers, CPU));
	assert_true(is_woken(reads_quickly, 0));
	assert_true(is_woken(offers, 0));
}

/* As if its stop had been waited for. */
static void a_read_that_was_offered_ends_the_hold(void **state)
{
	struct handover h = { 0 };
	pid_t tid;

	assert_int_equal(handover_init(&h, CPU), 0);
	handover_offer(&h, TID);
	assert_false(handover_accepted(&h));
	h.regs[0] = 1;
	handover_give(&h, TID);
	assert_true(handover_accepted(&h));
	assert_false(is_posted(&h));
	assert_int_equal(handover_held(&h, &tid), 0);
	h.regs[0] = 2; /* the next stop is not the one of the offer */
	handover_give(&h, TID);
	assert_int_equal(h.accepted_regs[0], 1);
	assert_true(handover_withdraw(&h));
	assert_false(handover_withdraw(&h));
	handover_deinit(&h);
}

/* On the tracer's own CPU the reader would have to be woken for it. */
static void who_has_offered_before_the_stop_is_not_woken(void **state)
{
	struct handover h = { 0 };

	assert_int_equal(handover_init(&h, sched_getcpu()), 0);
	handover_offer(&h, TID);
	handover_give(&h, TID);
	assert_true(handover_accepted(&h));
	assert_false(is_posted(&h));
	handover_deinit(&h);
}

/* The tracer may have looked at the last one, and not have taken it yet. */
static void no_offer_looks_like_the_last_one(void **state)
{
	struct handover h = { .n_offers = 0x7ffffffe };
	uint64_t last = 0;

	for (int i = 0; i < 4; i++) {
		handover_offer(&h, TID);
		assert_int_not_equal(h.offer, last);
		assert_false(handover_accepted(&h));
		last = h.offer;
	}
}

/* Of the stop that ended it, not of what the tracer finds later. */
static void an_accepted_offer_has_all_of_its_stop(void **state)
{
	struct handover h = { 0 };
	uint64_t before = now_ns();

	assert_int_equal(handover_init(&h, CPU), 0);
	handover_offer(&h, TID);
	for (uint64_t i = 0; i < ARCH_MAX_REGS; i++)
		h.regs[i] = i + 1;
	h.ran_on_ns = 4711;
	handover_give(&h, TID);
	memset(h.regs, 0, sizeof(h.regs));
	h.ran_on_ns = 0;
	for (uint64_t i = 0; i < ARCH_MAX_REGS; i++)
		assert_int_equal(h.accepted_regs[i], i + 1);
	assert_int_equal(h.accepted_ran_on_ns, 4711);
	assert_in_range(h.accepted_ns, before, now_ns());
	handover_deinit(&h);
}

static void a_reader_gets_all_registers_of_the_held(void **state)
{
	struct handover h = { .ran_on_ns = 4711 };
	uint64_t regs[ARCH_MAX_REGS + 1];

	memset(regs, 0xee, sizeof(regs));
	for (uint64_t i = 0; i < ARCH_MAX_REGS; i++)
		h.regs[i] = i + 1;
	assert_int_equal(handover_registers(&h, regs), 4711);
	for (uint64_t i = 0; i < ARCH_MAX_REGS; i++)
		assert_int_equal(regs[i], i + 1);
	assert_int_equal(regs[ARCH_MAX_REGS], 0xeeeeeeeeeeeeeeee);
}

static void an_offer_is_of_one_thread_and_until_it_is_withdrawn(void **state)
{
	struct handover h = { 0 };

	assert_int_equal(handover_init(&h, CPU), 0);
	handover_offer(&h, TID + 1);
	handover_give(&h, TID);
	assert_false(handover_accepted(&h));
	handover_offer(&h, TID);
	assert_false(handover_withdraw(&h));
	handover_give(&h, TID);
	assert_false(handover_accepted(&h));
	handover_deinit(&h);
}

static void *offering_reader(void *arg)
{
	struct side *s = arg;

	while (!s->over) {
		uint64_t seen = s->last;
		uint32_t turn;
		pid_t tid;

		handover_offer(&s->h, TID);
		while (!s->over && !handover_accepted(&s->h) &&
		       !(turn = handover_held(&s->h, &tid)))
			;
		if (handover_withdraw(&s->h)) {
			s->last = s->h.accepted_regs[0];
		} else if ((turn = handover_held(&s->h, &tid))) {
			uint64_t now = s->h.regs[0];

			if (!handover_release(&s->h, turn))
				continue;
			s->last = now;
		} else {
			continue;
		}
		/* Right behind one end of a stop the tracer may still be in it, and the thread
		 * stand there: then it serves once more. */
		s->held += s->last != seen;
		assert_true(s->last >= seen);
	}
	return NULL;
}

/* Offer and stop at the same time: one of the two sees the other. */
static void each_stop_is_ended_once(void **state)
{
	struct side s = { 0 };
	pthread_t thread;
	int slow = 0;

	assert_int_equal(handover_init(&s.h, CPU), 0);
	assert_int_equal(pthread_create(&thread, NULL, offering_reader, &s), 0);
	for (int i = 1; i <= TURNS; i++) {
		uint64_t begin = now_ns();

		s.h.regs[0] = (uint64_t)i;
		handover_give(&s.h, TID);
		slow += now_ns() - begin >= PATIENCE_NS;
	}
	s.over = true;
	pthread_join(thread, NULL);
	assert_in_range(s.held, TURNS - slow, TURNS);
	handover_deinit(&s.h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_thread_is_given_back),
		cmocka_unit_test(the_tracer_does_not_wait_for_ever),
		cmocka_unit_test(the_tracer_sleeps_while_nobody_reads),
		cmocka_unit_test(a_release_wakes_the_tracer),
		cmocka_unit_test(who_is_quick_is_not_woken),
		cmocka_unit_test(a_read_that_was_offered_ends_the_hold),
		cmocka_unit_test(who_has_offered_before_the_stop_is_not_woken),
		cmocka_unit_test(no_offer_looks_like_the_last_one),
		cmocka_unit_test(an_accepted_offer_has_all_of_its_stop),
		cmocka_unit_test(a_reader_gets_all_registers_of_the_held),
		cmocka_unit_test(an_offer_is_of_one_thread_and_until_it_is_withdrawn),
		cmocka_unit_test(each_stop_is_ended_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
