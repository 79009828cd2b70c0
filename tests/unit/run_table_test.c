/* SPDX-License-Identifier: MIT
 *
 * run_table: on real events of the CPUs, with children of ours that are moved, leave and exec.
 * Skipped where the rights are missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cpus.h"
#include "perf_event.h"
#include "run_table.h"
#include "stranger_filter.h"

enum { PERIOD_NS = 1000000, SOON_NS = 1000000000 };

struct world {
	struct run_table table;
	struct stranger_filter filter;
	struct perf_ring ring[2];
	int fds[8], n_fds, cpu[2];
};

static void pin(pid_t pid, int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	assert_int_equal(sched_setaffinity(pid, sizeof(one), &one), 0);
}

static int keep(struct world *w, int fd)
{
	assert_true(fd >= 0);
	w->fds[w->n_fds++] = fd;
	return fd;
}

/* As attach does for a CPU: a clock, who leaves, who comes. */
static void watch(struct world *w, int i)
{
	struct perf_event_attr clock = { .size = sizeof(clock),
					 .type = PERF_TYPE_SOFTWARE,
					 .config = PERF_COUNT_SW_CPU_CLOCK,
					 .sample_period = PERIOD_NS,
					 .exclude_idle = 1,
					 .sample_type = PERF_SAMPLE_TID };
	struct perf_event_attr leaves = { .size = sizeof(leaves),
					  .type = PERF_TYPE_SOFTWARE,
					  .config = PERF_COUNT_SW_CONTEXT_SWITCHES,
					  .sample_period = 1,
					  .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME };
	struct perf_event_attr comes = perf_event_coming();
	int fd;

	assert_int_equal(perf_ring_map(&w->ring[i], &leaves, -1, w->cpu[i], 64), 0);
	assert_int_equal(run_table_watch_outs(&w->table, w->ring[i].fd), 0);
	fd = keep(w, perf_event_open_in(&comes, -1, w->cpu[i], -1));
	assert_int_equal(run_table_watch_ins(&w->table, fd), 0);
	fd = keep(w, perf_event_open_in(&clock, -1, w->cpu[i], -1));
	assert_int_equal(stranger_filter_attach(&w->filter, fd, 0), 0);
}

static int setup(void **state)
{
	static struct world w;
	struct cpus online;

	*state = &w;
	assert_int_equal(cpus_system(&online, "online"), 0);
	w.cpu[0] = cpus_next(&online, 0);
	w.cpu[1] = cpus_next(&online, w.cpu[0] + 1);
	if (w.cpu[1] < 0 || run_table_init(&w.table, (uint32_t)w.cpu[1] + 1) < 0)
		_exit(77);
	assert_int_equal(stranger_filter_init(&w.filter, &w.table), 0);
	watch(&w, 0);
	watch(&w, 1);
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	while (w->n_fds)
		close(w->fds[--w->n_fds]);
	perf_ring_close(&w->ring[0]);
	perf_ring_close(&w->ring[1]);
	stranger_filter_deinit(&w->filter);
	run_table_deinit(&w->table);
	return 0;
}

static pid_t spinner(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* after a failure nobody ends it */
	while (!pid)
		;
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void nap(void)
{
	usleep(20000);
}

/* Until it holds, or for a second. */
#define SOON(what)                                   \
	do {                                         \
		uint64_t until = now_ns() + SOON_NS; \
		while (!(what) && now_ns() < until)  \
			nap();                       \
		assert_true(what);                   \
	} while (0)

static void who_is_moved_is_noted(void **state)
{
	struct world *w = *state;
	pid_t pid = spinner();
	uint64_t since;

	pin(pid, w->cpu[0]);
	nap();
	since = now_ns();
	nap();
	assert_false(run_table_moved(&w->table, pid, since));
	pin(pid, w->cpu[1]);
	SOON(run_table_moved(&w->table, pid, since));
	assert_false(run_table_moved(&w->table, pid, now_ns()));
	end(pid);
}

/* We, on the spinner's CPU, wake up: it leaves. Then it stays until we sleep. */
static void who_left_stays_until_it_is_back_and_left_again(void **state)
{
	struct sched_param fifo = { .sched_priority = 1 };
	struct world *w = *state;
	pid_t pid = spinner();
	bool stays = false, stayed = true;
	uint64_t before = 0, left = 0;

	pin(pid, w->cpu[0]);
	pin(0, w->cpu[0]);
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) < 0)
		skip();
	for (int i = 0; i < 100 && !stays; i++) {
		before = now_ns();
		nap();
		left = now_ns();
		stays = run_table_stays(&w->table, pid, before, left);
	}
	assert_true(stays);
	for (int i = 0; i < 1000; i++)
		stayed = stayed && run_table_stays(&w->table, pid, before, left);
	assert_true(stayed);
	/* Of several times that it is on and off again only one is armed by a sample. */
	for (int i = 0; i < 5; i++)
		usleep(50);
	assert_false(run_table_stays(&w->table, pid, now_ns(), UINT64_MAX));
	SOON(!run_table_stays(&w->table, pid, before, left));
	/* Sampled again meanwhile, it leaves with a record, but another one. */
	for (int i = 0; i < 100; i++) {
		usleep(2 * PERIOD_NS / 1000);
		stayed = stayed && !run_table_stays(&w->table, pid, before, left);
	}
	assert_true(stayed);
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
	end(pid);
}

/* There it is sampled too, and leaves with a record as often as the other one's turn comes. */
static void who_left_elsewhere_does_not_stay(void **state)
{
	struct sched_param fifo = { .sched_priority = 1 };
	struct world *w = *state;
	pid_t pid = spinner(), other = spinner();
	bool stays = false;
	uint64_t before = 0;

	pin(pid, w->cpu[0]);
	pin(other, w->cpu[1]);
	pin(0, w->cpu[0]);
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) < 0)
		skip();
	for (int i = 0; i < 100 && !stays; i++) {
		before = now_ns();
		nap();
		stays = run_table_stays(&w->table, pid, before, UINT64_MAX);
	}
	assert_true(stays);
	pin(pid, w->cpu[1]);
	SOON(run_table_moved(&w->table, pid, before));
	stays = false;
	for (int i = 0; i < 1000; i++) {
		usleep(200);
		stays = stays || run_table_stays(&w->table, pid, before, UINT64_MAX);
	}
	assert_false(stays);
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
	end(pid);
	end(other);
}

static void an_exec_is_noted(void **state)
{
	struct world *w = *state;
	uint64_t since = now_ns();
	pid_t pid = fork();

	if (!pid) {
		nap();
		execl("/bin/sh", "sh", "-c", "sleep 0.2", (char *)NULL);
		_exit(1);
	}
	assert_false(run_table_execed(&w->table, pid, since));
	SOON(run_table_execed(&w->table, pid, since));
	waitpid(pid, NULL, 0);
}

static void who_is_dropped_is_counted(void **state)
{
	struct world *w = *state;
	pid_t pid = spinner();
	uint64_t before = run_table_dropped(&w->table, 0);

	stranger_filter_add(&w->filter, pid, UINT64_MAX);
	SOON(run_table_dropped(&w->table, 0) > before + 20);
	assert_int_equal(run_table_dropped(&w->table, 1), 0);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_moved_is_noted),
		cmocka_unit_test(who_left_stays_until_it_is_back_and_left_again),
		cmocka_unit_test(who_left_elsewhere_does_not_stay),
		cmocka_unit_test(an_exec_is_noted),
		cmocka_unit_test(who_is_dropped_is_counted),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
