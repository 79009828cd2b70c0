/* SPDX-License-Identifier: MIT
 *
 * inbox_test - what piles up is bounded, in order, and nothing is lost uncounted.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "perf_records.h"
#include "base/base.h"
#include "sample/wire.h"
#include "stacks/inbox.h"
#include "base/stats.h"

static struct stats stats;

enum { RECORD = 60000, MANY = 300 << 20 };

/* What was asked for last, and by whom. */
static struct {
	int which, nice;
	id_t who;
	_Atomic pid_t tid;
} priority;

int setpriority(__priority_which_t which, id_t who, int nice)
{
	priority.which = (int)which;
	priority.who = who;
	priority.nice = nice;
	priority.tid = gettid();
	return 0;
}

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

/* How many threads we have. */
static size_t threads(void)
{
	DIR *d = opendir("/proc/self/task");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
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
	n = threads();
	assert_int_equal(0, inbox_start(in)); /* it has its thread */
	assert_int_equal(n, threads());
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

	/* There is room again; and for code that of both. */
	push(&q, Q_SAMPLE, 0, RECORD);
	n = push_all(&q, Q_CODE, MANY);
	got = take(in, Q_CODE, &bytes);
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

/* What fills the room to its last byte has room, and one more has none: who is told to have been
 * dropped then. */
static void fill(uint32_t type, uint64_t *samples, uint64_t *others)
{
	enum { LIMIT = 4096, HELD = 1024, MOST = LIMIT / 2 * 3 + LIMIT / 4 };
	struct queue q, *queues[] = { &q };
	struct inbox *in;
	size_t bytes;

	assert_int_equal(0, queue_init(&q, 1 << 20));
	in = inbox_create(queues, 1, &stats);
	assert_non_null(in);
	inbox_limit(in, LIMIT);
	for (uint64_t i = 0; i <= MOST / HELD; i++)
		push(&q, type, i, HELD - sizeof(struct inbox_item));
	assert_int_equal(MOST / HELD, take(in, type, &bytes));
	inbox_dropped(in, samples, others);
	inbox_destroy(in);
	queue_deinit(&q);
}

static void filled(void **state)
{
	uint64_t samples, others;

	fill(Q_CODE, &samples, &others);
	assert_int_equal(others, 1);
}

/* Of a wait whose end has no room the sample is missed elsewhere. */
static void ends_of_waits(void **state)
{
	uint64_t samples, others;

	fill(Q_WAIT, &samples, &others);
	assert_int_equal(samples, 0);
	assert_int_equal(others, 0);
}

/* A record that samples were lost tells how many, also where it has no room. */
static void lost_record_without_room(void **state)
{
	enum { LIMIT = 4096, LOST = 7 };
	uint64_t samples, others, lost = STATS_GET(&stats, lost);
	struct queue q, *queues[] = { &q };
	struct inbox *in;
	struct record r;
	size_t bytes;

	assert_int_equal(0, queue_init(&q, 1 << 20));
	in = inbox_create(queues, 1, &stats);
	assert_non_null(in);
	inbox_limit(in, LIMIT);
	push(&q, Q_SIDE, 0, LIMIT);
	record_begin(&r, PERF_RECORD_LOST, 0);
	record_u64(&r, 1);
	record_u64(&r, LOST);
	record_trailer(&r, 1, 10);
	for (int i = 0; i < LIMIT; i++) {
		memcpy(queue_reserve(&q, Q_SIDE, r.n), r.bytes, r.n);
		queue_commit(&q);
	}
	take(in, Q_TAPE, &bytes);
	inbox_dropped(in, &samples, &others);
	assert_in_range(others, 1, LIMIT - 1);
	assert_int_equal(STATS_GET(&stats, lost) - lost, LOST * others);
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

/* How many of 6000 records of @type, which have @n bytes each, are still there. */
static size_t kept(struct inbox *in, struct queue *q, uint32_t type, size_t n)
{
	uint64_t samples, others;
	size_t bytes, got;

	for (uint64_t i = 0; i < 6000; i++)
		push_as(q, type, i, n, true);
	got = take(in, type, &bytes);
	assert_int_equal(got * n, bytes);
	inbox_dropped(in, &samples, &others);
	assert_int_equal(6000 - got, type == Q_SAMPLE ? samples : others);
	assert_int_equal(0, type == Q_SAMPLE ? others : samples);
	return got;
}

/* A tape's records go as samples do, and others last, code behind maps. No thread empties the queue
 * here. */
static void limited(void **state)
{
	enum { N = 1000, EACH = N + sizeof(struct inbox_item) };
	static const struct {
		size_t limit, samples, others;
	} rows[] = {
		{ 1 << 20, 1 << 20, (1 << 20) / 4 * 7 },
		{ 2 << 20, 2 << 20, (2 << 20) / 4 * 7 },
		{ 4000, 4000, 7000 },
	};
	struct queue q, *queues[] = { &q };
	struct inbox *in;

	assert_int_equal(0, queue_init(&q, 8 << 20));
	in = inbox_create(queues, 1, &stats);
	assert_non_null(in);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t sides = rows[i].others - rows[i].limit / 4 * 3 / 4;

		inbox_limit(in, rows[i].limit);
		assert_int_equal(rows[i].samples / EACH, kept(in, &q, Q_SAMPLE, N));
		assert_int_equal(rows[i].samples / EACH, kept(in, &q, Q_TAPE, N));
		assert_int_equal(sides / EACH, kept(in, &q, Q_SIDE, N));
		assert_int_equal(rows[i].others / EACH, kept(in, &q, Q_CODE, N));
	}
	inbox_limit(in, SIZE_MAX);
	assert_int_equal(6000, kept(in, &q, Q_SAMPLE, N));
	inbox_destroy(in);
	queue_deinit(&q);
}

/* Side records without end leave room to samples and to code, each time. */
static void sides_leave_some(void **state)
{
	enum { N = 1000, EACH = N + sizeof(struct inbox_item), LIMIT = 1 << 20 };
	const size_t left = LIMIT / 4 * 3 / 4 / EACH;
	struct queue q, *queues[] = { &q };
	struct inbox_item *items;
	struct inbox *in;
	size_t n;

	assert_int_equal(0, queue_init(&q, 8 << 20));
	in = inbox_create(queues, 1, &stats);
	assert_non_null(in);
	inbox_limit(in, LIMIT);
	for (int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < 6000; i++)
			push_as(&q, Q_SIDE, i, N, true);
		inbox_take(in, &items, &n);
		inbox_dropped(in, &(uint64_t){ 0 }, &(uint64_t){ 0 });
		assert_int_equal(left, kept(in, &q, Q_SAMPLE, N));
		assert_int_equal(left, kept(in, &q, Q_TAPE, N));
		assert_in_range(kept(in, &q, Q_CODE, N), left, left + 1);
		for (size_t i = 0; i < n; i++)
			inbox_free(in, &items[i]);
		free(items);
	}
	assert_int_equal(LIMIT / EACH, kept(in, &q, Q_SAMPLE, N));
	inbox_destroy(in);
	queue_deinit(&q);
}

/* Stacks are dropped first, and nothing else of their samples. */
static void stacks_are_cut(void **state)
{
	enum { N = 1000, LIMIT = 64 << 10, EACH = N + sizeof(struct inbox_item) };
	size_t whole = 0, n, dropped = STATS_GET(&stats, stack_dropped);
	struct queue q, *queues[] = { &q };
	struct inbox_item *items;
	struct inbox *in;

	assert_int_equal(0, queue_init(&q, 1 << 20));
	in = inbox_create(queues, 1, &stats);
	inbox_limit(in, LIMIT);
	for (uint64_t i = 0; i < 80; i++)
		push(&q, Q_SAMPLE, i, N);
	inbox_take(in, &items, &n);
	assert_int_equal(80, n);
	for (size_t i = 0; i < n; i++) {
		const struct q_sample *s = (const void *)items[i].data;

		assert_int_equal(Q_SAMPLE, items[i].type);
		assert_int_equal(i, s->sample.time);
		assert_int_equal(N - sizeof(*s), s->n_stack ? s->n_stack : N - sizeof(*s));
		assert_int_equal(s->n_stack ? N : sizeof(*s), items[i].n);
		whole += s->n_stack && whole == i;
		inbox_free(in, &items[i]);
	}
	/* One more than fit, for what is there already decides. */
	assert_int_equal((LIMIT / 4 * 3) / EACH + 1, whole);
	assert_int_equal(n - whole, STATS_GET(&stats, stack_dropped) - dropped);
	free(items);
	inbox_destroy(in);
	queue_deinit(&q);
}

/* Of several queues, one added later: each one's records in order, one queue's after another's.
 */
static void several_queues(void **state)
{
	struct queue q[3], *queues[3] = { &q[0], &q[1] };
	static const size_t order[] = { 0, 0, 1, 1, 2, 2 };
	struct inbox_item *items;
	struct inbox *in;
	size_t n;

	for (size_t i = 0; i < 3; i++)
		assert_int_equal(0, queue_init(&q[i], 1 << 16));
	in = inbox_create(queues, 2, &stats);
	inbox_add(in, &q[2]);
	for (size_t i = 0; i < 3; i++)
		assert_true(q[i].hurry >= 0 && q[i].hurry == q[0].hurry);
	for (uint64_t k = 0; k < 2; k++)
		for (size_t i = 3; i-- > 0;)
			push(&q[i], Q_SIDE, 10 * i + k, 64);
	inbox_take(in, &items, &n);
	assert_int_equal(6, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(64, items[i].n);
		assert_int_equal(10 * order[i] + i % 2, load_u64(items[i].data));
		inbox_free(in, &items[i]);
	}
	free(items);
	inbox_take(in, &items, &n);
	assert_int_equal(0, n);
	assert_null(items);
	inbox_destroy(in);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(-1, q[i].hurry);
		queue_deinit(&q[i]);
	}
}

/* Its thread costs nothing until a queue is half full: what lies there is left to who takes. */
static void sleeps_until_it_is_hurried(void **state)
{
	const struct timespec step = { .tv_nsec = 1000000 };
	struct queue q, *queues[] = { &q };
	struct inbox *in;
	size_t bytes;

	assert_int_equal(0, queue_init(&q, 1 << 20));
	in = inbox_create(queues, 1, &stats);
	assert_non_null(in);
	assert_int_equal(0, inbox_start(in));
	push(&q, Q_SAMPLE, 0, RECORD);
	for (int ms = 0; ms < 50; ms++) {
		nanosleep(&step, NULL);
		assert_non_null(queue_peek(&q));
	}
	assert_int_equal(1, take(in, Q_SAMPLE, &bytes));
	assert_null(queue_peek(&q));
	inbox_destroy(in);
	queue_deinit(&q);
}

/* Its thread comes before busy targets, and asks for that itself: none of our others does. */
static void comes_before_others(void **state)
{
	const struct timespec step = { .tv_nsec = 1000000 };
	struct queue q, *queues[] = { &q };
	struct inbox *in;

	assert_int_equal(0, queue_init(&q, 1 << 20));
	in = inbox_create(queues, 1, &stats);
	assert_non_null(in);
	priority.tid = 0;
	assert_int_equal(0, inbox_start(in));
	for (int ms = 0; ms < 20000 && !priority.tid; ms++)
		nanosleep(&step, NULL);
	inbox_destroy(in);
	assert_true(priority.tid && priority.tid != gettid());
	assert_int_equal(PRIO_PROCESS, priority.which);
	assert_int_equal(0, priority.who);
	assert_int_equal(-15, priority.nice);
	queue_deinit(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filled),	  cmocka_unit_test(lost_record_without_room),
		cmocka_unit_test(ends_of_waits),
		cmocka_unit_test(bounded),	  cmocka_unit_test(handed_out_counts),
		cmocka_unit_test(limited),	  cmocka_unit_test(stacks_are_cut),
		cmocka_unit_test(sides_leave_some),
		cmocka_unit_test(several_queues), cmocka_unit_test(sleeps_until_it_is_hurried),
		cmocka_unit_test(comes_before_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
