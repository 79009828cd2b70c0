/* SPDX-License-Identifier: MIT
 *
 * stranger_filter: on a real event of a CPU, with ourselves as the stranger. Skipped where the
 * rights are missing.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "base/clock.h"
#include "perf_event.h"
#include "bpf/run_table.h"
#include "bpf/stranger_filter.h"
#include "sys/proc.h"

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

static size_t samples_of(struct perf_ring *ring, pid_t pid)
{
	_Alignas(8) static unsigned char bounce[PERF_RECORD_BYTES];
	uint64_t head = perf_ring_head(ring);
	size_t n = 0;

	for (uint64_t pos = perf_ring_tail(ring); pos < head;) {
		const struct perf_event_header *h = perf_ring_at(ring, pos, bounce);

		assert_non_null(h);
		n += h->type == PERF_RECORD_SAMPLE &&
		     *(const uint32_t *)(const void *)(h + 1) == (uint32_t)pid;
		pos += h->size;
	}
	perf_ring_consume(ring, head);
	return n;
}

/* Our own samples while we burn CPU time. */
static size_t own_samples(struct perf_ring *ring)
{
	pid_t pid = getpid();
	uint64_t until = proc_ran_ns(pid, pid) + BURN_NS;

	while (proc_ran_ns(pid, pid) < until)
		;
	return samples_of(ring, pid);
}

/* Those of a child that burns it, once it has used so much. */
static size_t child_samples(struct perf_ring *ring, pid_t pid)
{
	uint64_t until = proc_ran_ns(pid, pid) + BURN_NS;

	while (proc_ran_ns(pid, pid) < until)
		usleep(1000);
	return samples_of(ring, pid);
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

/* A stranger that becomes another program is none any more; nor is one for long that has become
 * it a moment before. */
static void test_another_program_passes(void **state)
{
	struct stranger_filter f;
	struct run_table table;
	struct perf_ring ring;
	size_t samples = 0;
	int in[2];
	pid_t pid;

	(void)state;
	if (open_clock(&ring) < 0 || run_table_init(&table, 1024, false) < 0)
		skip();
	assert_int_equal(stranger_filter_init(&f, &table), 0);
	assert_int_equal(stranger_filter_attach(&f, ring.fd, 0), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		char byte;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (read(in[0], &byte, 1) != 1)
			;
		fcntl(in[0], F_SETFL, O_NONBLOCK);
		while (read(in[0], &byte, 1) != 1) /* it burns */
			;
		execl("/bin/sh", "sh", "-c", "while :; do :; done", NULL);
		_exit(1);
	}
	assert_true(pid > 0);
	stranger_filter_add(&f, pid, now_ns() + STRANGER_NS);
	samples_of(&ring, pid);
	assert_int_equal(write(in[1], "x", 1), 1);
	usleep(BURN_NS / 2000);
	assert_int_equal(samples_of(&ring, pid), 0);
	assert_int_equal(write(in[1], "x", 1), 1);
	while (!run_table_execed(&table, pid, 0))
		usleep(1000);
	assert_true(child_samples(&ring, pid) > 10);
	stranger_filter_add(&f, pid, now_ns() + STRANGER_NS);
	for (int i = 0; i < 3; i++)
		samples = child_samples(&ring, pid);
	assert_true(samples > 10);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(in[0]);
	close(in[1]);
	stranger_filter_deinit(&f);
	run_table_deinit(&table);
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
		cmocka_unit_test(test_another_program_passes),
		cmocka_unit_test(test_no_filter_does_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
