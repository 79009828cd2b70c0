/* SPDX-License-Identifier: MIT
 *
 * facts_judge - the pure half of facts.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/base.h"
#include "record/facts.h"

struct out {
	facts_line *line;
	void *arg;
};

__attribute__((__format__(__printf__, 3, 4))) static void
say(const struct out *o, const char *mark, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	o->line(o->arg, mark, text);
}

static void judge_paranoid(const struct facts_machine *m, const struct out *o)
{
	static const char *const means[] = {
		"everything is open to everybody",
		"no raw tracepoints for ordinary users",
		"no system-wide events for ordinary users",
		"ordinary users sample their own processes, user mode only",
		"ordinary users may open no event at all (Debian's patch)",
		"ordinary users may open no event at all (Ubuntu's patch)",
	};
	int v = m->paranoid;

	if (v == FACTS_ABSENT)
		say(o, "no",
		    "this kernel has no perf events (kernel.perf_event_paranoid is absent)");
	else
		say(o, v <= 2 || m->perfmon || m->event_error == 0 ? "ok" : "no",
		    "kernel.perf_event_paranoid = %d: %s%s", v, means[MIN(MAX(v, -1), 4) + 1],
		    v > 2 ? "; 'sysctl kernel.perf_event_paranoid=2' opens one's own "
			    "processes" :
			    "");
}

/* Where the number of paranoia allows it and it fails all the same, a filter stands
 * between us and the kernel. */
static void judge_events(const struct facts_machine *m, const struct out *o)
{
	int e = -m->event_error;

	if (e == 0 || m->paranoid == FACTS_ABSENT || (m->paranoid > 2 && !m->perfmon))
		return;
	if (e == ENOSYS || e == EPERM || e == EACCES)
		say(o, "no",
		    "perf_event_open() is refused (%s)%s: a container? start it with a "
		    "seccomp "
		    "profile that allows this call, and with CAP_PERFMON",
		    strerror(e), m->seccomp ? " by a seccomp filter" : "");
	else
		say(o, "no", "perf_event_open() fails: %s", strerror(e));
}

static void judge_capability(bool has, const char *name, const char *use, const struct out *o)
{
	say(o, has ? "ok" : "no", "%s: %s%s", name, use, has ? "" : "; not granted");
}

static void judge_yama(const struct facts_machine *m, const struct out *o)
{
	static const char *const means[] = {
		"one's own processes can be read",
		"only children can be read without CAP_SYS_PTRACE",
		"processes can't be read without CAP_SYS_PTRACE",
		"processes can't be read without CAP_SYS_PTRACE, until the next boot",
	};
	bool ok = m->yama <= 0 || m->ptrace;

	say(o, ok ? "ok" : "no", "kernel.yama.ptrace_scope = %d: %s%s", m->yama,
	    means[MIN(MAX(m->yama, 0), 3)],
	    ok		? "" :
	    m->yama < 3 ? "; 'sysctl kernel.yama.ptrace_scope=0' opens one's own processes" :
			  "");
}

static void judge_realtime(const struct facts_machine *m, const struct out *o)
{
	if (m->rt_budget == 0)
		say(o, "no",
		    "this process' cgroup has no real-time budget, so no SCHED_FIFO: write "
		    "100000, say, into %s (and those above it), or leave the cgroup",
		    m->rt_file);
	else if (m->rt_budget > 0 && m->rt_budget < 50000)
		say(o, "no",
		    "the real-time budget of this process' cgroup is %ld us a period: readers "
		    "stall when it is used up; write 100000, say, into %s",
		    m->rt_budget, m->rt_file);
	if (m->rt_runtime == 0)
		say(o, "no",
		    "kernel.sched_rt_runtime_us = 0: no SCHED_FIFO; "
		    "'sysctl kernel.sched_rt_runtime_us=950000' is the kernel's own default");
	if (m->rt_time)
		say(o, "--",
		    "RLIMIT_RTTIME is %lu us: the kernel kills a SCHED_FIFO thread that runs "
		    "longer without a pause; raise it ('ulimit -R', or limits.conf rttime)",
		    m->rt_time);
}

static void judge_cpus(const struct facts_machine *m, const struct out *o)
{
	char list[200];

	if (cpus_next(&m->isolated, 0) >= 0)
		say(o, "--",
		    "CPU %s isolated from the scheduler: what is pinned there shares its CPU "
		    "with our reader while it is sampled",
		    cpus_text(&m->isolated, list, sizeof(list)));
	if (cpus_next(&m->nohz_full, 0) >= 0)
		say(o, "--",
		    "CPU %s without ticks (nohz_full): sampling interrupts what runs there",
		    cpus_text(&m->nohz_full, list, sizeof(list)));
}

void facts_judge_machine(const struct facts_machine *m, facts_line *line, void *arg)
{
	const struct out o = { .line = line, .arg = arg };

	say(&o, "--", "%s", m->system);
	say(&o, m->pmu ? "ok" : "no", "hardware PMU: %s",
	    m->pmu ? "cycles and the like can be sampled" :
		     "none here (a virtual machine?); cycles becomes cpu-clock");
	if (m->counts)
		say(&o, "ok",
		    "user instructions are counted%s: one more proof that stacks are exact, "
		    "where events are on threads",
		    m->counts_new ? "" :
				    ", of named threads (-t), of others from Linux 6.12 on");
	judge_paranoid(m, &o);
	judge_events(m, &o);
	judge_capability(m->perfmon, "CAP_PERFMON", "events on all processes, kernel frames",
			 &o);
	judge_capability(m->ptrace, "CAP_SYS_PTRACE", "memory of other users' processes", &o);
	judge_capability(m->nice, "CAP_SYS_NICE", "SCHED_FIFO for exact stacks", &o);
	judge_capability(
		m->bpf, "CAP_BPF",
		"with CAP_PERFMON, events on CPUs: threads of any length are sampled by "
		"their time",
		&o);
	judge_yama(m, &o);
	judge_realtime(m, &o);
	judge_cpus(m, &o);
	say(&o, "--", "highest frequency: -F %d (kernel.perf_event_max_sample_rate)",
	    m->sample_rate);
}

/* --- a target --- */

static void judge_access(const struct facts_machine *m, const struct facts_target *t,
			 const struct out *o)
{
	if (!t->same_user)
		say(o, m->ptrace && m->perfmon ? "ok" : "no",
		    "process %d belongs to another user: CAP_SYS_PTRACE and CAP_PERFMON are "
		    "needed, or that user",
		    t->pid);
	if (!t->dumpable)
		say(o, m->ptrace ? "ok" : "no",
		    "process %d is not dumpable (setuid, or prctl(PR_SET_DUMPABLE, 0)): it is "
		    "read with CAP_SYS_PTRACE only",
		    t->pid);
	if (t->tracer)
		say(o, "--",
		    "process %d is traced by %d (a debugger, strace): it can be sampled, and "
		    "is late or silent while that one stops it",
		    t->pid, t->tracer);
	if (t->stopped)
		say(o, "--",
		    "process %d is stopped: it has no samples until kill -CONT %d lets it go on",
		    t->pid, t->pid);
	if (t->frozen)
		say(o, "--",
		    "process %d is frozen by its cgroup (a paused container?): it has no samples "
		    "until that is thawed",
		    t->pid);
}

static void judge_scheduling(const struct facts_target *t, const struct out *o)
{
	if (t->rt.deadline)
		say(o, "no",
		    "thread %d of process %d is SCHED_DEADLINE, which no reader can preempt: "
		    "its samples are late",
		    t->rt.deadline, t->pid);
	if (t->rt.priority >= 99)
		say(o, "no",
		    "thread %d of process %d has real-time priority %d and there is none "
		    "above: its samples are late; lower it",
		    t->rt.tid, t->pid, t->rt.priority);
	else if (t->rt.priority)
		say(o, "--",
		    "thread %d of process %d has real-time priority %d: readers need %d "
		    "('ulimit -r %d' or CAP_SYS_NICE), and a thread free to run elsewhere "
		    "does so at once: pin it",
		    t->rt.tid, t->pid, t->rt.priority, t->rt.priority + 1, t->rt.priority + 1);
	else if (!t->rt.deadline)
		say(o, "ok", "process %d has an ordinary scheduling policy", t->pid);
}

static void judge_places(const struct facts_target *t, const struct out *o)
{
	struct cpus out = t->cpus;
	char list[200];

	for (int cpu = cpus_next(&t->ours, 0); cpu >= 0; cpu = cpus_next(&t->ours, cpu + 1))
		cpus_del(&out, cpu);
	if (cpus_next(&out, 0) >= 0)
		say(o, "--",
		    "process %d may run on CPU %s and this one not: where a cpuset says so "
		    "(/proc/self/cpuset), samples there are late",
		    t->pid, cpus_text(&out, list, sizeof(list)));
}

/* Upper bound: events on CPUs need no descriptor for a thread. An event on a thread needs one on
 * each CPU; a second one there the witness, --capture stop, or what carries all but samples; and a
 * third one the same event where it is to go over to CPUs. */
static void judge_descriptors(const struct facts_machine *m, const struct facts_target *t,
			      const struct out *o)
{
	unsigned long cpus = cpus_count(&t->cpus), each = m->perfmon ? 3 : 2;
	unsigned long need = t->threads * cpus * each;
	bool fits = need + 64 <= m->nofile;

	say(o, fits ? "ok" : m->perfmon ? "--" : "no",
	    "%lu thread%s x %lu CPU%s need up to %lu descriptors for one event; 'ulimit -n' "
	    "allows %lu%s",
	    t->threads, t->threads == 1 ? "" : "s", cpus, cpus == 1 ? "" : "s", need,
	    m->nofile, fits || !m->perfmon ? "" : ": events are opened on CPUs instead");
	/* The smallest ring: 32 pages and one. */
	if (!m->perfmon && m->mlock_kb < 33 * 4)
		say(o, "no",
		    "kernel.perf_event_mlock_kb = %d is too little for a ring a CPU: "
		    "'sysctl kernel.perf_event_mlock_kb=516'",
		    m->mlock_kb);
}

void facts_judge_target(const struct facts_machine *m, const struct facts_target *t,
			facts_line *line, void *arg)
{
	const struct out o = { .line = line, .arg = arg };

	judge_access(m, t, &o);
	judge_scheduling(t, &o);
	judge_places(t, &o);
	judge_descriptors(m, t, &o);
}
