/* SPDX-License-Identifier: MIT
 *
 * overload_test - more comes than the resolver can work off: stack bytes go first, then
 * samples, never maps and names; what is kept is bounded, and all of it is in the books.
 */
#include <stdlib.h>
#include <time.h>

#include "unit.h"
#include "base/base.h"
#include "stacks/inbox.h"
#include "perf_records.h"
#include "stacks/resolver.h"
#include "sample/sink.h"
#include "base/stats.h"

enum {
	CPUS = 2,
	RECORD = 60000,
	SIDES = 1000,
	STACKS_MOST = INBOX_STACK_BYTES + CPUS * INBOX_CPU_BYTES,
	SAMPLES_MOST = INBOX_SAMPLE_BYTES + CPUS * INBOX_CPU_BYTES,
	MORE = 16 << 20,
};

/* Samples say by their address which they are. */
enum { FIRST, WITH_STACK, WITHOUT, KINDS };

static struct {
	_Atomic bool stuck, go;
	uint64_t n[KINDS], sides;
} sink_saw;

static void wait_for(_Atomic bool *what)
{
	const struct timespec step = { .tv_nsec = 1000000 };

	while (!*what)
		nanosleep(&step, NULL);
}

static int slow_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	if (smp->addr == FIRST) {
		sink_saw.stuck = true;
		wait_for(&sink_saw.go);
	}
	sink_saw.n[smp->addr]++;
	return 0;
}

static int slow_side(struct sink *s, const struct side *side)
{
	sink_saw.sides++;
	return 0;
}

static const struct sink_ops slow = { .name = "slow",
				      .sample = slow_sample,
				      .side = slow_side };

/* The inbox's thread makes room, whoever is stuck. */
static void *room(struct queue *q, uint32_t type, size_t n)
{
	const struct timespec step = { .tv_nsec = 100000 };
	void *to;

	while (!(to = queue_reserve(q, type, n)))
		nanosleep(&step, NULL);
	return to;
}

static void push(struct queue *q, unsigned kind)
{
	const uint32_t rest = RECORD - sizeof(struct q_sample);
	struct q_sample *to = room(q, Q_SAMPLE, RECORD);

	memset(to, 0, RECORD);
	*to = (struct q_sample){
		.sample = { .addr = kind, .time = kind + 1, .prov = PROV_NOPYTHON },
		.n_kernel = kind == WITHOUT ? rest / 8 : 0,
		.n_stack = kind == WITH_STACK ? rest : 0
	};
	queue_commit(q);
}

static size_t push_all(struct queue *q, unsigned kind, size_t bytes)
{
	for (size_t i = 0; i < bytes / RECORD; i++)
		push(&q[i % CPUS], kind);
	return bytes / RECORD;
}

static void push_side(struct queue *q)
{
	struct record r;

	record_comm(&r, 0, "x", 10);
	memcpy(room(q, Q_SIDE, r.n), r.bytes, r.n);
	queue_commit(q);
}

static uint64_t written(const struct resolver_counts *c)
{
	uint64_t n = 0;

	for (int i = 0; i < PROV_N; i++)
		n += c->by_prov[i];
	return n;
}

static void books(void **state)
{
	struct stats stats = { 0 };
	const struct session session = { .stats = &stats };
	struct queue q[CPUS], *queues[CPUS] = { &q[0], &q[1] };
	struct sink sink = { .ops = &slow };
	const struct resolver_config c = { .session = &session,
					   .queues = queues,
					   .n_queues = CPUS,
					   .sinks = { &sink },
					   .n_sinks = 1 };
	struct resolver_counts counts;
	struct resolver *r;
	uint64_t n_stacks, n_without, dropped;

	assert_int_equal(queue_init(&q[0], 1 << 20) | queue_init(&q[1], 1 << 20), 0);
	r = resolver_create(&c);
	assert_non_null(r);
	assert_int_equal(resolver_start(r), 0);
	push(&q[0], FIRST);
	wait_for(&sink_saw.stuck);
	n_stacks = push_all(q, WITH_STACK, STACKS_MOST + MORE);
	n_without = push_all(q, WITHOUT, SAMPLES_MOST - STACKS_MOST + MORE);
	for (int i = 0; i < SIDES; i++)
		push_side(&q[i % CPUS]);
	sink_saw.go = true;
	resolver_stop(r, &counts);
	resolver_destroy(r);

	/* First stack bytes: of those beyond the bound, whose samples are all there. */
	dropped = STATS_GET(&stats, stack_dropped);
	assert_int_equal(sink_saw.n[WITH_STACK], n_stacks);
	assert_in_range((n_stacks - dropped) * RECORD, STACKS_MOST - MORE / 8,
			STACKS_MOST + RECORD);
	/* Then samples, each counted; the resolver was given what is in no other book. */
	assert_in_range(sink_saw.n[WITHOUT] * RECORD, SAMPLES_MOST - STACKS_MOST - MORE / 8,
			SAMPLES_MOST - STACKS_MOST + RECORD);
	assert_int_equal(STATS_GET(&stats, queue_full), n_without - sink_saw.n[WITHOUT]);
	assert_int_equal(STATS_GET(&stats, lost), STATS_GET(&stats, queue_full));
	assert_int_equal(written(&counts) + STATS_GET(&stats, lost), 1 + n_stacks + n_without);
	/* Names and maps last. */
	assert_int_equal(STATS_GET(&stats, side_lost), 0);
	assert_int_equal(sink_saw.sides, SIDES);
	queue_deinit(&q[0]);
	queue_deinit(&q[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(books) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
