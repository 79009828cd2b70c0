/* SPDX-License-Identifier: MIT
 *
 * facts: what doctor says about machines and targets that are not at hand. A row is one
 * fact that differs from a machine where everything is well.
 */
#include <errno.h>

#include "unit.h"
#include "base/base.h"
#include "record/facts.h"

struct said {
	char text[8000];
};

static void keep(void *arg, const char *mark, const char *text)
{
	struct said *s = arg;
	size_t n = strlen(s->text);

	assert_true(!strcmp(mark, "ok") || !strcmp(mark, "no") || !strcmp(mark, "--"));
	assert_true(n + strlen(text) + 10 < sizeof(s->text));
	snprintf(s->text + n, sizeof(s->text) - n, "%s %s\n", mark, text);
}

static struct facts_machine well(void)
{
	return (struct facts_machine){
		.system = "Linux",
		.pmu = true,
		.paranoid = 2,
		.perfmon = true,
		.ptrace = true,
		.nice = true,
		.bpf = true,
		.sample_rate = 100000,
		.mlock_kb = 516,
		.rt_runtime = 950000,
		.rt_budget = -1,
		.rt_file = "/sys/fs/cgroup/cpu/x/cpu.rt_runtime_us",
		.nofile = 1024,
	};
}

static struct facts_target quiet(void)
{
	struct facts_target t = {
		.pid = 7, .same_user = true, .dumpable = true, .threads = 3
	};

	cpus_parse(&t.cpus, "0-3");
	t.ours = t.cpus;
	return t;
}

/* The line that holds @what begins with @mark; and there is none if @mark is NULL. */
static void expect(const struct said *s, const char *name, const char *mark, const char *what)
{
	const char *p = strstr(s->text, what), *line = p;

	while (line && line > s->text && line[-1] != '\n')
		line--;
	if (!mark ? p != NULL : !p || strncmp(line, mark, strlen(mark)))
		fail_msg("%s: want %s '%s' in\n%s", name, mark ? mark : "no line", what,
			 s->text);
}

static void all_is_well(void **state)
{
	struct facts_machine m = well();
	struct facts_target t = quiet();
	struct said s = { "" };

	facts_judge_machine(&m, keep, &s);
	facts_judge_target(&m, &t, keep, &s);
	expect(&s, "well", NULL, "\nno ");
	expect(&s, "well", "ok", "ordinary scheduling policy");
}

static void paranoia(void **state)
{
	static const struct {
		int v, error;
		bool perfmon;
		const char *mark, *what;
	} rows[] = {
		{ -1, 0, false, "ok", "everything is open" },
		{ 0, 0, false, "ok", "no raw tracepoints" },
		{ 1, 0, false, "ok", "no system-wide" },
		{ 2, 0, false, "ok", "own processes, user mode only" },
		{ 3, -EACCES, false, "no",
		  "perf_event_paranoid = 3: ordinary users may open no "
		  "event at all (Debian's patch); 'sysctl "
		  "kernel.perf_event_paranoid=2'" },
		{ 3, 0, false, "ok", "perf_event_paranoid = 3" }, /* an unpatched kernel */
		{ 3, 0, true, "ok", "perf_event_paranoid = 3" },
		{ 4, -EACCES, false, "no", "(Ubuntu's patch); 'sysctl" },
		{ 9, -EACCES, false, "no", "perf_event_paranoid = 9" },
		{ FACTS_ABSENT, -ENOSYS, true, "no", "no perf events" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct facts_machine m = well();
		struct said s = { "" };

		m.paranoid = rows[i].v;
		m.event_error = rows[i].error;
		m.perfmon = rows[i].perfmon;
		facts_judge_machine(&m, keep, &s);
		expect(&s, rows[i].what, rows[i].mark, rows[i].what);
		/* The number explains it: nobody is sent to look for a filter. */
		expect(&s, rows[i].what, NULL, "perf_event_open()");
	}
}

static void yama(void **state)
{
	static const char *const what[] = { "one's own", "only children", "can't be read",
					    "until the next boot" };

	for (int v = 0; v < 4; v++)
		for (int cap = 0; cap < 2; cap++) {
			struct facts_machine m = well();
			struct said s = { "" };

			m.yama = v;
			m.ptrace = cap;
			facts_judge_machine(&m, keep, &s);
			expect(&s, what[v], v == 0 || cap ? "ok" : "no", what[v]);
			expect(&s, what[v], v && v < 3 && !cap ? "no" : NULL,
			       "'sysctl kernel.yama.ptrace_scope=0'");
		}
}

#define MACHINE(name, change, mark, what)          \
	do {                                       \
		struct facts_machine m = well();   \
		struct said s = { "" };            \
		change;                            \
		facts_judge_machine(&m, keep, &s); \
		expect(&s, name, mark, what);      \
	} while (0)

static void machines(void **state)
{
	MACHINE("no PMU", m.pmu = false, "no", "hardware PMU: none");
	MACHINE("no counter", m.counts = false, NULL, "user instructions");
	MACHINE("counter", m.counts = true, "ok", "counted, of named threads (-t)");
	MACHINE("counter", m.counts = m.counts_new = true, "ok", "counted: one more proof");
	MACHINE("filter", (m.event_error = -ENOSYS, m.seccomp = true), "no",
		"by a seccomp filter: a container?");
	MACHINE("filter", m.event_error = -EPERM, "no",
		"(Operation not permitted): a container");
	MACHINE("limit", m.event_error = -EMFILE, "no", "perf_event_open() fails");
	MACHINE("CAP_PERFMON", m.perfmon = false, "no", "kernel frames; not granted");
	MACHINE("CAP_BPF", m.bpf = false, "no", "events on CPUs");
	MACHINE("CAP_SYS_NICE", m.nice = false, "no", "exact stacks; not granted");
	MACHINE("cgroup", m.rt_budget = 0, "no",
		"into /sys/fs/cgroup/cpu/x/cpu.rt_runtime_us");
	MACHINE("cgroup", m.rt_budget = 1000, "no", "is 1000 us a period");
	MACHINE("cgroup", m.rt_budget = 50000, NULL, "cgroup");
	MACHINE("sysctl", m.rt_runtime = 0, "no", "sched_rt_runtime_us=950000");
	MACHINE("sysctl", m.rt_runtime = -1, NULL, "sched_rt_runtime_us");
	MACHINE("RTTIME", m.rt_time = 200000, "--", "RLIMIT_RTTIME is 200000 us");
	MACHINE("isolcpus", cpus_parse(&m.isolated, "2-3"), "--", "CPU 2-3 isolated");
	MACHINE("nohz_full", cpus_parse(&m.nohz_full, "1"), "--", "CPU 1 without ticks");
}

#define TARGET(name, change, mark, what)              \
	do {                                          \
		struct facts_machine m = well();      \
		struct facts_target t = quiet();      \
		struct said s = { "" };               \
		change;                               \
		facts_judge_target(&m, &t, keep, &s); \
		expect(&s, name, mark, what);         \
	} while (0)

static void targets(void **state)
{
	TARGET("other user", t.same_user = false, "ok", "another user");
	TARGET("other user", (t.same_user = false, m.ptrace = false), "no", "CAP_SYS_PTRACE");
	TARGET("other user", (t.same_user = false, m.perfmon = false), "no", "CAP_PERFMON");
	TARGET("dumpable", t.dumpable = false, "ok", "not dumpable");
	TARGET("dumpable", (t.dumpable = false, m.ptrace = false), "no", "not dumpable");
	TARGET("traced", t.tracer = 99, "--", "traced by 99");
	TARGET("stopped", t.stopped = true, "--", "is stopped");
	TARGET("frozen", t.frozen = true, "--", "is frozen by its cgroup");
	TARGET("FIFO", (t.rt.priority = 10, t.rt.tid = 8), "--",
	       "thread 8 of process 7 has real-time priority 10: readers need 11");
	TARGET("FIFO", (t.rt.priority = 10, t.rt.tid = 8), NULL, "ordinary");
	TARGET("FIFO 99", (t.rt.priority = 99, t.rt.tid = 8), "no", "none above");
	TARGET("DEADLINE", t.rt.deadline = 8, "no", "thread 8 of process 7 is SCHED_DEADLINE");
	TARGET("DEADLINE", t.rt.deadline = 8, NULL, "ordinary");
	TARGET("elsewhere", cpus_del(&t.ours, 2), "--", "may run on CPU 2 and this one not");
	TARGET("descriptors", t.threads = 80, "ok", "80 threads x 4 CPUs need up to 960");
	TARGET("one thread", t.threads = 1, "ok", " 1 thread x 4 CPUs need up to 12");
	TARGET("descriptors", t.threads = 80, NULL, "instead");
	TARGET("descriptors", t.threads = 81, "--", "allows 1024: events are opened on CPUs");
	TARGET("descriptors", (t.threads = 120, m.perfmon = false), "ok", "need up to 960");
	TARGET("descriptors", (t.threads = 121, m.perfmon = false), "no", "need up to 968");
	TARGET("descriptors", (t.threads = 121, m.perfmon = false), NULL, "instead");
	TARGET("memory", (m.mlock_kb = 100, m.perfmon = false), "no",
	       "perf_event_mlock_kb=516");
	TARGET("memory", m.mlock_kb = 100, NULL, "mlock_kb");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_well), cmocka_unit_test(paranoia),
		cmocka_unit_test(yama),	       cmocka_unit_test(machines),
		cmocka_unit_test(targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
