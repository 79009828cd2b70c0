/* SPDX-License-Identifier: MIT
 *
 * inbox_test - what piles up is bounded, in order, and nothing is lost uncounted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/base.h"
#include "sample/wire.h"
#include "stacks/inbox.h"
#include "base/stats.h"

static struct stats stats;

enum { RECORD = 60000, MANY = 300 << 20 };

/* Nobody takes anything: the inbox's thread has to make room. Samples are stack, but for those
 * that are @python. */
static void push_as(struct queue *q, uint32_t type, uint64_t number, size_t n, bool python)
{
	const uint32_t rest = (uint32_t)(n - sizeof(struct q_sample));
	const struct q_sample head = { .sample.time = number,
				       .n_kernel = python ? rest / 8 : 0,
				       .n_stack = python ? 0 : rest };
	const struct timespec step = { .tv_nsec = 100000 };
	unsigned char *to = NULL;

	for (int i = 0; i < 100000 && !(to = queue_reserve(q, type, n)); i++)
		nanosleep(&step, NULL);
	assert_non_null(to);
	memcpy(to, &head, MIN(n, sizeof(head)));
	queue_commit(q);
}

static void push(struct queue *q, uint32_t type, uint64_t number, size_t n)
{
	push_as(q, type, number, n, false);
}

static size_t push_all(struct queue *q, uint32_t type, size_t bytes)
{
	size_t n = bytes / RECORD;

	for (size_t i = 0; i < n; i++)
		push(q, type, i, RECORD);
	return n;
}

/* How many of @type there are, the first ones that were pushed; *@bytes of all types. */
static size_t take(struct inbox *in, uint32_t type, size_t *bytes)
{
	struct inbox_item *items;
	size_t n, of_type = 0;

	*bytes = 0;
	inbox_take(in, &items, &n);
	for (size_t i = 0; i < n; i++) {
		*bytes += items[i].n;
		if (items[i].type == type)
			assert_int_equal(of_type++, load_u64(items[i].data));
		inbox_free(in, &items[i]);
	}
	free(items);
	return of_type;
}

static void bounded(void **state)
{
	uint64_t samples, others;
	struct queue q, *queues[] = { &q };
	struct inbox *in;
	size_t n, got, bytes;

	assert_int_equal(0, queue_init(&q, 1 << 20));
	in = inbox_create(queues, 1, &stats);
	assert_non_null(in);
	assert_int_equal(0, inbox_start(in));
	n = push_all(&q, Q_SAMPLE, INBOX_STACK_BYTES + INBOX_CPU_BYTES + (16 << 20));
	for (size_t end = n + 1000; n < end; n++)
		push_as(&q, Q_SAMPLE, n, RECORD, true);
	for (uint64_t i = 0; i < 1000; i++)
		push(&q, Q_SIDE, i, 64);
	push(&q, Q_TAPE, 0, RECORD);
	got = take(in, Q_SAMPLE, &bytes);
	inbox_dropped(in, &samples, &others);
	assert_in_range(bytes, INBOX_SAMPLE_BYTES + INBOX_CPU_BYTES - (1 << 20),
			INBOX_SAMPLE_BYTES + INBOX_CPU_BYTES + 64000);
	assert_int_equal(samples, n - got);
	assert_in_range(samples, 400, 500);
	assert_in_range(STATS_GET(&stats, stack_dropped) * RECORD, 15 << 20, 17 << 20);
	assert_int_equal(others, 1);

	/* There is room again; and for maps and code that of both. */
	push(&q, Q_SAMPLE, 0, RECORD);
	n = push_all(&q, Q_SIDE, MANY);
	got = take(in, Q_SIDE, &bytes);
	inbox_dropped(in, &samples, &others);
	assert_in_range(bytes, INBOX_BYTES + INBOX_CPU_BYTES - (1 << 20),
			INBOX_BYTES + INBOX_CPU_BYTES);
	assert_int_equal(samples, 0);
	assert_int_equal(others, n - got);
	inbox_dropped(in, &samples, &others);
	assert_int_equal(others, 0);
	inbox_destroy(in);
	queue_deinit(&q);
}

/* Who works on what was handed out still has it in memory. */
static void handed_out_counts(void **state)
{
	uint64_t samples, others, dropped = STATS_GET(&stats, stack_dropped);
	const size_t most = INBOX_STACK_BYTES + INBOX_CPU_BYTES;
	struct queue q, *queues[] = { &q };
	struct inbox_item *items, *more;
	struct inbox *in;
	size_t n, n_more;

	assert_int_equal(0, queue_init(&q, 1 << 20));
	in = inbox_create(queues, 1, &stats);
	assert_non_null(in);
	assert_int_equal(0, inbox_start(in));
	push_all(&q, Q_SAMPLE, most);
	push(&q, Q_SAMPLE, 0, RECORD);
	inbox_take(in, &items, &n);
	assert_int_equal(STATS_GET(&stats, stack_dropped), dropped);
	push(&q, Q_SAMPLE, 0, RECORD);
	inbox_take(in, &more, &n_more);
	assert_int_equal(n_more, 1);
	assert_int_equal(STATS_GET(&stats, stack_dropped), dropped + 1);
	inbox_free(in, more);
	free(more);
	for (size_t i = 0; i < n; i++)
		inbox_free(in, &items[i]);
	free(items);
	push(&q, Q_SAMPLE, 0, RECORD);
	take(in, Q_SAMPLE, &n);
	inbox_dropped(in, &samples, &others);
	assert_int_equal(samples + others, 0);
	assert_int_equal(STATS_GET(&stats, stack_dropped), dropped + 1);
	inbox_destroy(in);
	queue_deinit(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(bounded),
					    cmocka_unit_test(handed_out_counts) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
