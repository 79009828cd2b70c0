/* SPDX-License-Identifier: MIT
 *
 * family - the descendants of a process, and who was born since they were listed.
 */
#include "sys/family.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "sys/proc.h"

enum {
	STILL = 5,	 /* readings of a list that changes meanwhile */
	BORN_MAX = 1024, /* numbers that are looked at one by one */
	MANY = 16,	 /* threads, before it is asked what else listing would cost */
};

/* A child that ends while the kernel writes the list makes it leave another one out: two
 * readings that are alike tell that none did. */
static int children_text(pid_t pid, pid_t tid, char **ret)
{
	_cleanup_free_ char *last = NULL;
	char path[80];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	for (int i = 0; i < STILL; i++) {
		char *text;
		int r = proc_read_file(path, &text, &n);

		if (r < 0)
			return r;
		if (!n || (last && !strcmp(text, last))) {
			*ret = text;
			return 0;
		}
		free(last);
		last = text;
	}
	*ret = last;
	last = NULL;
	return 0;
}

/* Not each kernel has them (CONFIG_PROC_CHILDREN). */
static bool has_children_files(void)
{
	return access("/proc/thread-self/children", F_OK) == 0;
}

/* Threads that were asked for their children, and processes on the machine (0: not counted).
 */
struct asked {
	size_t n, processes;
};

/* Does asking each process for its parent take less than asking the @n threads of a process,
 * and those of @more processes that may have as many? */
static bool too_many(struct asked *a, size_t n, size_t more)
{
	size_t all = a->n + n * (1 + more);

	a->n += n;
	if (all > MANY && !a->processes)
		a->processes = proc_count();
	return all > MANY && all > a->processes;
}

/* -E2BIG: each process is to be asked for its parent. With @asked if too_many(), and @more. */
static int add_children(pid_t pid, pid_t **pids, size_t *n, size_t *cap, struct asked *asked,
			size_t more)
{
	_cleanup_free_ pid_t *tasks = NULL;
	size_t n_tasks;
	pid_t us = 0;
	int r = proc_tasks(pid, &tasks, &n_tasks);

	if (r == 0 && asked && too_many(asked, n_tasks, more))
		return -E2BIG;
	for (size_t i = 0; r == 0 && i < n_tasks; i++) {
		_cleanup_free_ char *text = NULL;
		int got = children_text(pid, tasks[i], &text);

		if (got == -ENOENT && !has_children_files())
			return -E2BIG;
		if (got < 0)
			continue; /* the thread ended meanwhile */
		for (char *p = text, *end; r == 0; p = end) {
			long child = strtol(p, &end, 10);

			if (end == p)
				break;
			us = us ? us : getpid();
			if (child != us)
				r = proc_push(pids, n, cap, (pid_t)child);
		}
	}
	return r;
}

static int by_parent(const void *a, const void *b)
{
	const struct family_birth *x = a, *y = b;

	return COMPARE(x->parent, y->parent) ?: COMPARE(x->pid, y->pid);
}

/* All processes with their parents, by parent. */
static int list_all(struct family_birth **ret, size_t *n)
{
	_cleanup_free_ struct proc_use *uses = NULL;
	_cleanup_free_ ssize_t *rets = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	pid_t us = getpid();
	size_t n_pids;
	int r = proc_processes(&pids, &n_pids);

	if (r < 0)
		return r;
	*n = 0;
	*ret = calloc(n_pids, sizeof(**ret));
	uses = calloc(n_pids, sizeof(*uses));
	rets = calloc(n_pids, sizeof(*rets));
	if (!*ret || !uses || !rets)
		return -ENOMEM;
	proc_use_each(pids, n_pids, uses, rets);
	for (size_t i = 0; i < n_pids; i++)
		if (rets[i] == 0 && pids[i] != us)
			(*ret)[(*n)++] = (struct family_birth){ pids[i], uses[i].parent };
	qsort(*ret, *n, sizeof(**ret), by_parent);
	return 0;
}

/* The first of @all whose parent is not below @parent. */
static size_t first_of(const struct family_birth *all, size_t n, pid_t parent)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (all[mid].parent < parent)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int add_children_of(pid_t parent, const struct family_birth *all, size_t n_all,
			   pid_t **pids, size_t *n, size_t *cap)
{
	int r = 0;

	for (size_t k = first_of(all, n_all, parent);
	     r == 0 && k < n_all && all[k].parent == parent; k++)
		r = proc_push(pids, n, cap, all[k].pid);
	return r;
}

int family_children(pid_t pid, pid_t **pids, size_t *n, size_t *cap)
{
	_cleanup_free_ struct family_birth *all = NULL;
	size_t n_all;
	int r = add_children(pid, pids, n, cap, NULL, 0);

	if (r != -E2BIG)
		return r;
	r = list_all(&all, &n_all);
	return r ? r : add_children_of(pid, all, n_all, pids, n, cap);
}

/* Who was born while this looks may be missing: family_born() tells of those. */
static int list_by_parents(pid_t pid, pid_t **pids, size_t *n, size_t *cap)
{
	_cleanup_free_ struct family_birth *all = NULL;
	pid_t parent = pid;
	size_t n_all;
	int r = list_all(&all, &n_all);

	for (size_t i = 0; r == 0; parent = (*pids)[i++]) {
		r = add_children_of(parent, all, n_all, pids, n, cap);
		if (i == *n)
			break;
	}
	return r;
}

int family_list(pid_t pid, pid_t **ret, size_t *n)
{
	_cleanup_free_ pid_t *pids = NULL;
	struct asked asked = { 0 };
	size_t count = 0, cap = 0;
	int r = add_children(pid, &pids, &count, &cap, &asked, 0);

	/* The list is its own queue; what ended meanwhile is a leaf. */
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = add_children(pids[i], &pids, &count, &cap, &asked, count - i - 1);
		if (r != -E2BIG && r != -ENOMEM)
			r = 0;
	}
	if (r == -E2BIG) {
		count = 0;
		r = list_by_parents(pid, &pids, &count, &cap);
	}
	if (r < 0)
		return r;
	*ret = pids;
	*n = count;
	pids = NULL;
	return 0;
}

static uint64_t own_cpu_ns(pid_t pid)
{
	struct proc_use use = { 0 };
	uint64_t ret = 0;

	proc_cpu_ns(pid, &ret);
	proc_use(pid, &use);
	return ret + (use.children.user + use.children.kernel) *
			     (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

uint64_t family_cpu_ns(pid_t pid)
{
	_cleanup_free_ pid_t *pids = NULL;
	uint64_t ret = own_cpu_ns(pid);
	size_t n = 0;

	family_list(pid, &pids, &n);
	for (size_t i = 0; i < n; i++)
		ret += own_cpu_ns(pids[i]);
	return ret;
}

static void bury(int sig)
{
	int before = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = before;
}

void family_bury(void)
{
	const struct sigaction buries = { .sa_handler = bury, .sa_flags = SA_RESTART };

	sigaction(SIGCHLD, &buries, NULL);
}

/* The last word of /proc/loadavg is the same, but in containers lxcfs puts one of the host there.
 */
pid_t family_newest(void)
{
	_cleanup_free_ char *text = NULL, *load = NULL;
	const char *last;

	if (proc_read_piece("/proc/sys/kernel/ns_last_pid", &text) == 0)
		return (pid_t)strtol(text, NULL, 10);
	if (proc_read_piece("/proc/loadavg", &load) < 0)
		return 0;
	last = strrchr(load, ' ');
	return last ? (pid_t)strtol(last, NULL, 10) : 0;
}

bool family_born(pid_t since, pid_t now, struct family_birth **ret, size_t *n)
{
	size_t most = now >= since ? (size_t)(now - since) : SIZE_MAX;
	pid_t us = getpid(), parent;

	*n = 0;
	*ret = NULL;
	if (!since || !now || most > BORN_MAX)
		return false;
	*ret = calloc(most + 1, sizeof(**ret));
	for (pid_t pid = since + 1; *ret && pid <= now; pid++)
		if (proc_is_process(pid, &parent) && parent != us)
			(*ret)[(*n)++] = (struct family_birth){ pid, parent };
	return *ret;
}
