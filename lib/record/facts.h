/* SPDX-License-Identifier: MIT
 *
 * facts - what this kernel, these rights and a target allow: gathered in one place, judged
 * in another, so that machines that are not at hand can be judged too.
 */
#ifndef FACTS_H
#define FACTS_H

#include "sys/cpus.h"
#include "sys/realtime.h"

/* The kernel, our rights, our limits. */
struct facts_machine {
	char system[200]; /* kernel and architecture */
	bool pmu;
	bool counts, counts_new; /* events_can_count() for threads, also for new ones */
	int event_error; /* -errno of an event on ourselves, user mode only; 0: it works */
	int paranoid;	 /* FACTS_ABSENT: no perf events */
	int yama;	 /* 0 where there is none */
	bool perfmon, ptrace, nice, bpf;
	bool seccomp; /* filtered by whoever started us */
	int sample_rate, mlock_kb;
	long rt_runtime;       /* kernel.sched_rt_runtime_us; -1: no limit */
	long rt_budget;	       /* of our cgroup; -1: none of its own */
	char rt_file[300];     /* where that budget is written */
	unsigned long rt_time; /* RLIMIT_RTTIME, us; 0: no limit */
	unsigned long nofile;
	struct cpus isolated, nohz_full;
};

struct facts_target {
	int pid;
	bool same_user, dumpable;
	int tracer; /* 0: none */
	bool stopped, frozen; /* by a signal; by its cgroup */
	unsigned long threads;
	struct cpus cpus, ours; /* where it and where we may run */
	struct realtime_use rt;
};

enum { FACTS_ABSENT = -2 };

/* Control thread of a command; nothing here fails, what can't be found is left 0. */
void facts_of_machine(struct facts_machine *ret);
void facts_of_target(struct facts_target *ret, pid_t pid);

/* Pure. @line gets a mark, "ok", "no" or "--" (neither good nor bad), and a sentence that
 * says what to change. */
typedef void facts_line(void *arg, const char *mark, const char *text);
void facts_judge_machine(const struct facts_machine *m, facts_line *line, void *arg);
void facts_judge_target(const struct facts_machine *m, const struct facts_target *t,
			facts_line *line, void *arg);

#endif
