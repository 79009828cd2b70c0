/* SPDX-License-Identifier: MIT
 *
 * counts: differences by event and thread.
 */
#include "unit.h"
#include "no_memory.h"

#include "sample/counts.h"

enum { AT_ONCE = 200 }; /* threads that have ended are forgotten */

static uint64_t since(struct counts *c, pid_t tid, uint64_t id, uint64_t value)
{
	struct counts_read r = { .id = id, .value = value };

	return counts_since(c, tid, &r);
}

static void differences(void **state)
{
	struct counts *c = counts_create();

	assert_int_equal(since(c, 1, 7, 100), 100);
	assert_int_equal(since(c, 1, 7, 130), 30);
	assert_int_equal(since(c, 2, 7, 5), 5); /* inherited: the id is the same */
	assert_int_equal(since(c, 1, 8, 1), 1);
	assert_int_equal(since(c, 1, 7, 130), 0);
	assert_int_equal(since(c, 2, 7, 6), 1);
	assert_int_equal(since(c, 2, 7, 4), 4); /* a new thread of this number */
	assert_int_equal(since(c, 2, 0, 4), 0);
	counts_destroy(c);
}

static void many_threads(void **state)
{
	struct counts *c = counts_create();

	for (pid_t tid = 1; tid < 5000; tid++)
		assert_int_equal(since(c, tid, 3, (uint64_t)tid), tid);
	for (pid_t tid = 1; tid < 5000; tid++)
		assert_int_equal(since(c, tid, 3, 2 * (uint64_t)tid), tid);
	counts_destroy(c);
}

/* What those that live have counted stays known, whoever ended. */
static void ended_threads_leave_room(void **state)
{
	enum { LIVE = 100, ENDED = 20000 };
	struct counts *c = counts_create();

	for (pid_t tid = 1; tid <= LIVE; tid++)
		since(c, tid, 3, 5);
	for (pid_t tid = LIVE + 1; tid <= 2 * ENDED; tid++) {
		if (tid == ENDED)
			no_memory_from(1, true);
		assert_int_equal(since(c, tid, 3, 1), 1);
		assert_int_equal(since(c, tid, 4, 1), 1);
		counts_forget(c, tid);
	}
	assert_false(no_memory_end());
	for (pid_t tid = 1; tid <= LIVE; tid++)
		assert_int_equal(since(c, tid, 3, 7), 2);
	assert_int_equal(since(c, LIVE + 1, 3, 7), 7);
	counts_destroy(c);
}

/* Those that live lie behind those that end, which kept them from their places. */
static void threads_between_ended_ones(void **state)
{
	enum { ALL = 20011, NEXT = 7919, ONE_IN = 5 }; /* ALL, NEXT: primes */
	struct counts *c = counts_create();

	for (pid_t i = 1; i < ALL; i++) { /* in no order */
		pid_t tid = 1 + i * NEXT % ALL;

		assert_int_equal(since(c, tid, 3, 1), 1);
		if (i % ONE_IN)
			counts_forget(c, tid);
	}
	for (pid_t i = ONE_IN; i < ALL; i += ONE_IN)
		assert_int_equal(since(c, 1 + i * NEXT % ALL, 3, 7), 6);
	for (pid_t i = 1; i < ALL - AT_ONCE; i++)
		if (i % ONE_IN)
			assert_int_equal(since(c, 1 + i * NEXT % ALL, 3, 7), 7);
	counts_destroy(c);
}

/* What a thread has counted that got the number of an ended one stays known when others end. */
static void a_number_that_is_used_again(void **state)
{
	struct counts *c = counts_create();

	counts_forget(c, AT_ONCE); /* one that has counted nothing */
	for (pid_t tid = 1; tid <= AT_ONCE; tid++) {
		since(c, tid, 3, 9);
		counts_forget(c, tid);
	}
	for (pid_t tid = 1; tid <= AT_ONCE; tid++)
		assert_int_equal(since(c, tid, 3, 10), 10);
	for (pid_t tid = 1; tid <= AT_ONCE; tid++)
		counts_forget(c, AT_ONCE + tid);
	for (pid_t tid = 1; tid <= AT_ONCE; tid++)
		assert_int_equal(since(c, tid, 3, 12), 2);
	counts_destroy(c);
}

/* However often it is read, whatever it says. */
static void what_is_there_takes_no_room(void **state)
{
	struct counts *c = counts_create();

	no_memory_from(1, true);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(since(c, 1, 3, 0), 0);
	assert_false(no_memory_end());
	counts_destroy(c);
}

/* What is counted while there is no memory is told later. */
static void memory_that_lacks(void **state)
{
	enum { MANY = 2000 };
	struct counts *c = counts_create();
	uint64_t sum = 0;

	no_memory_from(1, false);
	for (pid_t tid = 1; tid <= MANY; tid++)
		sum += since(c, tid, 3, 1);
	assert_int_equal(no_memory_end(), NO_MEMORY_FAILS);
	assert_in_range(sum, 1, NO_MEMORY_FAILS ? MANY - 1 : MANY);
	for (pid_t tid = 1; tid <= MANY; tid++)
		sum += since(c, tid, 3, 2);
	assert_int_equal(sum, 2 * MANY);
	counts_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(ended_threads_leave_room),
		cmocka_unit_test(threads_between_ended_ones),
		cmocka_unit_test(a_number_that_is_used_again),
		cmocka_unit_test(what_is_there_takes_no_room),
		cmocka_unit_test(memory_that_lacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
