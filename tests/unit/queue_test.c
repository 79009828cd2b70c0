/* SPDX-License-Identifier: MIT
 *
 * queue: records come out as they went in, over the ring's end, up to the last byte,
 * and between two threads.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "base/queue.h"
#include "base/sparse.h"

enum { LARGE = 1 << 20 };

static bool add(struct queue *q, uint32_t type, const void *p, size_t n)
{
	void *to = queue_reserve(q, type, n);

	if (!to)
		return false;
	memcpy(to, p, n);
	queue_commit(q);
	return true;
}

static void expect(struct queue *q, uint32_t type, const void *p, size_t n)
{
	const struct queue_record *r = queue_peek(q);

	assert_non_null(r);
	assert_int_equal(r->type, type);
	assert_int_equal(r->n, (sizeof(*r) + n + 7) / 8 * 8);
	assert_memory_equal(r->data, p, n);
	queue_pop(q);
}

static void in_and_out(void **state)
{
	struct queue q;

	assert_int_equal(queue_init(&q, 256), 0);
	assert_null(queue_peek(&q));
	assert_true(add(&q, 1, "first", 5));
	assert_true(add(&q, 2, "", 0));
	assert_true(add(&q, 0xffffffff, "12345678", 8));
	assert_ptr_equal(queue_peek(&q), queue_peek(&q)); /* looking changes nothing */
	expect(&q, 1, "first", 5);
	expect(&q, 2, "", 0);
	expect(&q, 0xffffffff, "12345678", 8);
	assert_null(queue_peek(&q));
	queue_deinit(&q);
}

static void scarce_from_seven_eighths_on(void **state)
{
	unsigned char data[56] = { 0 }; /* 64 with the header */
	struct queue q;

	assert_int_equal(queue_init(&q, 1024), 0);
	for (int i = 0; i < 16; i++) {
		assert_int_equal(queue_scarce(&q), i > 14);
		assert_int_equal(queue_half_full(&q), i > 8);
		assert_true(add(&q, 1, data, sizeof(data)));
	}
	for (int i = 16; i > 0; i--, queue_pop(&q))
		assert_int_equal(queue_scarce(&q), i > 14);
	queue_deinit(&q);
}

/* Once, when a record makes it half full; again when it was emptied between. */
static void half_full_hurries(void **state)
{
	unsigned char data[56] = { 0 }; /* 64 with the header */
	struct queue q;
	eventfd_t n;

	assert_int_equal(queue_init(&q, 256), 0);
	q.hurry = eventfd(0, EFD_NONBLOCK);
	for (int round = 0; round < 2; round++) {
		assert_true(add(&q, 1, data, sizeof(data)) && add(&q, 1, data, sizeof(data)));
		assert_int_equal(eventfd_read(q.hurry, &n), -1);
		assert_true(add(&q, 1, data, sizeof(data)) && add(&q, 1, data, sizeof(data)));
		assert_int_equal(eventfd_read(q.hurry, &n), 0);
		assert_int_equal(n, 1);
		while (queue_peek(&q))
			queue_pop(&q);
	}
	close(q.hurry);
	queue_deinit(&q);
}

static void not_committed_is_not_there(void **state)
{
	struct queue q;
	char *p;

	assert_int_equal(queue_init(&q, 256), 0);
	assert_non_null(queue_reserve(&q, 1, 40));
	assert_null(queue_peek(&q));
	p = queue_reserve(&q, 2, 4); /* another instead */
	memcpy(p, "four", 4);
	queue_commit(&q);
	expect(&q, 2, "four", 4);
	assert_null(queue_peek(&q));
	queue_deinit(&q);
}

static void full_to_the_last_byte(void **state)
{
	unsigned char data[120] = { 7 };
	struct queue q;

	assert_int_equal(queue_init(&q, 256), 0);
	assert_null(queue_reserve(&q, 1, 121)); /* more than half */
	assert_null(queue_reserve(&q, 1, 10000));
	assert_true(add(&q, 1, data, 120));
	assert_true(add(&q, 2, data, 112));
	assert_null(queue_reserve(&q, 1, 1));
	assert_true(add(&q, 3, data, 0));
	assert_null(queue_reserve(&q, 1, 0));
	expect(&q, 1, data, 120);
	assert_true(add(&q, 4, data, 120)); /* and again where the first was */
	assert_null(queue_reserve(&q, 1, 0));
	expect(&q, 2, data, 112);
	expect(&q, 3, data, 0);
	expect(&q, 4, data, 120);
	assert_null(queue_peek(&q));
	queue_deinit(&q);
}

/* Every length at every place: records never span the end, none is lost. */
static void over_the_end(void **state)
{
	unsigned char data[64];
	struct queue q;

	assert_int_equal(queue_init(&q, 256), 0);
	for (unsigned i = 0; i < 20000; i++) {
		memset(data, (int)i, sizeof(data));
		assert_true(add(&q, 1 + i, data, (i * 7) % 57));
		if (!i) /* it never gets empty */
			continue;
		memset(data, (int)i - 1, sizeof(data));
		expect(&q, i, data, ((i - 1) * 7) % 57);
	}
	queue_deinit(&q);
}

static size_t resident_pages(const struct queue *q)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
	unsigned char *at = (void *)(((uintptr_t)q->bytes + page - 1) & ~(page - 1));
	unsigned char in[LARGE / 4096] = { 0 };

	assert_int_equal(mincore(at, q->size - page, in), 0);
	for (size_t i = 0; i < sizeof(in); i++)
		n += in[i] & 1;
	return n;
}

/* The backlog is what is resident, however much has gone through. */
static void small_backlogs_touch_little(void **state)
{
	static unsigned char data[LARGE / 4];
	struct queue q;

#ifdef __SANITIZE_THREAD__
	skip(); /* its allocator touches every page */
#endif
	assert_int_equal(queue_init(&q, LARGE), 0);
	assert_int_equal(resident_pages(&q), 0);
	for (unsigned i = 0; i < 4000; i++) {
		for (unsigned k = 0; k < 1 + i % 3; k++)
			assert_true(add(&q, 1 + k, data, 100 + (i * 13 + k) % 2900));
		for (unsigned k = 0; k < 1 + i % 3; k++)
			expect(&q, 1 + k, data, 100 + (i * 13 + k) % 2900);
		assert_null(queue_peek(&q));
	}
	assert_in_range(resident_pages(&q), 1, 6);
	/* It has all its room, wherever it has been. */
	for (size_t n = 0; n < LARGE; n += LARGE / 4)
		assert_true(add(&q, 7, data, LARGE / 4 - sizeof(struct queue_record)));
	assert_null(queue_reserve(&q, 1, 0));
	queue_deinit(&q);
}

/* A reservation that is refused leaves no trace, also where it would have wrapped. */
static void refused_leaves_no_trace(void **state)
{
	unsigned char data[120] = { 1 };
	struct queue q;

	assert_int_equal(queue_init(&q, 256), 0);
	assert_true(add(&q, 1, data, 120));
	assert_true(add(&q, 2, data, 56));
	assert_null(queue_reserve(&q, 3, 80)); /* 64 left, the front is taken */
	expect(&q, 1, data, 120);
	assert_true(add(&q, 4, data, 80));
	expect(&q, 2, data, 56);
	expect(&q, 4, data, 80);
	assert_null(queue_peek(&q));
	queue_deinit(&q);
}

/*
 * Two threads
 */

enum { N_RECORDS = 300000 };

static size_t length_of(uint64_t i)
{
	return 8 + (i * 2654435761u >> 7) % 90;
}

static void *produce(void *arg)
{
	struct queue *q = arg;

	for (uint64_t i = 0; i < N_RECORDS;) {
		size_t n = length_of(i);
		unsigned char *p = queue_reserve(q, (uint32_t)i + 1, n);

		if (!p) {
			sched_yield();
			continue;
		}
		memcpy(p, &i, 8);
		memset(p + 8, (int)i, n - 8);
		queue_commit(q);
		i++;
	}
	return NULL;
}

static bool is_record(const struct queue_record *r, uint64_t i)
{
	size_t n = length_of(i);

	if (r->type != (uint32_t)i + 1 || r->n != (sizeof(*r) + n + 7) / 8 * 8 ||
	    load_u64(r->data) != i)
		return false;
	for (size_t k = 8; k < n; k++)
		if (r->data[k] != (unsigned char)i)
			return false;
	return true;
}

static void two_threads(void **state)
{
	const struct queue_record *r;
	pthread_t thread;
	struct queue q;

	assert_int_equal(queue_init(&q, 4096), 0);
	assert_int_equal(pthread_create(&thread, NULL, produce, &q), 0);
	for (uint64_t i = 0; i < N_RECORDS;) {
		r = queue_peek(&q);
		if (!r) {
			sched_yield();
			continue;
		}
		if (!is_record(r, i))
			fail_msg("record %llu is damaged", (unsigned long long)i);
		queue_pop(&q);
		i++;
	}
	pthread_join(thread, NULL);
	assert_null(queue_peek(&q));
	queue_deinit(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_and_out),
		cmocka_unit_test(scarce_from_seven_eighths_on),
		cmocka_unit_test(half_full_hurries),
		cmocka_unit_test(not_committed_is_not_there),
		cmocka_unit_test(full_to_the_last_byte),
		cmocka_unit_test(over_the_end),
		cmocka_unit_test(small_backlogs_touch_little),
		cmocka_unit_test(refused_leaves_no_trace),
		cmocka_unit_test(two_threads),
	};

	sparse_init();	       /* or the queue of one test gets pages of another's, ... */
	mallopt(M_PERTURB, 0); /* ... and meson's MALLOC_PERTURB_ touches all of it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
