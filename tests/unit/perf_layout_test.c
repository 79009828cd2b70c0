/* SPDX-License-Identifier: MIT
 *
 * perf_layout_test - records of events as anybody opens them, their order, and equal stacks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "../../output/perf_chains.h"
#include "../../output/perf_layout.h"
#include "../../output/perf_order.h"

static uint64_t words[64];
static size_t n_words;

static void put(uint64_t v)
{
	words[++n_words] = v;
}

static const struct perf_event_header *record(uint32_t type)
{
	struct perf_event_header h = { .type = type, .size = (uint16_t)(8 + 8 * n_words) };

	memcpy(words, &h, sizeof(h));
	return (const void *)words;
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

static const struct perf_event_attr full = {
	.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
		       PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
		       PERF_SAMPLE_PERIOD | PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN |
		       PERF_SAMPLE_RAW | PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_REGS_USER |
		       PERF_SAMPLE_STACK_USER,
	.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED,
	.sample_regs_user = 5,
	.sample_id_all = 1,
};

static void put_full(bool counted)
{
	n_words = 0;
	put(0x1234);
	put(pair(10, 11));
	put(1000);
	put(99);
	put(7); /* id */
	put(8); /* stream */
	put(3); /* CPU */
	put(42);
	put(2); /* counters */
	put(1);
	for (uint64_t i = 0; i < 4; i++)
		put(50 + i);
	put(2); /* chain */
	put(PERF_CONTEXT_USER);
	put(0x1234);
	put(pair(4, 0)); /* raw: 4 bytes of length, 4 of it */
	put(1);		 /* branches */
	for (int i = 0; i < 3; i++)
		put(6);
	if (counted)
		put(0x55);
	put(PERF_SAMPLE_REGS_ABI_64);
	put(0xa);
	put(0xb);
	put(16); /* stack */
	put(0xc);
	put(0xd);
	put(8);
}

static void each_field_is_found(void **state)
{
	struct perf_taken t;
	uint64_t id;

	put_full(false);
	assert_int_equal(perf_layout_sample(&full, record(PERF_RECORD_SAMPLE), &t), 0);
	assert_int_equal(t.ip, 0x1234);
	assert_int_equal(t.pid, 10);
	assert_int_equal(t.tid, 11);
	assert_int_equal(t.time, 1000);
	assert_int_equal(t.addr, 99);
	assert_int_equal(t.cpu, 3);
	assert_int_equal(t.period, 42);
	assert_int_equal(t.n_chain, 2);
	assert_int_equal(load_u64(t.chain + 8), 0x1234);
	assert_int_equal(load_u64(t.regs + 8), 0xb);
	assert_int_equal(t.stack.n, 8);
	assert_int_equal(load_u64(t.stack.at), 0xc);
	assert_int_equal(t.n_group, 2);
	assert_int_equal(t.group_bytes, 16);
	assert_int_equal(load_u64(t.group), 50);
	assert_int_equal(load_u64(t.group + 24), 53);
	assert_int_equal(perf_layout_id(&full, record(PERF_RECORD_SAMPLE), &id), 0);
	assert_int_equal(id, 7);
	assert_int_equal(perf_layout_time(&full, record(PERF_RECORD_SAMPLE)), 1000);
}

static void branches_may_be_counted_and_be_calls(void **state)
{
	enum { COUNTERS = 1 << 19 };
	struct perf_event_attr a = full;
	struct perf_taken t;

	put_full(false);
	assert_int_equal(perf_layout_sample(&a, record(PERF_RECORD_SAMPLE), &t), 0);
	assert_int_equal(t.n_calls, 0);
	put_full(true);
	a.branch_sample_type = COUNTERS | PERF_SAMPLE_BRANCH_CALL_STACK;
	assert_int_equal(perf_layout_sample(&a, record(PERF_RECORD_SAMPLE), &t), 0);
	assert_int_equal(load_u64(t.regs + 8), 0xb);
	assert_int_equal(t.stack.n, 8);
	assert_int_equal(t.n_calls, 1);
	assert_int_equal(load_u64(t.calls), 6);
}

static void each_cut_is_refused(void **state)
{
	struct perf_taken t;
	size_t all;

	put_full(false);
	for (all = n_words; n_words-- > 0;)
		assert_int_equal(perf_layout_sample(&full, record(PERF_RECORD_SAMPLE), &t),
				 -EBADMSG);
	n_words = all;
	words[9] = UINT64_MAX / 8; /* counters */
	assert_int_equal(perf_layout_sample(&full, record(PERF_RECORD_SAMPLE), &t), -EBADMSG);
	put_full(false);
	words[15] = UINT64_MAX / 8; /* chain */
	assert_int_equal(perf_layout_sample(&full, record(PERF_RECORD_SAMPLE), &t), -EBADMSG);
}

/* Names stand before what sample_id_all adds, which is not ours in size. */
static void a_name_ends_before_the_trailer(void **state)
{
	const struct perf_event_attr a = { .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
							  PERF_SAMPLE_TIME,
					   .sample_id_all = 1 };
	struct side side;

	n_words = 0;
	put(pair(10, 11));
	put(0);
	memcpy(&words[n_words], "worker", 7);
	put(pair(10, 11));
	put(5000);
	assert_int_equal(perf_layout_side(&a, record(PERF_RECORD_COMM), &side), 0);
	assert_string_equal(side.u.comm.name, "worker");
	assert_int_equal(side.tid, 11);
	assert_int_equal(side.time, 5000);
	memset(&words[2], 'x', 8);
	assert_int_equal(perf_layout_side(&a, record(PERF_RECORD_COMM), &side), -EBADMSG);
}

/* It is the second string, if that ends before the trailer. */
static void a_title_stands_behind_the_name(void **state)
{
	static const struct {
		char text[17];
		const char *title;
	} rows[] = {
		{ "worker\0\0Main\0\0\0", NULL }, { "worker\0Main\0\0\0\0", "Main" },
		{ "worker\0Main.....", NULL },     { "worker-with-more", NULL },
		{ "worker-with-mor", NULL },	  { "\0Main", "Main" },
	};
	const struct perf_event_attr a = { .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID,
					   .sample_id_all = 1 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *title;

		n_words = 0;
		put(pair(10, 10));
		put(0);
		put(0);
		memcpy(&words[n_words - 1], rows[i].text, 16);
		put(pair('a', 'b'));
		title = perf_layout_title(&a, record(PERF_RECORD_COMM));
		assert_int_equal(!title, !rows[i].title);
		if (title)
			assert_string_equal(title, rows[i].title);
	}
	n_words = 0;
	assert_null(perf_layout_title(&a, record(PERF_RECORD_COMM)));
}

static char told[64];

static int tell(void *arg, const struct perf_event_header *h)
{
	told[strlen(told)] = (char)('a' + h->misc);
	return 0;
}

static void put_at(struct perf_order *o, uint16_t name, uint64_t time)
{
	struct perf_event_header h = { .misc = name, .size = sizeof(h) };

	assert_int_equal(perf_order_put(o, &h, time, tell, NULL), 0);
}

/* What came since the round before may still be older than what comes. */
static void rounds_are_sorted(void **state)
{
	struct perf_order o = { 0 };

	memset(told, 0, sizeof(told));
	put_at(&o, 1, 20);
	put_at(&o, 2, 40);
	put_at(&o, 0, 10);
	assert_int_equal(perf_order_round(&o, false, tell, NULL), 0);
	assert_string_equal(told, "");
	put_at(&o, 3, 30);
	put_at(&o, 4, 50);
	assert_int_equal(perf_order_round(&o, false, tell, NULL), 0);
	assert_string_equal(told, "abdc");
	assert_int_equal(perf_order_round(&o, true, tell, NULL), 0);
	assert_string_equal(told, "abdce");
	perf_order_deinit(&o);
}

static void equal_stacks_have_one_number(void **state)
{
	const uint64_t chain[] = { 1, 2, 3 }, other[] = { 1, 2, 4 };
	const uint64_t key[] = { 10, 1 }, later[] = { 10, 2 };
	struct perf_chains c = { 0 };
	struct perf_chain *k = perf_chains_find(&c, key, (const void *)chain, 3);
	uint32_t first = k->same;

	assert_true(k->fresh && first);
	k->fresh = false;
	k = perf_chains_find(&c, key, (const void *)chain, 3);
	assert_true(!k->fresh && k->same == first);
	assert_true(perf_chains_find(&c, key, (const void *)other, 3)->fresh);
	assert_true(perf_chains_find(&c, later, (const void *)chain, 3)->fresh);
	assert_true(perf_chains_find(&c, key, (const void *)chain, 2)->fresh);
	perf_chains_deinit(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_is_found),
		cmocka_unit_test(branches_may_be_counted_and_be_calls),
		cmocka_unit_test(each_cut_is_refused),
		cmocka_unit_test(a_name_ends_before_the_trailer),
		cmocka_unit_test(a_title_stands_behind_the_name),
		cmocka_unit_test(rounds_are_sorted),
		cmocka_unit_test(equal_stacks_have_one_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
