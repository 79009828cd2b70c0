/* SPDX-License-Identifier: MIT
 *
 * proc_read - files of /proc, asked for by who may hang instead of us (ask.h).
 */
#include "sys/proc.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include "sys/ask.h"
#include "sys/proc_int.h"

enum { PROC_FILE_MAX = 256 << 20 /* no file of /proc that we read is longer */ };

/* To the end of the file, or until @is_whole (or NULL) says that this is it. */
static int fd_read_all(int fd, bool (*is_whole)(const char *text, size_t n), char **ret,
		       size_t *n)
{
	_cleanup_free_ char *buf = NULL;
	size_t len = 0, cap = 16384; /* the kernel gives a page at most of maps, always */
	ssize_t got;

	buf = malloc(cap);
	if (!buf)
		return -ENOMEM;
	for (;;) {
		got = read(fd, buf + len, cap - len - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		len += (size_t)got;
		if (is_whole && is_whole(buf, len))
			break;
		if (cap - len > 1)
			continue;
		cap *= 2;
		if (cap > PROC_FILE_MAX)
			return -EFBIG;
		char *grown = realloc(buf, cap);
		if (!grown)
			return -ENOMEM;
		buf = grown;
	}
	buf[len] = '\0';
	*ret = buf;
	buf = NULL;
	if (n)
		*n = len;
	return 0;
}

/* @path in @a; false: it is too long for a file of a process. */
static bool ask_about(struct ask *a, const char *path)
{
	return (size_t)snprintf(a->path, sizeof(a->path), "%s", path) < sizeof(a->path);
}

static int read_path(const char *path, bool (*is_whole)(const char *text, size_t n),
		     char **ret, size_t *n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd < 0 ? -errno : fd_read_all(fd, is_whole, ret, n);
}

static ssize_t look_read(struct ask *a)
{
	return read_path(a->path, a->is_whole, &a->text, &a->n);
}

int proc_read_until(const char *path, bool (*is_whole)(const char *text, size_t n), char **ret,
		    size_t *n)
{
	struct ask a = { .look = look_read, .is_whole = is_whole };
	int r;

	if (!ask_about(&a, path))
		return read_path(path, is_whole, ret, n);
	r = (int)ask_look(&a);
	if (r < 0)
		return r;
	*ret = a.text;
	if (n)
		*n = a.n;
	return 0;
}

int proc_read_file(const char *path, char **ret, size_t *n)
{
	return proc_read_until(path, NULL, ret, n);
}

ssize_t proc_look_piece(struct ask *a)
{
	_cleanup_close_ int fd = open(a->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char buf[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));

	if (n < 0)
		return -errno;
	if ((size_t)n == sizeof(buf))
		return look_read(a);
	a->text = strndup(buf, (size_t)n);
	return a->text ? 0 : -ENOMEM;
}

int proc_read_piece(const char *path, char **ret)
{
	struct ask a = { .look = proc_look_piece };
	int r;

	if (!ask_about(&a, path))
		return proc_read_file(path, ret, NULL);
	r = (int)ask_look(&a);
	if (r == 0)
		*ret = a.text;
	return r;
}

ssize_t proc_look_stat(struct ask *a)
{
	return stat(a->path, &a->st) < 0 ? -errno : 0;
}

int proc_stat_by(ssize_t (*look)(struct ask *a), const char *path, struct stat *ret)
{
	struct ask a = { .look = look };
	int r = ask_about(&a, path) ? (int)ask_look(&a) : -ENAMETOOLONG;

	if (r == 0)
		*ret = a.st;
	return r;
}

int proc_task_file(pid_t pid, pid_t tid, const char *name, char **ret)
{
	char path[80];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	r = proc_read_piece(path, ret);
	return r < 0 ? proc_gone(-r) : 0;
}

ssize_t proc_look_known(struct ask *a)
{
	struct statx st;

	if (statx(AT_FDCWD, a->path, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) < 0)
		return -errno;
	a->st = (struct stat){ .st_dev = makedev(st.stx_dev_major, st.stx_dev_minor),
			      .st_ino = st.stx_ino,
			      .st_mode = st.stx_mode,
			      .st_size = (off_t)st.stx_size,
			      .st_mtim = { st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec },
			      .st_ctim = { st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec } };
	return 0;
}

int proc_stat_known(const char *path, struct stat *ret)
{
	return proc_stat_by(proc_look_known, path, ret);
}
