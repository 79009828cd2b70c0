/* SPDX-License-Identifier: MIT
 *
 * preempt - the reader of a CPU is pinned to it and SCHED_FIFO: the sample's wake-up
 * switches the target out before its next user instruction, and while the reader
 * reads, the thread lies frozen in the run queue. No ptrace, no signal.
 */
#include "capture/preempt.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "perf_event.h"
#include "base/stats.h"
#include "capture/hold.h"
#include "sys/rights.h"

enum { STALL_NS = 20000000 }; /* between a sample and the wake-up of its reader */
enum { FIFO_MAX = 99 };	      /* sched_get_priority_max(2): on Linux, each */

static int become_fifo(int priority, int flags)
{
	struct sched_param param = { .sched_priority = priority };

	return sched_setscheduler(0, SCHED_FIFO | flags, &param) < 0 ? -errno : 0;
}

/* A reader without sleep would get SIGXCPU at the soft limit. */
static void allow_running(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_RTTIME, &l) < 0 || l.rlim_cur == RLIM_INFINITY)
		return;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_RTTIME, &l);
}

/* More than the most urgent target, if we may. */
static int try_fifo(struct preempt_plan *p, int flags)
{
	int ret;

	p->priority = MIN(p->targets.rt.priority + 1, FIFO_MAX);
	ret = become_fifo(p->priority, flags);
	if (ret == 0 || p->priority == 1)
		return ret;
	p->priority = 1;
	return become_fifo(1, flags);
}

/* On which CPUs of the targets this process may not run. */
static struct cpus try_cpus(const struct preempt_plan *p)
{
	struct cpus cpus = p->targets.cpus, refused, was;

	cpus_drop(&cpus, &p->targets.spared);
	refused = cpus;
	if (cpus_of_thread(&was, 0) < 0)
		return refused;
	cpus_drop(&refused, &was);
	if (cpus_next(&refused, 0) < 0) /* it runs on all of them as it is */
		return refused;
	refused = cpus;
	if (cpus_keep_thread(&cpus) == 0)
		cpus_drop(&refused, &cpus);
	cpus_keep_thread(&was);
	return refused;
}

/* All is tried for real, for cgroups can refuse even root, and taken back at once: a thread
 * for it would cost more system calls than that. */
static int try_all(struct preempt_plan *p)
{
	struct sched_param param = { 0 };
	int policy = sched_getscheduler(0), ret;

	sched_getparam(0, &param);
	ret = try_fifo(p, policy & SCHED_RESET_ON_FORK);
	if (ret == 0)
		sched_setscheduler(0, policy, &param);
	p->refused = try_cpus(p);
	return ret;
}

static int explain_refusal(int code, struct err *err)
{
	char path[400], wanted[200];

	if (realtime_budget(path, sizeof(path)) == 0)
		return err_set(err, -EPERM,
			       "SCHED_FIFO is refused, for this process' cgroup has no "
			       "real-time budget: write one, 100000 say, into %s (and those "
			       "above it), or leave the cgroup",
			       path);
	return err_set(err, -EPERM, "SCHED_FIFO is not granted (%s): %s or 'ulimit -r 1'",
		       strerror(-code), rights_wanted(wanted, sizeof(wanted), "CAP_SYS_NICE"));
}

/* At the same priority it waits until the target sleeps; it could not even be killed. */
static int explain_priority(const struct preempt_plan *p, struct err *err)
{
	const struct realtime_use *rt = &p->targets.rt;
	char wanted[200], change[250] = "lower it";

	if (rt->priority < FIFO_MAX)
		snprintf(change, sizeof(change), "%s, or raise 'ulimit -r'",
			 rights_wanted(wanted, sizeof(wanted), "CAP_SYS_NICE"));
	return err_set(err, -EPERM,
		       "thread %d has real-time priority %d and readers get %d at most: %s",
		       rt->tid, rt->priority, p->priority, change);
}

/* CPUs of the targets that are spared. */
static struct cpus spared(const struct preempt_plan *p)
{
	struct cpus c = p->targets.spared;

	cpus_keep(&c, &p->targets.cpus);
	return c;
}

static int preempt_possible(const struct capture_want *w, struct err *err)
{
	struct preempt_plan *p = w->plan;
	struct cpus not = spared(p);
	char list[200];
	int ret;

	if (cpus_next(&not, 0) >= 0 && cpus_count(&not ) == cpus_count(&p->targets.cpus))
		return err_set(
			err, -EPERM,
			"the targets run on CPU %s alone, isolated (isolcpus, nohz_full), "
			"where no SCHED_FIFO reader goes unless --hold-isolated is given",
			cpus_text(&not, list, sizeof(list)));
	ret = try_all(p);
	if (ret < 0)
		return explain_refusal(ret, err);
	if (p->targets.rt.priority >= p->priority)
		return explain_priority(p, err);
	if (cpus_next(&p->refused, 0) >= 0 &&
	    cpus_count(&p->refused) + cpus_count(&not ) == cpus_count(&p->targets.cpus))
		return err_set(err, -EPERM,
			       "this process may not run on CPU %s, where the targets do: its "
			       "cpuset (/proc/self/cpuset) must hold them",
			       cpus_text(&p->refused, list, sizeof(list)));
	allow_running();
	return 0;
}

static const char *preempt_caveat(const struct preempt_plan *p, char *buf, size_t size)
{
	const struct realtime_use *rt = &p->targets.rt;
	struct cpus not = spared(p);
	const char *then = "";
	char list[200];
	size_t n = 0;

	buf[0] = '\0';
	if (cpus_next(&p->refused, 0) >= 0) {
		n += (size_t)snprintf(buf, size,
				      "samples on CPU %s are late, for this process may not "
				      "run there; its cpuset (/proc/self/cpuset) must hold "
				      "what the targets' does",
				      cpus_text(&p->refused, list, sizeof(list)));
		then = "; ";
	} else if (rt->deadline) {
		n += (size_t)snprintf(
			buf, size,
			"thread %d is SCHED_DEADLINE, which nothing preempts: its "
			"samples are late",
			rt->deadline);
		then = "; ";
	}
	if (cpus_next(&not, 0) >= 0 && n < size)
		snprintf(buf + n, size - n,
			 "%ssamples on CPU %s are late, for it is isolated (isolcpus, "
			 "nohz_full); --hold-isolated sends SCHED_FIFO readers there too",
			 then, cpus_text(&not, list, sizeof(list)));
	return buf;
}

static const char *preempt_stall(char *buf, size_t size)
{
	char path[300] = "kernel.sched_rt_runtime_us";
	long budget = realtime_budget(path, sizeof(path));

	if (budget < 0)
		budget = perf_event_sysctl("sched_rt_runtime_us", -1);
	snprintf(buf, size,
		 "a reader got no CPU for a while, so samples are late: a more urgent thread "
		 "ran, "
		 "or the real-time budget is used up (%s is %ld)",
		 path, budget);
	return buf;
}

/* Urgent first: on a CPU where others run it may not get to anything soon. Who is on another CPU
 * than its own is not urgent. */
static int preempt_thread_begin(const struct preempt_plan *p, int cpu)
{
	const struct sched_param normal = { 0 };
	int fifo, pinned;

	if (cpus_has(&p->targets.spared, cpu))
		return -EACCES;
	fifo = become_fifo(p->priority, SCHED_RESET_ON_FORK);
	pinned = cpus_pin_thread(cpu);
	if (pinned < 0 && fifo == 0)
		sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &normal);
	return pinned < 0 ? pinned : fifo;
}

static int preempt_waits_begin(const struct preempt_plan *p)
{
	return become_fifo(p->priority, SCHED_RESET_ON_FORK);
}

/* A CPU that goes offline, or a cpuset, moves a reader to another. Where no witness tells, it
 * counts too that it might have come back just now. */
static bool preempt_moved_away(const struct reader *r)
{
	struct cpus may;

	if (sched_getcpu() != r->slot->cpu)
		return true;
	return !r->c->witness && (cpus_of_thread(&may, 0) < 0 || cpus_count(&may) != 1);
}

static void preempt_read(struct reader *r)
{
	if (r->n_pend && !r->unfit && r->woke_ns > r->pend[0].s.time + STALL_NS)
		STATS_ADD(r->c->stats, stalled, 1);
	hold_flush(r);
}

static void preempt_release(struct reader *r, struct walk *w)
{
	uint64_t t_out = hold_last_of(r, w)->hold.t_out;

	hold_release(r, w);
	if (t_out)
		hold_charge(r, w->t_end - t_out, w);
}

const struct capture_ops capture_preempt = {
	.name = "preempt",
	.promise = "stacks are those at the event's instant",
	.cheaper = "",
	.stack_bytes = CAPTURE_STACK_BYTES,
	.prompt = true,
	.holds = true,
	.on_one_cpu = true,
	.possible = preempt_possible,
	.caveat = preempt_caveat,
	.stall = preempt_stall,
	.limit = capture_limits_nothing,
	.slot_begin = capture_slot_as_is,
	.attach = capture_attach_here,
	.wait_ms = 200,
	.thread_begin = preempt_thread_begin,
	.waits_begin = preempt_waits_begin,
	.moved_away = preempt_moved_away,
	.shed = capture_sleep,
	.scan = capture_idle,
	.comes_back = capture_comes_back_never,
	.read = preempt_read,
	.flush = hold_flush,
	.release = preempt_release,
	.resume = cpu_events_restart,
	.judge = capture_judge_held,
};
