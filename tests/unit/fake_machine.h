/* SPDX-License-Identifier: MIT
 *
 * fake_machine - a machine as a test wants it: what captures ask libc about scheduling, CPUs
 * and limits is answered here, and what they change is only written down. Before
 * machine_begin() all is as it is.
 */
#ifndef FAKE_MACHINE_H
#define FAKE_MACHINE_H

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/base.h"
#include "sys/cpus.h"

static struct {
	bool fake; /* else all is as it is */
	int most;  /* real-time priority that may be had; 0: none */
	int policy, priority;
	int policy_there; /* as it went to the CPUs where it is */
	int cpu;
	size_t n_set, n_tries; /* policies that were set; of SCHED_FIFO, or refused */
	struct cpus allowed, kept;
	bool cpuset_asked_for, no_affinity;
	struct rlimit limit;
	bool no_limit;
	size_t n_limits, n_sleeps;
	struct timespec sleep;
	void (*on_sleep)(void);
} machine;

static inline void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int sched_setscheduler(pid_t pid, int policy, const struct sched_param *p)
{
	int (*f)(pid_t, int, const struct sched_param *) = real("sched_setscheduler");

	if (!machine.fake)
		return f(pid, policy, p);
	assert_int_equal(0, pid);
	machine.n_tries += (policy & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
	if ((policy & ~SCHED_RESET_ON_FORK) == SCHED_FIFO &&
	    (p->sched_priority < 1 || p->sched_priority > machine.most)) {
		errno = EPERM;
		return -1;
	}
	machine.policy = policy;
	machine.priority = p->sched_priority;
	machine.n_set++;
	return 0;
}

int sched_getscheduler(pid_t pid)
{
	int (*f)(pid_t) = real("sched_getscheduler");

	if (!machine.fake)
		return f(pid);
	assert_int_equal(0, pid);
	return machine.policy;
}

int sched_getparam(pid_t pid, struct sched_param *p)
{
	int (*f)(pid_t, struct sched_param *) = real("sched_getparam");

	if (!machine.fake)
		return f(pid, p);
	assert_int_equal(0, pid);
	p->sched_priority = machine.priority;
	return 0;
}

int sched_getcpu(void)
{
	int (*f)(void) = real("sched_getcpu");

	return machine.fake ? machine.cpu : f();
}

int sched_getaffinity(pid_t pid, size_t n, cpu_set_t *set)
{
	int (*f)(pid_t, size_t, cpu_set_t *) = real("sched_getaffinity");

	if (!machine.fake)
		return f(pid, n, set);
	assert_int_equal(0, pid);
	if (machine.no_affinity) {
		errno = EINVAL;
		return -1;
	}
	memcpy(set, machine.kept.bits, MIN(n, sizeof(machine.kept.bits)));
	return 0;
}

/* As a cpuset does: what is asked for and allowed, or an error if that is nothing. */
int sched_setaffinity(pid_t pid, size_t n, const cpu_set_t *set)
{
	int (*f)(pid_t, size_t, const cpu_set_t *) = real("sched_setaffinity");
	struct cpus want = { 0 };

	if (!machine.fake)
		return f(pid, n, set);
	memcpy(want.bits, set, MIN(n, sizeof(want.bits)));
	cpus_keep(&want, &machine.allowed);
	machine.cpuset_asked_for = true;
	if (cpus_next(&want, 0) < 0) {
		errno = EINVAL;
		return -1;
	}
	machine.kept = want;
	machine.policy_there = machine.policy;
	return 0;
}

int getrlimit(__rlimit_resource_t what, struct rlimit *l)
{
	int (*f)(__rlimit_resource_t, struct rlimit *) = real("getrlimit");

	if (!machine.fake)
		return f(what, l);
	*l = machine.limit;
	errno = EINVAL;
	return machine.no_limit ? -1 : 0;
}

int setrlimit(__rlimit_resource_t what, const struct rlimit *l)
{
	int (*f)(__rlimit_resource_t, const struct rlimit *) = real("setrlimit");

	if (!machine.fake)
		return f(what, l);
	machine.limit = *l;
	machine.n_limits++;
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	int (*f)(const struct timespec *, struct timespec *) = real("nanosleep");

	if (!machine.fake)
		return f(t, left);
	machine.sleep = *t;
	machine.n_sleeps++;
	if (machine.on_sleep)
		machine.on_sleep();
	return 0;
}

static inline struct cpus cpus_from(int first, int n)
{
	struct cpus c = { 0 };

	for (int i = 0; i < n; i++)
		cpus_add(&c, first + i);
	return c;
}

/* One of 4 CPUs, that gives priorities up to @most. */
static inline void machine_begin(int most)
{
	memset(&machine, 0, sizeof(machine));
	machine.fake = true;
	machine.most = most;
	machine.allowed = machine.kept = cpus_from(0, 4);
	machine.limit = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
}

static inline int machine_end(void **state)
{
	machine.fake = false;
	return 0;
}

static inline bool same_cpus(const struct cpus *a, const struct cpus *b)
{
	return !memcmp(a, b, sizeof(*a));
}

#endif
