/* SPDX-License-Identifier: MIT
 *
 * doctor - what this kernel, these rights and this target allow, and what to change.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "../lib/attach.h"
#include "../lib/base.h"
#include "../lib/capture/capture.h"
#include "../lib/cpus.h"
#include "../lib/perf_event.h"
#include "../lib/proc.h"
#include "cmd.h"
#include "process.h"

/* linux/capability.h */
enum {
	CAP_SYS_PTRACE_BIT = 19,
	CAP_SYS_ADMIN_BIT = 21,
	CAP_SYS_NICE_BIT = 23,
	CAP_PERFMON_BIT = 38
};

/* One line: "ok" or "no" or "--" (neither good nor bad), then the fact. */
__attribute__((__format__(__printf__, 2, 3))) static void line(const char *mark,
							       const char *fmt, ...)
{
	va_list ap;

	printf("%-3s ", mark);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static uint64_t capabilities(void)
{
	_cleanup_free_ char *text = NULL;
	const char *p;
	size_t n;

	if (proc_read_file("/proc/self/status", &text, &n) < 0)
		return 0;
	p = strstr(text, "CapEff:");
	return p ? strtoull(p + 7, NULL, 16) : 0;
}

static void check_capability(uint64_t caps, int bit, const char *name, const char *use)
{
	bool has =
		caps >> bit & 1 || (bit == CAP_PERFMON_BIT && caps >> CAP_SYS_ADMIN_BIT & 1);

	line(has ? "ok" : "no", "%s: %s%s", name, use, has ? "" : "; not granted");
}

static void check_paranoid(uint64_t caps)
{
	static const char *const means[] = {
		"everything is open to everybody",
		"no raw tracepoints for ordinary users",
		"no system-wide events for ordinary users",
		"ordinary users sample their own processes, user mode only",
		"ordinary users may open no event at all (Debian's patch)",
		"ordinary users may open no event at all (Ubuntu's patch)",
	};
	int v = perf_event_sysctl("perf_event_paranoid", -2);

	if (v == -2) {
		line("no",
		     "this kernel has no perf events (kernel.perf_event_paranoid is absent)");
		return;
	}
	line(v <= 2 || caps >> CAP_PERFMON_BIT & 1 ? "ok" : "no",
	     "kernel.perf_event_paranoid = %d: %s%s", v, means[MIN(MAX(v, -1), 4) + 1],
	     v > 2 ? "; 'sysctl kernel.perf_event_paranoid=2' opens one's own processes" : "");
}

static void check_yama(uint64_t caps)
{
	int v = perf_event_sysctl("yama/ptrace_scope", 0);

	line(v == 0 || caps >> CAP_SYS_PTRACE_BIT & 1 ? "ok" : "no",
	     "kernel.yama.ptrace_scope = %d: %s", v,
	     v == 0 ? "one's own processes can be read" :
	     v == 1 ? "only children can be read without CAP_SYS_PTRACE" :
		      "processes can't be read without CAP_SYS_PTRACE");
}

static void check_captures(void)
{
	for (size_t i = 0; captures[i]; i++) {
		struct err err;
		int r = captures[i]->possible(&err);

		line(r < 0 ? "no" : "ok", "--capture %s: %s", captures[i]->name,
		     r < 0 ? err.text :
		     captures[i] == &capture_async ?
			     "works everywhere; most of its stacks are late" :
			     "stacks are those at the event's instant");
	}
}

static void check_machine(void)
{
	struct utsname u;
	uint64_t caps = capabilities();

	uname(&u);
	line("--", "%s %s, %s", u.sysname, u.release, u.machine);
	line(perf_event_have_pmu() ? "ok" : "no", "hardware PMU: %s",
	     perf_event_have_pmu() ?
		     "cycles and the like can be sampled" :
		     "none here (a virtual machine?); cycles becomes cpu-clock");
	check_paranoid(caps);
	check_capability(caps, CAP_PERFMON_BIT, "CAP_PERFMON",
			 "events on all processes, kernel frames");
	check_capability(caps, CAP_SYS_PTRACE_BIT, "CAP_SYS_PTRACE",
			 "memory of other users' processes");
	check_capability(caps, CAP_SYS_NICE_BIT, "CAP_SYS_NICE",
			 "SCHED_FIFO for exact stacks");
	check_yama(caps);
	check_captures();
	line("--", "highest frequency: -F %d (kernel.perf_event_max_sample_rate)",
	     perf_event_sysctl("perf_event_max_sample_rate", 100000));
}

static void check_scheduling(pid_t pid)
{
	int policy = sched_getscheduler(pid);

	if (policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE)
		line("no",
		     "process %d runs with a real-time policy: SCHED_FIFO readers may not "
		     "preempt it, samples can be late",
		     pid);
	else
		line("ok", "process %d has an ordinary scheduling policy", pid);
}

static void check_descriptors(pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0, n_cpus, limit = attach_raise_nofile();
	struct cpus cpus = { 0 };

	if (proc_tasks(pid, &tids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		cpus_add_thread(&cpus, tids[i]);
	n_cpus = cpus_count(&cpus);
	line(n * n_cpus + 64 <= limit ? "ok" : "no",
	     "%zu threads x %zu CPUs need %zu descriptors an event; 'ulimit -n' allows %zu", n,
	     n_cpus, n * n_cpus, limit);
}

static int check_target(pid_t pid)
{
	struct pyproc p;
	struct err err;
	int code = process_find(pid, &p, &err);

	if (code == -ESRCH)
		return cmd_fail(EXIT_NO_PROCESS, "%s", err.text);
	if (code < 0) {
		line("no", "%s", err.text);
		return cmd_exit_code(code);
	}
	line("ok", "process %d is CPython %u.%u.%u (%s), in %s", pid, p.version >> 24 & 0xff,
	     p.version >> 16 & 0xff, p.version >> 8 & 0xff, p.build, p.module);
	check_scheduling(pid);
	check_descriptors(pid);
	return EXIT_DONE;
}

int cmd_doctor(int argc, char **argv)
{
	pid_t pid = process_option(
		argc, argv,
		"Usage: pysampled doctor [-p PID]\n\n"
		"What this kernel, these rights and this target allow, and what "
		"to change.");

	if (pid < 0)
		return process_done(pid);
	check_machine();
	return pid ? check_target(pid) : EXIT_DONE;
}
