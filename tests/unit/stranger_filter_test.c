/* SPDX-License-Identifier: MIT
 *
 * stranger_filter: on a real event of a CPU, with ourselves as the stranger. Skipped where the
 * rights are missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "perf_event.h"
#include "bpf/stranger_filter.h"

enum { PERIOD_NS = 200000, BURN_NS = 100000000 };

/* A clock on this CPU, for all that it runs; -1: no right. */
static int open_clock(struct perf_ring *ring)
{
	struct perf_event_attr a = {
		.size = sizeof(a),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD_NS,
		.sample_type = PERF_SAMPLE_TID,
	};
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	return perf_ring_map(ring, &a, -1, cpu, 64);
}

/* Our own samples while we burn CPU time. */
static size_t own_samples(struct perf_ring *ring)
{
	_Alignas(8) static unsigned char bounce[PERF_RECORD_BYTES];
	uint64_t until = now_ns() + BURN_NS, head;
	size_t n = 0;

	while (now_ns() < until)
		;
	head = perf_ring_head(ring);
	for (uint64_t pos = perf_ring_tail(ring); pos < head;) {
		const struct perf_event_header *h = perf_ring_at(ring, pos, bounce);

		assert_non_null(h);
		n += h->type == PERF_RECORD_SAMPLE &&
		     *(const uint32_t *)(const void *)(h + 1) == (uint32_t)getpid();
		pos += h->size;
	}
	perf_ring_consume(ring, head);
	return n;
}

static void test_strangers_leave_no_sample(void **state)
{
	struct stranger_filter f;
	struct perf_ring ring;

	(void)state;
	if (open_clock(&ring) < 0 || stranger_filter_init(&f, NULL) < 0)
		skip();
	assert_int_equal(stranger_filter_attach(&f, ring.fd, 0), 0);
	own_samples(&ring);
	assert_int_equal(own_samples(&ring), 0); /* whoever filters is a stranger */
	stranger_filter_add(&f, getpid(), 0);
	assert_true(own_samples(&ring) > 10);
	stranger_filter_add(&f, getpid(), now_ns() + 1000000000000);
	own_samples(&ring);
	assert_int_equal(own_samples(&ring), 0);
	stranger_filter_add(&f, getpid(), now_ns() + 10000000); /* for a while */
	own_samples(&ring);
	assert_true(own_samples(&ring) > 10);
	stranger_filter_deinit(&f);
	perf_ring_close(&ring);
}

static void test_no_filter_does_nothing(void **state)
{
	struct stranger_filter none = { .map = -1 };

	(void)state;
	assert_int_equal(stranger_filter_attach(&none, -1, 0), 0);
	stranger_filter_add(&none, 1, 0);
	stranger_filter_deinit(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strangers_leave_no_sample),
		cmocka_unit_test(test_no_filter_does_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
