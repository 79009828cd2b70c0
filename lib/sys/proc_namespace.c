/* SPDX-License-Identifier: MIT
 *
 * proc_namespace - which processes have other numbers, roots and mounts than we have.
 */
#include "sys/proc.h"

#include "base/hash.h"
#include "sys/ask.h"
#include "sys/proc_int.h"

int proc_own_pid_namespace(dev_t *dev, ino_t *ino)
{
	static _Atomic ino_t own;
	static _Atomic dev_t own_dev;
	struct stat st;

	if (!own) {
		if (stat("/proc/self/ns/pid", &st) < 0)
			return -errno;
		own_dev = st.st_dev;
		own = st.st_ino;
	}
	*dev = own_dev;
	*ino = own;
	return 0;
}

void proc_same_pid_namespace_each(const pid_t *pids, size_t n, bool *same)
{
	_cleanup_free_ struct ask *a = calloc(n + 1, sizeof(*a));
	_cleanup_free_ ssize_t *rets = calloc(n + 1, sizeof(*rets));
	ino_t own;
	dev_t dev;

	memset(same, 0, n * sizeof(*same));
	if (!a || !rets || proc_own_pid_namespace(&dev, &own) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		a[i].look = proc_look_stat;
		snprintf(a[i].path, sizeof(a[i].path), "/proc/%d/ns/pid", pids[i]);
	}
	ask_look_each(a, n, rets);
	for (size_t i = 0; i < n; i++) /* all namespaces are files of one file system */
		same[i] = rets[i] == 0 && a[i].st.st_ino == own;
}

bool proc_same_pid_namespace(pid_t pid)
{
	bool same;

	proc_same_pid_namespace_each(&pid, 1, &same);
	return same;
}

/* Of @who: a number for its root, and one for that with its mounts. Mount namespaces are files of
 * one file system. */
static int view_of(const char *who, uint64_t *root, uint64_t *all)
{
	struct ask a[2] = { { .look = proc_look_known }, { .look = proc_look_known } };
	ssize_t r[2];

	snprintf(a[0].path, sizeof(a[0].path), "/proc/%s/ns/mnt", who);
	snprintf(a[1].path, sizeof(a[1].path), "/proc/%s/root", who);
	ask_look_each(a, 2, r);
	if (r[0] < 0 || r[1] < 0)
		return (int)MIN(r[0], r[1]);
	*root = hash_pair(a[1].st.st_dev, a[1].st.st_ino);
	*all = hash_more(*root, a[0].st.st_ino);
	return 0;
}

int proc_view(pid_t pid, uint64_t *ret)
{
	static _Atomic uint64_t own;
	uint64_t ours = own, root = 0, all;
	char who[16];
	int r;

	if (!ours && view_of("self", &ours, &all) == 0)
		own = ours;
	snprintf(who, sizeof(who), "%d", pid);
	r = view_of(who, &root, &all);
	if (r == -ETIMEDOUT)
		all = hash_u64((uint64_t)pid);
	else if (r < 0)
		return proc_outlived(&pid) ? proc_view(pid, ret) : r;
	*ret = root == ours ? 0 : all;
	return 0;
}

bool proc_is_elsewhere(pid_t pid)
{
	struct stat ours, its;
	char path[64], root[3];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
	if (stat("/proc/self/ns/mnt", &ours) < 0)
		return false;
	if (proc_stat_by(proc_look_stat, path, &its) < 0)
		return proc_outlived(&pid) && proc_is_elsewhere(pid);
	return ours.st_ino != its.st_ino || proc_link(pid, "root", root, sizeof(root)) > 1;
}
