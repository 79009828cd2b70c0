/* SPDX-License-Identifier: MIT */
#include "sys/realtime.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/proc.h"

void realtime_add_thread(struct realtime_use *u, pid_t tid)
{
	int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
	struct sched_param p;

	if (policy == SCHED_DEADLINE)
		u->deadline = tid;
	if ((policy == SCHED_FIFO || policy == SCHED_RR) && sched_getparam(tid, &p) == 0 &&
	    p.sched_priority > u->priority) {
		u->priority = p.sched_priority;
		u->tid = tid;
	}
}

/* True: @word is in the comma-separated list of @n bytes. */
static bool has_word(const char *list, size_t n, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list, *end = list + n; p < end;) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t part = (size_t)((comma ? comma : end) - p);

		if (part == len && !memcmp(p, word, len))
			return true;
		p += part + 1;
	}
	return false;
}

/* "1:cpu,cpuacct:/some/path": the path, its length in *@n. */
static const char *cpu_cgroup(const char *text, size_t *n)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *list, *path;

		line += *line == '\n';
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			return NULL;
		*n = strcspn(path + 1, "\n");
		if (has_word(list + 1, (size_t)(path - list - 1), "cpu"))
			return path + 1;
	}
	return NULL;
}

/* proc_pid_mountinfo(5): "29 28 0:26 ROOT POINT rw,relatime - cgroup cgroup rw,cpu". */
static bool mount_of_cpu(const char *line, size_t n, char root[256], char point[256])
{
	const char *sep = memmem(line, n, " - cgroup ", 10);
	const char *options =
		sep ? memchr(sep + 10, ' ', n - (size_t)(sep + 10 - line)) : NULL;

	return options && has_word(options + 1, n - (size_t)(options + 1 - line), "cpu") &&
	       sscanf(line, "%*d %*d %*s %255s %255s", root, point) == 2;
}

bool realtime_budget_file(const char *cgroup, const char *mountinfo, char *path, size_t size)
{
	size_t n, skip;
	const char *group = cpu_cgroup(cgroup, &n);
	char root[256], point[256];

	for (const char *line = mountinfo; group && *line;) {
		size_t len = strcspn(line, "\n");

		if (mount_of_cpu(line, len, root, point)) {
			/* A container sees its part of the tree at the mount point. */
			skip = strcmp(root, "/") ? strlen(root) : 0;
			if (skip > n || strncmp(group, root, skip))
				skip = n;
			while (n > skip && group[n - 1] == '/')
				n--;
			snprintf(path, size, "%s%.*s/cpu.rt_runtime_us", point,
				 (int)(n - skip), group + skip);
			return true;
		}
		line += len + (line[len] == '\n');
	}
	return false;
}

long realtime_budget(char *path, size_t size)
{
	_cleanup_free_ char *cgroup = NULL, *mounts = NULL, *text = NULL;
	size_t n;

	if (proc_read_file("/proc/self/cgroup", &cgroup, &n) < 0 ||
	    proc_read_file("/proc/self/mountinfo", &mounts, &n) < 0 ||
	    !realtime_budget_file(cgroup, mounts, path, size) ||
	    proc_read_file(path, &text, &n) < 0)
		return -1;
	return strtol(text, NULL, 10);
}

/* sched_setattr(2), which glibc 2.41 is the first to have. */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

void realtime_brief(int policy)
{
	enum { SLICE_NS = 100000, RESET_ON_FORK = 1 };
	struct attr a = { .size = sizeof(a),
			  .policy = (uint32_t)policy,
			  .flags = RESET_ON_FORK,
			  .nice = getpriority(PRIO_PROCESS, 0),
			  .runtime_ns = SLICE_NS };

	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_OTHER)
		syscall(SYS_sched_setattr, 0, &a, 0);
}
