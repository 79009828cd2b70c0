/* SPDX-License-Identifier: MIT */
#include "facts.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "attach_plan.h"
#include "perf_event.h"
#include "proc.h"

/* linux/capability.h */
enum {
	CAP_SYS_PTRACE_BIT = 19,
	CAP_SYS_ADMIN_BIT = 21,
	CAP_SYS_NICE_BIT = 23,
	CAP_PERFMON_BIT = 38
};

/* The number behind @key in /proc/PID/status, or @missing. */
static uint64_t status_of(const char *pid, const char *key, int base, uint64_t missing)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	const char *p;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	if (proc_read_file(path, &text, &n) < 0)
		return missing;
	p = strstr(text, key);
	return p ? strtoull(p + strlen(key), NULL, base) : missing;
}

static int try_event(void)
{
	struct perf_spec clock = { .type = PERF_TYPE_SOFTWARE,
				   .config = PERF_COUNT_SW_CPU_CLOCK };
	struct perf_options o = { .value = 1000000000 };
	struct perf_event_attr a = perf_event_attr_of(&clock, &o);
	int fd = perf_event_open_fd(&a, 0, -1);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void limits(struct facts_machine *m)
{
	struct rlimit l;

	m->nofile = attach_raise_nofile();
	if (getrlimit(RLIMIT_RTTIME, &l) == 0 && l.rlim_max != RLIM_INFINITY)
		m->rt_time = l.rlim_max;
}

void facts_of_machine(struct facts_machine *ret)
{
	uint64_t caps = status_of("self", "CapEff:", 16, 0);
	struct utsname u;

	*ret = (struct facts_machine){ .pmu = perf_event_have_pmu() };
	uname(&u);
	snprintf(ret->system, sizeof(ret->system), "%.60s %.60s, %.60s", u.sysname, u.release,
		 u.machine);
	ret->event_error = try_event();
	ret->paranoid = perf_event_sysctl("perf_event_paranoid", FACTS_ABSENT);
	ret->yama = perf_event_sysctl("yama/ptrace_scope", 0);
	ret->perfmon = caps >> CAP_PERFMON_BIT & 1 || caps >> CAP_SYS_ADMIN_BIT & 1;
	ret->ptrace = caps >> CAP_SYS_PTRACE_BIT & 1;
	ret->nice = caps >> CAP_SYS_NICE_BIT & 1;
	ret->seccomp = status_of("self", "Seccomp:", 10, 0) == 2;
	ret->sample_rate = perf_event_sysctl("perf_event_max_sample_rate", 100000);
	ret->mlock_kb = perf_event_sysctl("perf_event_mlock_kb", 516);
	ret->rt_runtime = perf_event_sysctl("sched_rt_runtime_us", -1);
	ret->rt_budget = realtime_budget(ret->rt_file, sizeof(ret->rt_file));
	limits(ret);
	cpus_system(&ret->isolated, "isolated");
	cpus_system(&ret->nohz_full, "nohz_full");
}

/* The kernel gives /proc/PID of a process that may not be dumped to root. */
static void owner(struct facts_target *t, const char *pid)
{
	uint64_t uid = status_of(pid, "Uid:", 10, 0);
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	t->same_user = uid == geteuid();
	t->dumpable = stat(path, &st) < 0 || st.st_uid == uid;
}

void facts_of_target(struct facts_target *ret, pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	char name[24];
	size_t n = 0;

	*ret = (struct facts_target){ .pid = pid };
	snprintf(name, sizeof(name), "%d", pid);
	owner(ret, name);
	ret->tracer = (int)status_of(name, "TracerPid:", 10, 0);
	cpus_of_thread(&ret->ours, 0);
	if (proc_tasks(pid, &tids, &n) < 0)
		return;
	ret->threads = n;
	for (size_t i = 0; i < n; i++) {
		cpus_add_thread(&ret->cpus, tids[i]);
		realtime_add_thread(&ret->rt, tids[i]);
	}
}
