/* SPDX-License-Identifier: MIT
 *
 * run_table: on real events of the CPUs, with children of ours that are moved, leave and exec.
 * Skipped where the rights are missing.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "base/clock.h"
#include "sys/cpus.h"
#include "perf_event.h"
#include "sys/proc.h"
#include "bpf/run_table.h"
#include "bpf/stranger_filter.h"

enum { PERIOD_NS = 1000000, SOON_NS = 1000000000, LATE_S = 20 };

struct world {
	struct run_table table;
	struct stranger_filter filter;
	struct perf_ring ring[2];
	int fds[8], n_fds, cpu[2];
	pid_t spinner;
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

/* As attach does for a CPU: a clock, and who leaves. */
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
	int fd;

	assert_int_equal(perf_ring_map(&w->ring[i], &leaves, -1, w->cpu[i], 64), 0);
	assert_int_equal(run_table_watch(&w->table, w->ring[i].fd), 0);
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
	if (w.cpu[1] < 0 || run_table_init(&w.table, (uint32_t)w.cpu[1] + 1, true) < 0)
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

/* Until it holds, or for long. */
#define SOON(what)                                                       \
	do {                                                             \
		uint64_t until = now_ns() + LATE_S * (uint64_t)SOON_NS;  \
		while (!(what) && now_ns() < until)                      \
			nap();                                           \
		assert_true(what);                                       \
	} while (0)

/* We, on the spinner's CPU, wake up: it leaves, with a record after a sample. When it came. */
static uint64_t stopped(struct world *w, pid_t pid)
{
	uint64_t came = UINT64_MAX;

	for (int i = 0; i < 100 && came == UINT64_MAX; i++) {
		nap();
		came = run_table_came(&w->table, pid);
	}
	return came;
}

static void begin(struct world *w, pid_t pid)
{
	struct sched_param fifo = { .sched_priority = 1 };

	w->spinner = pid;
	pin(pid, w->cpu[0]);
	pin(0, w->cpu[0]);
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) < 0)
		skip();
}

/* Also after a failure. */
static int over(void **state)
{
	struct world *w = *state;

	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
	end(w->spinner);
	return 0;
}

static void who_stands_still_came_before(void **state)
{
	struct world *w = *state;
	pid_t pid = spinner();
	uint64_t came, now;

	assert_true(run_table_came(&w->table, INT32_MAX) == UINT64_MAX); /* never sampled */
	begin(w, pid);
	came = stopped(w, pid);
	now = now_ns();
	assert_true(came < now);
	for (int i = 0; i < 1000; i++)
		assert_true(run_table_came(&w->table, pid) == came);
	/* On the same CPU again, for as long as we sleep. */
	for (uint64_t until = now_ns() + SOON_NS;
	     run_table_came(&w->table, pid) == came && now_ns() < until;)
		usleep(1000);
	assert_true(run_table_came(&w->table, pid) > now);
}

/* There nobody gives a record of its leaving, or another one. */
static void who_came_onto_another_cpu_came_later(void **state)
{
	struct world *w = *state;
	pid_t pid = spinner();
	uint64_t now, ran, back;

	begin(w, pid);
	assert_true(stopped(w, pid) < now_ns());
	now = now_ns();
	assert_false(run_table_left_another(&w->table, pid, w->cpu[0], now));
	pin(pid, w->cpu[1]); /* we do not sleep meanwhile */
	/* It may have run beside us: others with SCHED_FIFO use up our CPU's real-time budget. In
	 * pieces, so that one of its periods has no sample. */
	ran = proc_ran_ns(pid, pid);
	for (uint64_t until = now_ns() + SOON_NS;
	     proc_ran_ns(pid, pid) < ran + 4 * PERIOD_NS && now_ns() < until;)
		;
	if (proc_ran_ns(pid, pid) < ran + 4 * PERIOD_NS)
		skip(); /* the other CPU has no time for it */
	assert_true(run_table_came(&w->table, pid) > now);
	/* Back again, where it waits for us: that it was away shows. */
	back = now_ns();
	pin(pid, w->cpu[0]);
	if (run_table_came(&w->table, pid) > back)
		skip(); /* it has run beside us */
	assert_true(run_table_left_another(&w->table, pid, w->cpu[0], now));
	assert_false(run_table_left_another(&w->table, pid, w->cpu[0], now_ns()));
	assert_false(run_table_left_another(&w->table, pid, w->cpu[1], now));
	assert_false(run_table_left_another(&w->table, INT32_MAX, w->cpu[0], 0));
}

static void an_exec_is_noted(void **state)
{
	struct world *w = *state;
	uint64_t since = now_ns();
	char byte;
	int go[2];
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (!pid) {
		if (read(go[0], &byte, 1) == 1)
			execl("/bin/sh", "sh", "-c", "sleep 0.2", (char *)NULL);
		_exit(1);
	}
	assert_false(run_table_execed(&w->table, pid, since));
	assert_int_equal(write(go[1], "", 1), 1);
	SOON(run_table_execed(&w->table, pid, since));
	waitpid(pid, NULL, 0);
	close(go[0]), close(go[1]);
}

static void who_is_dropped_is_counted(void **state)
{
	struct world *w = *state;
	pid_t pid = spinner();
	uint64_t before = run_table_dropped(&w->table, 0);

	stranger_filter_add(&w->filter, pid, UINT64_MAX);
	/* It shares its CPU with whoever is there. */
	for (uint64_t ran = proc_ran_ns(pid, pid); proc_ran_ns(pid, pid) < ran + 40 * PERIOD_NS;)
		nap();
	assert_true(run_table_dropped(&w->table, 0) > before + 20);
	assert_int_equal(run_table_dropped(&w->table, 1), 0);
	end(pid);
}

static bool is_called(struct world *w, pid_t pid, const char *want)
{
	char name[RUN_TABLE_NAME];

	return run_table_name(&w->table, pid, name) && !strcmp(name, want);
}

/* The name at a sample, also of who has ended since. */
static void who_is_sampled_has_its_name(void **state)
{
	struct world *w = *state;
	char name[RUN_TABLE_NAME];
	_Atomic bool *go = mmap(NULL, sizeof(*go), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "first name");
		while (!atomic_load(go))
			;
		prctl(PR_SET_NAME, "another, of 15+");
		for (;;)
			;
	}
	assert_false(run_table_name(&w->table, getpid(), name)); /* we are a stranger */
	SOON(is_called(w, pid, "first name"));
	atomic_store(go, true);
	SOON(is_called(w, pid, "another, of 15+"));
	end(pid);
	assert_true(is_called(w, pid, "another, of 15+"));
}

/* The program of raw tracepoint @link, which runs with @args as if these were of an occurrence.
 * False: an old kernel can't do that (5.10). */
static bool occurs(int link, const uint64_t *args, size_t n)
{
	struct bpf_link_info info = { 0 };
	union bpf_attr a = { .info = { .bpf_fd = (uint32_t)link,
				       .info_len = sizeof(info),
				       .info = (uintptr_t)&info } };
	long fd, r;

	if (syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &a, sizeof(a)) < 0)
		return false;
	a = (union bpf_attr){ .prog_id = info.prog_id };
	fd = syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &a, sizeof(a));
	assert_true(fd >= 0);
	a = (union bpf_attr){ .test = { .prog_fd = (uint32_t)fd,
					.ctx_in = (uintptr_t)args,
					.ctx_size_in = (uint32_t)(n * sizeof(*args)) } };
	r = syscall(SYS_bpf, BPF_PROG_TEST_RUN, &a, sizeof(a));
	close((int)fd);
	return r == 0;
}

/* A CPU's events are gone as it goes down, and neither as it comes up nor as a module that is
 * loaded wants to be told of both. */
static void a_cpu_goes_down(void **state)
{
	enum { TEARDOWN = 144, PERF_ONLINE = 154, ONLINE = 236 };
	static const struct {
		uint64_t target, step;
		bool goes;
	} rows[] = {
		{ ONLINE, 199, false },	       { ONLINE, ONLINE, false },
		{ ONLINE, PERF_ONLINE, false }, { TEARDOWN, PERF_ONLINE, true },
		{ 0, 38, true },	       { 0, 1, true },
		{ 100, 38, false },	       { 100, 101, true },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const uint64_t args[] = { (uint64_t)w->cpu[0], rows[i].target, rows[i].step, 0 };
		uint64_t before = run_table_hotplug(&w->table, w->cpu[0]), now = now_ns();

		if (!occurs(w->table.link[2], args, ARRAY_SIZE(args)))
			skip();
		if (run_table_hotplug(&w->table, w->cpu[0]) != before && !rows[i].goes)
			fail_msg("row %zu is noted", i);
		if (run_table_hotplug(&w->table, w->cpu[0]) < now && rows[i].goes)
			fail_msg("row %zu is not noted", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(who_stands_still_came_before, over),
		cmocka_unit_test_teardown(who_came_onto_another_cpu_came_later, over),
		cmocka_unit_test(an_exec_is_noted),
		cmocka_unit_test(a_cpu_goes_down),
		cmocka_unit_test(who_is_dropped_is_counted),
		cmocka_unit_test(who_is_sampled_has_its_name),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
