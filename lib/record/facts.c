/* SPDX-License-Identifier: MIT */
#include "record/facts.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "attach/attach_plan.h"
#include "attach/events.h"
#include "perf_event.h"
#include "sys/proc.h"
#include "sys/rights.h"
#include "targets/target_cgroup.h"

static int try_event(void)
{
	struct perf_spec clock = { .type = PERF_TYPE_SOFTWARE,
				   .config = PERF_COUNT_SW_CPU_CLOCK };
	struct perf_options o = { .value = 1000000000 };
	struct perf_event_attr a = perf_event_attr_of(&clock, &o);

	return perf_event_try(&a, 0, -1);
}

static bool can_count(bool inherit)
{
	struct perf_spec cycles = { .type = PERF_TYPE_HARDWARE,
				    .config = PERF_COUNT_HW_CPU_CYCLES };
	struct perf_options o = { .value = 1000000000, .inherit = inherit };
	struct session *s = calloc(1, sizeof(*s));
	bool can;

	if (!s)
		return false;
	s->n_events = 1;
	s->events[0].attr = perf_event_attr_of(&cycles, &o);
	can = events_can_witness(s, 0) && events_can_count(s);
	free(s);
	return can;
}

static void limits(struct facts_machine *m)
{
	struct rlimit l;

	m->nofile = attach_raise_nofile(SIZE_MAX);
	if (getrlimit(RLIMIT_RTTIME, &l) == 0 && l.rlim_max != RLIM_INFINITY)
		m->rt_time = l.rlim_max;
}

void facts_of_machine(struct facts_machine *ret)
{
	struct proc_status self = { 0 };
	struct utsname u;

	*ret = (struct facts_machine){ .pmu = perf_event_have_pmu() };
	uname(&u);
	snprintf(ret->system, sizeof(ret->system), "%.60s %.60s, %.60s", u.sysname, u.release,
		 u.machine);
	ret->counts = can_count(false);
	ret->counts_new = ret->counts && can_count(true);
	ret->event_error = try_event();
	ret->paranoid = perf_event_sysctl("perf_event_paranoid", FACTS_ABSENT);
	ret->yama = perf_event_sysctl("yama/ptrace_scope", 0);
	ret->perfmon = rights_have(CAP_PERFMON) || rights_have(CAP_SYS_ADMIN);
	ret->ptrace = rights_have(CAP_SYS_PTRACE);
	ret->nice = rights_have(CAP_SYS_NICE);
	ret->bpf = rights_have(CAP_BPF) || rights_have(CAP_SYS_ADMIN);
	proc_status(getpid(), &self);
	ret->seccomp = self.seccomp == 2;
	ret->sample_rate = perf_event_max_rate();
	ret->mlock_kb = perf_event_sysctl("perf_event_mlock_kb", 516);
	ret->rt_runtime = perf_event_sysctl("sched_rt_runtime_us", -1);
	ret->rt_budget = realtime_budget(ret->rt_file, sizeof(ret->rt_file));
	limits(ret);
	cpus_system(&ret->isolated, "isolated");
	cpus_system(&ret->nohz_full, "nohz_full");
}

static void owner(struct facts_target *t)
{
	struct proc_status status = { 0 };

	proc_status(t->pid, &status);
	t->same_user = status.uid == geteuid();
	t->dumpable = proc_dumpable(t->pid);
	t->tracer = status.tracer;
	t->stopped = status.state == 'T';
	t->frozen = target_cgroup_is_frozen(t->pid);
}

void facts_of_target(struct facts_target *ret, pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	*ret = (struct facts_target){ .pid = pid };
	owner(ret);
	cpus_of_thread(&ret->ours, 0);
	if (proc_tasks(pid, &tids, &n) < 0)
		return;
	ret->threads = n;
	for (size_t i = 0; i < n; i++) {
		cpus_add_thread(&ret->cpus, tids[i]);
		realtime_add_thread(&ret->rt, tids[i]);
	}
}
