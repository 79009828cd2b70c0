/* SPDX-License-Identifier: MIT
 *
 * target_cgroup - from /proc/PID/cgroup to a folder below a mounted hierarchy, cgroups(7).
 */
#include "targets/target_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/base.h"
#include "sys/proc.h"

enum { DEPTH = 64 };

/* The path of @pid's cgroup in the hierarchy that has @controller: v1's, or else v2's, wherever
 * their lines stand. */
static bool path_of(pid_t pid, const char *controller, bool *v2, char *ret, size_t size)
{
	_cleanup_free_ char *text = NULL;
	char file[64], *save = NULL;
	bool found = false;

	snprintf(file, sizeof(file), "/proc/%d/cgroup", pid);
	if (proc_read_piece(file, &text) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		bool unified = !strncmp(line, "0:", 2);

		if (!path || (found && unified))
			continue;
		*path++ = '\0';
		if (!unified && !strstr(names, controller))
			continue;
		snprintf(ret, size, "%s", path);
		*v2 = unified;
		found = true;
	}
	return found;
}

/* Where that hierarchy is mounted. */
static bool mount_of(const char *controller, bool v2, char *ret, size_t size)
{
	FILE *f = setmntent("/proc/self/mounts", "r");
	bool found = false;
	struct mntent *m;

	while (f && !found && (m = getmntent(f))) {
		found = v2 ? !strcmp(m->mnt_type, "cgroup2") :
			     !strcmp(m->mnt_type, "cgroup") && hasmntopt(m, controller);
		if (found)
			snprintf(ret, size, "%s", m->mnt_dir);
	}
	if (f)
		endmntent(f);
	return found;
}

static bool folder_of(pid_t pid, const char *controller, bool *v2, char *ret, size_t size)
{
	char mount[PATH_MAX / 2], path[PATH_MAX / 2];

	if (!path_of(pid, controller, v2, path, sizeof(path)) || !strcmp(path, "/") ||
	    !mount_of(controller, *v2, mount, sizeof(mount)))
		return false;
	snprintf(ret, size, "%s%s", mount, path);
	return true;
}

/* nftw() has no argument of the caller's. */
static _Thread_local struct {
	const pid_t *pids;
	size_t n;
	bool *found; /* of each */
	bool others;
} walk;

static int look_into(const char *path, const struct stat *st, int type, struct FTW *at)
{
	char file[PATH_MAX];
	long pid;
	FILE *f;

	(void)st;
	(void)at;
	if (type != FTW_D)
		return 0;
	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	f = fopen(file, "re");
	while (f && !walk.others && fscanf(f, "%ld", &pid) == 1) {
		pid_t one = (pid_t)pid;
		const pid_t *ours =
			bsearch(&one, walk.pids, walk.n, sizeof(one), proc_compare_pids);

		walk.others = !ours;
		if (ours)
			walk.found[ours - walk.pids] = true;
	}
	if (f)
		fclose(f);
	return walk.others;
}

/* Are all these processes in the cgroup at @path and below, but those that have ended, and
 * nobody else? */
static bool is_own(const char *path, const pid_t *pids, size_t n)
{
	_cleanup_free_ bool *found = calloc(n, sizeof(*found));
	bool own;

	walk.pids = pids;
	walk.n = n;
	walk.found = found;
	walk.others = false;
	own = found && nftw(path, look_into, DEPTH, FTW_PHYS) == 0;
	for (size_t i = 0; own && i < n; i++)
		own = found[i] || !proc_lives(pids[i]);
	return own;
}

int target_cgroup_open(const pid_t *pids, size_t n)
{
	char folder[PATH_MAX];
	bool v2 = false;
	int fd;

	if (!n || !folder_of(pids[0], "perf_event", &v2, folder, sizeof(folder)) ||
	    !is_own(folder, pids, n))
		return -ENOENT;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* v1's freezer has no name in v2, where each cgroup has one: what no controller is called finds
 * v2's. */
static bool says(pid_t pid, const char *controller, const char *file, const char *what)
{
	char folder[PATH_MAX], path[PATH_MAX + 32];
	_cleanup_free_ char *text = NULL;
	bool v2 = false;

	if (!folder_of(pid, controller, &v2, folder, sizeof(folder)))
		return false;
	snprintf(path, sizeof(path), "%s/%s", folder, file);
	return proc_read_piece(path, &text) == 0 && strstr(text, what);
}

bool target_cgroup_is_frozen(pid_t pid)
{
	return says(pid, "freezer", "freezer.state", "FROZEN") ||
	       says(pid, "no controller", "cgroup.events", "frozen 1");
}
