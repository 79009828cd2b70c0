/* SPDX-License-Identifier: MIT
 *
 * preempt: which priority and which CPUs readers get, what is said of those they do not get,
 * and where they then are; on a made-up machine, and on this one where it lets us.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "capture/capture.h"
#include "capture/preempt.h"
#include "base/stats.h"
#include "capture/reader_int.h"
#include "fake_machine.h"
#include "fake_rights.h"
#include "sys/realtime.h"

extern const struct capture_ops capture_preempt;

/* One more than the most urgent target, at most what there is; if that is too much, 1, each
 * tried once; and afterwards this thread is what it was, also if that was urgent. */
static void priorities_that_may_be_had(void **state)
{
	static const struct {
		int most, target, code, want;
	} rows[] = {
		{ 99, 0, 0, 1 },     { 99, 1, 0, 2 },	     { 99, 50, 0, 51 },
		{ 99, 98, 0, 99 },   { 99, 99, -EPERM, 99 }, { 1, 0, 0, 1 },
		{ 1, 1, -EPERM, 1 }, { 5, 4, 0, 5 },	     { 5, 5, -EPERM, 1 },
		{ 0, 0, -EPERM, 1 }, { 0, 7, -EPERM, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct preempt_plan plan = { .targets.rt = { .priority = rows[i].target,
							     .tid = 4711 } };
		const struct capture_want want = { .plan = &plan };
		struct err err = { 0 };
		char who[40];

		machine_begin(rows[i].most);
		machine.policy = SCHED_RR | SCHED_RESET_ON_FORK;
		machine.priority = 3;
		assert_int_equal(rows[i].code, capture_preempt.possible(&want, &err));
		assert_int_equal(rows[i].want, plan.priority);
		assert_int_equal(SCHED_RR | SCHED_RESET_ON_FORK, machine.policy);
		assert_int_equal(3, machine.priority);
		assert_int_equal(rows[i].most ? 2 : 0, machine.n_set); /* and back */
		assert_int_equal(rows[i].target && rows[i].target >= rows[i].most &&
						 rows[i].most < 99 ?
					 2 :
					 1,
				 machine.n_tries);
		if (!rows[i].code)
			continue;
		if (!rows[i].most) {
			assert_non_null(strstr(err.text, "SCHED_FIFO is "));
			continue;
		}
		snprintf(who, sizeof(who), "thread 4711 has real-time priority %d",
			 rows[i].target);
		assert_non_null(strstr(err.text, who));
		assert_non_null(strstr(err.text, rows[i].target < 99 ? "raise" : "lower it"));
	}
}

/* Root of a container is not told to become root. */
static void the_right_is_asked_for_by_who_asks(void **state)
{
	struct preempt_plan plan = { .targets.rt = { .priority = 1, .tid = 4711 } };
	const struct capture_want want = { .plan = &plan };
	struct err err;

	machine_begin(1);
	rights_begin(1, 0);
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, ": run as root, or with CAP_SYS_NICE, or raise 'ulimit -r'"));
	rights_begin(0, 0);
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "give it CAP_SYS_NICE, or raise 'ulimit -r'"));
	assert_null(strstr(err.text, "as root"));
}

static int machine_and_rights_end(void **state)
{
	rights_end(state);
	return machine_end(state);
}

/* Which CPUs of the targets readers can't go to is found out by going there, spared ones
 * aside, and then this process runs where it ran before. */
static void cpus_that_may_be_had(void **state)
{
	struct preempt_plan plan = { .targets.cpus = cpus_from(1, 4) };
	const struct capture_want want = { .plan = &plan };
	struct cpus own, none = { 0 }, four = cpus_from(4, 1);
	char text[700];
	struct err err;

	machine_begin(99);
	own = machine.kept = cpus_from(0, 1);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_true(same_cpus(&plan.refused, &four));
	assert_true(same_cpus(&machine.kept, &own));
	assert_string_equal(capture_preempt.caveat(&plan, text, sizeof(text)),
			    "samples on CPU 4 are late, for this process may not run there; "
			    "its cpuset (/proc/self/cpuset) must hold what the targets' does");
	/* It runs on all of them already: nothing is tried. */
	machine_begin(99);
	machine.kept = cpus_from(0, 8);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_true(same_cpus(&plan.refused, &none));
	assert_false(machine.cpuset_asked_for);
	/* Not even where it runs can be had: all count as refused. */
	machine_begin(99);
	machine.no_affinity = true;
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "may not run on CPU 1-4,"));
	assert_true(same_cpus(&plan.refused, &plan.targets.cpus));
	/* Spared ones are asked of nobody. */
	machine_begin(99);
	plan.targets.spared = cpus_from(4, 4);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_true(same_cpus(&plan.refused, &none));
	/* All that is not spared is refused. */
	machine_begin(99);
	machine.allowed = machine.kept = cpus_from(0, 1);
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "may not run on CPU 1-3,"));
}

/* CPU 0 is one like others, also where there is no other. */
static void the_first_cpu_alone(void **state)
{
	struct preempt_plan plan = { .targets.cpus = cpus_from(0, 1) };
	const struct capture_want want = { .plan = &plan };
	struct cpus first = cpus_from(0, 1);
	char text[700];
	struct err err;

	machine_begin(99);
	machine.allowed = machine.kept = cpus_from(1, 3);
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "may not run on CPU 0,"));
	assert_true(same_cpus(&plan.refused, &first));
	capture_preempt.caveat(&plan, text, sizeof(text));
	assert_ptr_equal(text, strstr(text, "samples on CPU 0 are late, for this process"));
	/* Which is no reason if others can be had. */
	cpus_add(&plan.targets.cpus, 1);
	machine_begin(99);
	machine.allowed = machine.kept = cpus_from(1, 3);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_true(same_cpus(&plan.refused, &first));
	/* It may go there, though it does not run there now. */
	plan = (struct preempt_plan){ .targets.cpus = first };
	machine_begin(99);
	machine.kept = cpus_from(1, 3);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(0, cpus_count(&plan.refused));
	machine_begin(99);
	plan = (struct preempt_plan){ .targets = { .cpus = first, .spared = first } };
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_non_null(strstr(err.text, "the targets run on CPU 0 alone, isolated"));
	capture_preempt.caveat(&plan, text, sizeof(text));
	assert_ptr_equal(text, strstr(text, "samples on CPU 0 are late, for it is isolated"));
}

/* The budgets of our cgroup, if it has one, and of a machine; NULL: files are what they are. */
static const char *budget_there, *budget_of_all;
static const char *group = "/here"; /* ours */

int open(const char *path, int flags, ...)
{
	char with_budget[600];
	const char *text = NULL;
	int fds[2];

	snprintf(with_budget, sizeof(with_budget), "3:cpu:%s\n", group);
	if (!strcmp(path, "/proc/self/cgroup"))
		text = budget_there ? with_budget : budget_of_all ? "0::/here\n" : NULL;
	else if (!strcmp(path, "/proc/self/mountinfo") && budget_there)
		text = "29 28 0:26 / /budgets rw - cgroup none rw,cpu\n";
	else if (!strncmp(path, "/budgets/", 9))
		text = budget_there;
	else if (!strcmp(path, "/proc/sys/kernel/sched_rt_runtime_us"))
		text = budget_of_all;
	if (!text)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
	assert_int_equal(0, pipe2(fds, O_CLOEXEC));
	assert_int_equal(strlen(text), write(fds[1], text, strlen(text)));
	close(fds[1]);
	return fds[0];
}

/* That of our cgroup, also if it is none; the machine's where it has none. */
static void the_budget_of_a_cgroup(void **state)
{
	char text[700];

	budget_there = "0\n";
	capture_preempt.stall(text, sizeof(text));
	assert_string_equal("(/budgets/here/cpu.rt_runtime_us is 0)", strrchr(text, '('));
	budget_there = "950000\n";
	capture_preempt.stall(text, sizeof(text));
	budget_there = NULL;
	assert_string_equal("(/budgets/here/cpu.rt_runtime_us is 950000)", strrchr(text, '('));
	budget_of_all = "940000\n";
	capture_preempt.stall(text, sizeof(text));
	assert_string_equal("(kernel.sched_rt_runtime_us is 940000)", strrchr(text, '('));
	budget_of_all = "\n"; /* which is no number */
	capture_preempt.stall(text, sizeof(text));
	budget_of_all = NULL;
	assert_string_equal("(kernel.sched_rt_runtime_us is -1)", strrchr(text, '('));
}

/* Of a reason that is longer than its room the end is missing, and all of the next one's. */
static void reasons_without_room(void **state)
{
	static struct {
		struct err why;
		char behind[512];
	} room;
	struct preempt_plan plan = { 0 };
	const struct capture_want want = { .plan = &plan };
	const struct capture_ops *ops = NULL;
	char path[400] = "/";
	struct err err;

	memset(path + 1, 'g', sizeof(path) - 2);
	memset(room.behind, 'x', sizeof(room.behind));
	machine_begin(0);
	group = path;
	budget_there = "0\n";
	assert_int_equal(0, capture_pick("auto", &want, &ops, &room.why, &err));
	group = "/here";
	budget_there = NULL;
	assert_string_equal("async", ops->name);
	assert_int_equal(sizeof(room.why.text) - 1, strlen(room.why.text));
	assert_non_null(strstr(room.why.text, "into /budgets/ggg"));
	for (size_t i = 0; i < sizeof(room.behind); i++)
		assert_int_equal('x', room.behind[i]);
}

/* Why readers got no CPU: the budget of our cgroup, or else of the machine. */
static void the_budget_is_told(void **state)
{
	char path[300], text[700], want[400], line[40] = "-1";
	FILE *f = fopen("/proc/sys/kernel/sched_rt_runtime_us", "re");
	long budget = realtime_budget(path, sizeof(path));

	if (f && !fgets(line, sizeof(line), f))
		fail();
	if (f)
		fclose(f);
	snprintf(want, sizeof(want), "(%s is %ld)",
		 budget < 0 ? "kernel.sched_rt_runtime_us" : path,
		 budget < 0 ? strtol(line, NULL, 10) : budget);
	assert_ptr_equal(text, capture_preempt.stall(text, sizeof(text)));
	assert_ptr_equal(text, strstr(text, "a reader got no CPU for a while"));
	assert_string_equal(want, strrchr(text, '('));
}

/* What is late all the same: of two reasons both, spared CPUs last; of refused CPUs and a
 * deadline the first. */
static void caveats_of_preempt(void **state)
{
	struct preempt_plan plan = { .targets = { .cpus = cpus_from(0, 4),
						  .spared = cpus_from(3, 4),
						  .rt.deadline = 77 } };
	char text[700];

	assert_string_equal(
		capture_preempt.caveat(&plan, text, sizeof(text)),
		"thread 77 is SCHED_DEADLINE, which nothing preempts: its samples "
		"are late; samples on CPU 3 are late, for it is isolated (isolcpus, "
		"nohz_full); --hold-isolated sends SCHED_FIFO readers there too");
	/* In a room of any size, and not behind it. */
	for (size_t size = 20; size < 150; size += 20) {
		memset(text, 'x', sizeof(text));
		capture_preempt.caveat(&plan, text, size);
		assert_int_equal(size - 1, strlen(text));
		assert_ptr_equal(text, strstr(text, "thread 77 is SCHED_"));
		for (size_t i = size; i < sizeof(text); i++)
			assert_int_equal('x', text[i]);
	}
	plan.refused = cpus_from(1, 1);
	capture_preempt.caveat(&plan, text, sizeof(text));
	assert_ptr_equal(text, strstr(text, "samples on CPU 1 are late, for this process"));
	assert_non_null(strstr(text, "does; samples on CPU 3 are late"));
	assert_null(strstr(text, "DEADLINE"));
	plan = (struct preempt_plan){ .targets.rt.deadline = 78 };
	assert_string_equal(
		capture_preempt.caveat(&plan, text, sizeof(text)),
		"thread 78 is SCHED_DEADLINE, which nothing preempts: its samples are late");
}

/* A soft limit on running without sleep is raised to the hard one; without one, or where it
 * can't be asked for, nothing is set. */
static void limits_on_running(void **state)
{
	struct preempt_plan plan = { 0 };
	const struct capture_want want = { .plan = &plan };
	struct err err;

	machine_begin(99);
	machine.limit = (struct rlimit){ 5, 9 };
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(9, machine.limit.rlim_cur);
	assert_int_equal(9, machine.limit.rlim_max);
	machine_begin(99);
	machine.limit = (struct rlimit){ 5, 9 };
	machine.no_limit = true;
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(0, machine.n_limits);
}

/* A reader is urgent before it goes to its CPU, where it may not run soon else; where it may not go
 * it becomes again what it was. Its children are not urgent. */
static void where_readers_go(void **state)
{
	struct preempt_plan plan = { .priority = 7 };
	struct cpus two = cpus_from(2, 1);

	machine_begin(99);
	assert_int_equal(0, capture_preempt.thread_begin(&plan, 2));
	assert_true(same_cpus(&machine.kept, &two));
	assert_int_equal(SCHED_FIFO | SCHED_RESET_ON_FORK, machine.policy);
	assert_int_equal(7, machine.priority);
	assert_int_equal(SCHED_FIFO | SCHED_RESET_ON_FORK, machine.policy_there);
	machine_begin(99);
	assert_int_equal(-EINVAL, capture_preempt.thread_begin(&plan, 5));
	assert_int_equal(SCHED_OTHER | SCHED_RESET_ON_FORK, machine.policy);
	assert_int_equal(0, machine.priority);
	machine_begin(6);
	assert_int_equal(-EPERM, capture_preempt.thread_begin(&plan, 2));
	assert_true(same_cpus(&machine.kept, &two));
	/* The thread that reads who sleeps is as urgent, and may run anywhere. */
	machine_begin(99);
	assert_int_equal(0, capture_preempt.waits_begin(&plan));
	assert_int_equal(SCHED_FIFO | SCHED_RESET_ON_FORK, machine.policy);
	assert_int_equal(7, machine.priority);
	assert_true(same_cpus(&machine.kept, &machine.allowed));
	machine_begin(6);
	assert_int_equal(-EPERM, capture_preempt.waits_begin(&plan));
}

/* A reader on another CPU holds nobody; and one that could have been there, if no witness
 * would tell. */
static void readers_that_moved(void **state)
{
	static struct cpu_slot slot = { .cpu = 2 };
	static struct reader_config c;
	static struct reader r = { .c = &c, .slot = &slot };

	for (int witness = 0; witness < 2; witness++) {
		c.witness = witness;
		machine_begin(99);
		machine.cpu = 2;
		machine.kept = cpus_from(2, 1);
		assert_false(capture_preempt.moved_away(&r));
		machine.kept = cpus_from(1, 2);
		assert_int_equal(!witness, capture_preempt.moved_away(&r));
		machine.no_affinity = true;
		assert_int_equal(!witness, capture_preempt.moved_away(&r));
		machine.cpu = 1;
		assert_true(capture_preempt.moved_away(&r));
	}
}

/* No right is needed to see that nothing is done there. */
static void isolated_cpus_are_spared(void **state)
{
	struct preempt_plan plan = { 0 };
	struct preempt_targets *t = &plan.targets;
	const struct capture_want want = { .plan = &plan };
	int policy = sched_getscheduler(0);
	struct cpus before, after;
	struct err err;
	char text[700];

	for (int cpu = 1; cpu < 4; cpu++)
		cpus_add(&t->cpus, cpu);
	for (int cpu = 2; cpu < 8; cpu++)
		cpus_add(&t->spared, cpu);
	assert_int_equal(0, cpus_of_thread(&before, 0));
	assert_int_equal(-EACCES, capture_preempt.thread_begin(&plan, 3));
	assert_int_equal(0, cpus_of_thread(&after, 0));
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(policy, sched_getscheduler(0));
	assert_string_equal(capture_preempt.caveat(&plan, text, sizeof(text)),
			    "samples on CPU 2-3 are late, for it is isolated (isolcpus, "
			    "nohz_full); --hold-isolated sends SCHED_FIFO readers there too");
	cpus_add(&t->spared, 1);
	assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
	assert_string_equal(
		err.text, "the targets run on CPU 1-3 alone, isolated (isolcpus, nohz_full), "
			  "where no SCHED_FIFO reader goes unless --hold-isolated is given");
	t->spared = (struct cpus){ 0 };
	assert_string_equal("", capture_preempt.caveat(&plan, text, sizeof(text)));
}

/* By a process that is gone afterwards. */
static bool may_be_fifo(void)
{
	struct sched_param param = { .sched_priority = 3 };
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(sched_setscheduler(0, SCHED_FIFO, &param) < 0);
	return waitpid(child, &status, 0) == child && status == 0;
}

static void *be_reader(void *arg)
{
	const struct preempt_plan *plan = arg;
	struct sched_param param;
	struct cpus cpus;

	assert_int_equal(0, capture_preempt.thread_begin(plan, 0));
	assert_int_equal(SCHED_FIFO | SCHED_RESET_ON_FORK, sched_getscheduler(0));
	assert_int_equal(0, sched_getparam(0, &param));
	assert_int_equal(plan->priority, param.sched_priority);
	assert_int_equal(0, cpus_of_thread(&cpus, 0));
	assert_int_equal(1, cpus_count(&cpus));
	assert_true(cpus_has(&cpus, 0));
	return NULL;
}

/* A reader is pinned to its CPU and more urgent than all targets. */
static void readers_are_urgent(void **state)
{
	struct preempt_plan plan = { .targets.rt = { .priority = 2 } };
	const struct capture_want want = { .plan = &plan };
	pthread_t thread;
	struct cpus own;
	struct err err;

	assert_int_equal(0, cpus_of_thread(&own, 0));
	if (!may_be_fifo() || !cpus_has(&own, 0))
		skip();
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(3, plan.priority);
	assert_int_equal(0, pthread_create(&thread, NULL, be_reader, &plan));
	pthread_join(thread, NULL);
}

/* Readers can't go where the targets run, but for CPUs that are spared. */
static void all_cpus_are_refused(void **state)
{
	enum { NONE = CPUS_MAX - 2 }; /* no machine has it */
	struct preempt_plan plan = { 0 };
	const struct capture_want want = { .plan = &plan };
	struct err err;

	if (!may_be_fifo())
		skip();
	for (int spared = 0; spared < 2; spared++) {
		cpus_add(&plan.targets.cpus, NONE + spared);
		if (spared)
			cpus_add(&plan.targets.spared, NONE + spared);
		assert_int_equal(-EPERM, capture_preempt.possible(&want, &err));
		assert_non_null(strstr(err.text, "this process may not run on CPU 8190,"));
	}
	cpus_add(&plan.targets.cpus, 0);
	assert_int_equal(0, capture_preempt.possible(&want, &err));
}

/* Whoever starts us may have made us urgent. */
static void who_was_urgent_is_so_again(void **state)
{
	static const int policies[] = { SCHED_FIFO, SCHED_FIFO | SCHED_RESET_ON_FORK, SCHED_RR };
	struct preempt_plan plan = { 0 };
	const struct capture_want want = { .plan = &plan };

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		machine_begin(99);
		machine.policy = policies[i];
		machine.priority = 7;
		assert_int_equal(0, capture_preempt.possible(&want, NULL));
		assert_int_equal(policies[i], machine.policy);
		assert_int_equal(7, machine.priority);
	}
}

/* How many stalls are counted of a reader that wakes up @late_ns behind the first of @n samples. */
static uint64_t stalls(uint64_t late_ns, uint32_t n, bool unfit)
{
	static struct reader r;
	struct stats stats = { 0 };
	struct reader_config c = { .stats = &stats };

	memset(&r, 0, sizeof(r));
	r.c = &c;
	r.unfit = unfit;
	r.n_pend = n;
	for (uint32_t i = 0; i < 2; i++) {
		r.pend[i].s.time = 1000 + i;
		r.pend[i].done = true;
	}
	r.woke_ns = 1000 + late_ns;
	capture_preempt.read(&r);
	assert_int_equal(0, r.n_pend);
	return STATS_GET(&stats, stalled);
}

/* One that holds nobody may come as late as it likes. */
static void a_reader_that_comes_20_ms_late_has_stalled(void **state)
{
	enum { LATE_NS = 20000000 };

	assert_int_equal(0, stalls(0, 1, false));
	assert_int_equal(0, stalls(LATE_NS, 1, false));
	assert_int_equal(1, stalls(LATE_NS + 1, 1, false));
	assert_int_equal(1, stalls(LATE_NS + 1, 2, false));
	assert_int_equal(0, stalls(LATE_NS + 1, 1, true));
	assert_int_equal(0, stalls(LATE_NS + 1, 0, false));
}

/* A reader that never sleeps is not ended by the soft limit on that. */
static void limit_on_running_is_raised(void **state)
{
	struct preempt_plan plan = { 0 };
	const struct capture_want want = { .plan = &plan };
	struct rlimit before, low, after;
	struct err err;

	assert_int_equal(0, getrlimit(RLIMIT_RTTIME, &before));
	low = (struct rlimit){ .rlim_cur = 1000000, .rlim_max = before.rlim_max };
	if (!may_be_fifo() || before.rlim_max <= low.rlim_cur)
		skip();
	assert_int_equal(0, setrlimit(RLIMIT_RTTIME, &low));
	assert_int_equal(0, capture_preempt.possible(&want, &err));
	assert_int_equal(0, getrlimit(RLIMIT_RTTIME, &after));
	assert_int_equal(before.rlim_max, after.rlim_cur);
	setrlimit(RLIMIT_RTTIME, &before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(priorities_that_may_be_had, machine_end),
		cmocka_unit_test_teardown(the_right_is_asked_for_by_who_asks,
					  machine_and_rights_end),
		cmocka_unit_test_teardown(cpus_that_may_be_had, machine_end),
		cmocka_unit_test_teardown(the_first_cpu_alone, machine_end),
		cmocka_unit_test(the_budget_is_told),
		cmocka_unit_test(the_budget_of_a_cgroup),
		cmocka_unit_test_teardown(reasons_without_room, machine_end),
		cmocka_unit_test(caveats_of_preempt),
		cmocka_unit_test_teardown(limits_on_running, machine_end),
		cmocka_unit_test_teardown(where_readers_go, machine_end),
		cmocka_unit_test_teardown(readers_that_moved, machine_end),
		cmocka_unit_test_teardown(who_was_urgent_is_so_again, machine_end),
		cmocka_unit_test(a_reader_that_comes_20_ms_late_has_stalled),
		cmocka_unit_test(isolated_cpus_are_spared),
		cmocka_unit_test(readers_are_urgent),
		cmocka_unit_test(all_cpus_are_refused),
		cmocka_unit_test(limit_on_running_is_raised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
