/* SPDX-License-Identifier: MIT
 *
 * family - the descendants of a process, and who was born since they were listed.
 */
#include "family.h"

#include <errno.h>
#include <unistd.h>

#include "proc.h"

enum {
	STILL = 5,	 /* readings of a list that changes meanwhile */
	BORN_MAX = 1024, /* numbers that are looked at one by one */
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

int family_children(pid_t pid, pid_t **pids, size_t *n, size_t *cap)
{
	_cleanup_free_ pid_t *tasks = NULL;
	size_t n_tasks;
	int r = proc_tasks(pid, &tasks, &n_tasks);

	for (size_t i = 0; r == 0 && i < n_tasks; i++) {
		_cleanup_free_ char *text = NULL;

		if (children_text(pid, tasks[i], &text) < 0)
			continue; /* the thread ended meanwhile */
		for (char *p = text, *end; r == 0; p = end) {
			long child = strtol(p, &end, 10);

			if (end == p)
				break;
			if (child != getpid())
				r = proc_push(pids, n, cap, (pid_t)child);
		}
	}
	return r;
}

int family_list(pid_t pid, pid_t **ret, size_t *n)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t count = 0, cap = 0;
	int r = family_children(pid, &pids, &count, &cap);

	if (r < 0)
		return r;
	/* The list is its own queue; what ended meanwhile is a leaf. */
	for (size_t i = 0; i < count; i++)
		if (family_children(pids[i], &pids, &count, &cap) == -ENOMEM)
			return -ENOMEM;
	*ret = pids;
	*n = count;
	pids = NULL;
	return 0;
}

/* The last word of /proc/loadavg. */
pid_t family_newest(void)
{
	_cleanup_free_ char *text = NULL;
	const char *last;

	if (proc_read_file("/proc/loadavg", &text, NULL) < 0)
		return 0;
	last = strrchr(text, ' ');
	return last ? (pid_t)strtol(last, NULL, 10) : 0;
}

bool family_born(pid_t *since, struct family_birth **ret, size_t *n)
{
	pid_t now = family_newest(), from = *since + 1, parent;
	size_t most = now >= *since ? (size_t)(now - *since) : SIZE_MAX;

	*n = 0;
	*ret = NULL;
	if (!*since || !now || most > BORN_MAX)
		return false;
	*since = now;
	*ret = calloc(most + 1, sizeof(**ret));
	for (pid_t pid = from; *ret && pid <= now; pid++)
		if (proc_is_process(pid, &parent) && parent != getpid())
			(*ret)[(*n)++] = (struct family_birth){ pid, parent };
	return *ret;
}
