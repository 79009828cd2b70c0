/* SPDX-License-Identifier: MIT
 *
 * proc_list - which threads and processes there are.
 */
#include "base/base.h"
#include "sys/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/array.h"

enum { MAX_LISTED = 1 << 20 }; /* a bound, not an expectation */

int proc_push(pid_t **pids, size_t *n, size_t *cap, pid_t pid)
{
	if (*n >= MAX_LISTED || !array_reserve(pids, cap, *n + 1, sizeof(**pids)))
		return -ENOMEM;
	(*pids)[(*n)++] = pid;
	return 0;
}

int proc_compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return COMPARE(x, y);
}

size_t proc_sort_pids(pid_t *pids, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(pids, n, sizeof(*pids), proc_compare_pids);
	for (size_t i = 0; i < n; i++)
		if (!kept || pids[kept - 1] != pids[i])
			pids[kept++] = pids[i];
	return kept;
}

/* The kernel counts the threads as links of the folder. */
static bool has_one_task(const char *folder)
{
	struct stat st;

	return stat(folder, &st) == 0 && st.st_nlink == 3;
}

size_t proc_count_tasks(pid_t pid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return stat(path, &st) == 0 && st.st_nlink > 2 ? st.st_nlink - 2 : 0;
}

static int one_task(pid_t pid, pid_t **ret, size_t *n)
{
	*ret = malloc(sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	**ret = pid;
	*n = 1;
	return 0;
}

/* The names in @path that are numbers, ascending. */
static int list_numbers(const char *path, pid_t **ret, size_t *n)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t count = 0, cap = 0;
	struct dirent *entry;
	DIR *dir = opendir(path);
	int r = 0;

	if (!dir)
		return proc_gone(errno);
	while (r == 0 && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			r = proc_push(&pids, &count, &cap, atoi(entry->d_name));
	closedir(dir);
	if (r < 0)
		return r;
	if (!count)
		return -ESRCH;
	qsort(pids, count, sizeof(*pids), proc_compare_pids);
	*ret = pids;
	*n = count;
	pids = NULL;
	return 0;
}

int proc_tasks(pid_t pid, pid_t **ret, size_t *n)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return has_one_task(path) ? one_task(pid, ret, n) : list_numbers(path, ret, n);
}

int proc_processes(pid_t **ret, size_t *n)
{
	return list_numbers("/proc", ret, n);
}

size_t proc_count(void)
{
	struct stat st;

	return stat("/proc", &st) == 0 ? st.st_nlink : SIZE_MAX;
}
