/* SPDX-License-Identifier: MIT
 *
 * outfile - walks a path folder by folder, so that nobody swaps one after it was looked at.
 */
#include "outfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/base.h"

enum { MAX_LINKS = 40, TRIES = 100 };

static bool is_ours(const struct stat *st)
{
	return st->st_uid == geteuid();
}

/* True: others than we and root can write in it. */
static bool is_shared(const struct stat *st)
{
	return (!is_ours(st) && st->st_uid != 0) || (st->st_mode & (S_IWGRP | S_IWOTH));
}

/* --- the folder --- */

/* Where a walk stands: @left is to be walked from @fd on. */
struct walk {
	int fd;
	unsigned links;
	char left[2 * PATH_MAX];
};

static int step_to(struct walk *w, int fd)
{
	if (fd < 0)
		return -errno;
	close(w->fd);
	w->fd = fd;
	return 0;
}

/* The part @name is a link, @link: what it holds comes before what is left. */
static int follow(struct walk *w, int link, const char *name, const struct stat *st)
{
	char rest[PATH_MAX], to[PATH_MAX];
	struct stat folder;
	struct statfs fs;
	ssize_t n;

	if (fstat(w->fd, &folder) || fstatfs(w->fd, &fs))
		return -errno;
	if (is_shared(&folder) && !is_ours(st) && st->st_uid != 0)
		return -EPERM;
	if (++w->links > MAX_LINKS)
		return -ELOOP;
	if (fs.f_type == PROC_SUPER_MAGIC) /* its links may hold no paths */
		return step_to(w, openat(w->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC));
	n = readlinkat(link, "", to, sizeof(to) - 1);
	if (n < 0)
		return -errno;
	to[n] = '\0';
	if (snprintf(rest, sizeof(rest), "%s", w->left) >= (int)sizeof(rest))
		return -ENAMETOOLONG;
	snprintf(w->left, sizeof(w->left), "%s/%s", to, rest);
	return *to == '/' ? step_to(w, open("/", O_PATH | O_CLOEXEC)) : 0;
}

/* Take the first part off what is left. */
static int walk_part(struct walk *w)
{
	char *part = w->left + strspn(w->left, "/"), name[NAME_MAX + 1];
	size_t n = strcspn(part, "/");
	_cleanup_close_ int fd = -1;
	struct stat st;
	int ret;

	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	snprintf(name, sizeof(name), "%.*s", (int)n, part);
	memmove(w->left, part + n, strlen(part + n) + 1);
	if (!n)
		return 0;
	fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return follow(w, fd, name, &st);
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	ret = step_to(w, fd);
	fd = -1;
	return ret;
}

int outfile_folder(const char *path, const char **name, struct err *err)
{
	struct walk w = { .fd = -1 };
	int ret = 0, why;

	*name = base_name(path);
	if (!**name)
		return err_set(err, -EISDIR, "opening %s: it names a folder", path);
	if (*name - path >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "opening %s: %s", path,
			       strerror(ENAMETOOLONG));
	snprintf(w.left, sizeof(w.left), "%.*s", (int)(*name - path), path);
	w.fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w.fd < 0)
		ret = -errno;
	while (!ret && *w.left)
		ret = walk_part(&w);
	if (!ret)
		return w.fd;
	why = -ret;
	if (w.fd >= 0)
		close(w.fd);
	return err_set(err, ret, "opening %s: %s", path,
		       why == EPERM ?
			       "a folder on its way is a link made by another user, where "
			       "others can write" :
			       strerror(why));
}

/* --- the file --- */

/* A path below /dev, in a folder that only root can write: what it names is meant. */
static int open_device(int folder, const char *name)
{
	struct stat st;
	int fd;

	/* Without a reader it would be waited for, and with O_RDWR we would be one. */
	if (fstatat(folder, name, &st, 0) == 0 && S_ISFIFO(st.st_mode)) {
		fd = openat(folder, name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	fd = openat(folder, name, O_RDWR | O_TRUNC | O_CLOEXEC | O_NOCTTY);
	/* A device or a pipe that only takes writing. */
	if (fd < 0 && (errno == EACCES || errno == EINVAL || errno == ENXIO))
		fd = openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int outfile_named(int folder, const char *name, int fd)
{
	struct stat own, st;

	if (fstat(fd, &own))
		return 0;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? -ENOENT : 0;
	return st.st_dev == own.st_dev && st.st_ino == own.st_ino ? 0 : -EEXIST;
}

int outfile_fresh(int folder, const char *name, mode_t mode, char ret[NAME_MAX + 1])
{
	int fd = -1;

	for (unsigned i = 0; i < TRIES && fd < 0; i++) {
		snprintf(ret, NAME_MAX + 1, ".%.200s.%d.%u", name, getpid(), i);
		fd = openat(folder, ret, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    mode);
		if (fd < 0 && errno != EEXIST)
			return -errno;
	}
	return fd < 0 ? -EEXIST : fd;
}

/* Whether @file is what outfile_fresh() calls files for @name, of a process that has ended. */
static bool is_left(const char *file, const char *name)
{
	char start[NAME_MAX + 1], proc[32];
	int n = snprintf(start, sizeof(start), ".%.200s.", name), pid, used = 0;
	struct stat st;

	if (strncmp(file, start, (size_t)n) ||
	    sscanf(file + n, "%d.%*u%n", &pid, &used) != 1 || !used || file[n + used])
		return false;
	snprintf(proc, sizeof(proc), "/proc/%d", pid);
	return stat("/proc/self", &st) == 0 && stat(proc, &st) && errno == ENOENT;
}

void outfile_clean(int folder, const char *name)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	struct stat st;

	while (dir && (d = readdir(dir)))
		if (is_left(d->d_name, name) &&
		    !fstatat(folder, d->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode) && is_ours(&st))
			unlinkat(folder, d->d_name, 0);
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

/* A file of another name takes the old one's place: nobody else has that open, or linked. */
static int replace(int folder, const char *name, mode_t mode)
{
	char other[NAME_MAX + 1];
	int fd = outfile_fresh(folder, name, mode, other), why;

	if (fd < 0)
		return fd;
	if (renameat(folder, other, folder, name) == 0)
		return fd;
	why = errno;
	unlinkat(folder, other, 0);
	close(fd);
	return -why;
}

static int open_regular(int folder, const char *name, mode_t mode, bool shared)
{
	int fd;

	if (shared)
		return replace(folder, name, mode);
	fd = openat(folder, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

/* Why what stands there is not overwritten; NULL: it is. */
static const char *refusal(const struct stat *st, bool shared)
{
	if (S_ISDIR(st->st_mode))
		return strerror(EISDIR);
	if (S_ISLNK(st->st_mode))
		return "it is a link: name the file itself";
	if (!S_ISREG(st->st_mode))
		return "it is no regular file: a FIFO or a device is named by /dev/...";
	if (shared && !is_ours(st))
		return "it is another user's file, where others can write";
	return NULL;
}

/* --- the folder of the file beside --- */

static bool beside_folder(char buf[NAME_MAX + 1], const char *name, const char *beside)
{
	return snprintf(buf, NAME_MAX + 1, "%s%.*s", name, (int)strcspn(beside, "/"),
			beside) <= NAME_MAX;
}

/* Why the folder @name is not taken; NULL: it is, or there is none. */
static const char *beside_refusal(int folder, const char *name, const char *beside,
				  bool shared)
{
	char other[NAME_MAX + 1];
	struct stat st;

	if (!beside_folder(other, name, beside))
		return strerror(ENAMETOOLONG);
	if (fstatat(folder, other, &st, AT_SYMLINK_NOFOLLOW))
		return NULL;
	if (!S_ISDIR(st.st_mode))
		return "what stands where the folder of its symbols goes is no folder";
	if (shared && !is_ours(&st))
		return "the folder of its symbols is another user's, where others can write";
	return NULL;
}

static int open_ours(int folder, const char *name)
{
	int fd = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), why;
	struct stat st;

	if (fd < 0)
		return -errno;
	why = fstat(fd, &st) ? errno : is_ours(&st) ? 0 : EPERM;
	if (!why)
		return fd;
	close(fd);
	return -why;
}

int outfile_beside(int folder, const char *name, const char *beside)
{
	char other[NAME_MAX + 1];

	if (!beside_folder(other, name, beside))
		return -ENAMETOOLONG;
	if (mkdirat(folder, other, 0700) && errno != EEXIST)
		return -errno;
	return open_ours(folder, other);
}

/* The last but one goes, and the last one takes its place. */
static void move_old_beside(int folder, const char *name, const char *old, const char *beside)
{
	char from[NAME_MAX + 1], to[NAME_MAX + 1];
	_cleanup_close_ int last = -1;

	if (!beside_folder(from, name, beside) || !beside_folder(to, old, beside))
		return;
	last = open_ours(folder, to);
	if (last >= 0)
		unlinkat(last, strchr(beside, '/') + 1, 0);
	unlinkat(folder, to, AT_REMOVEDIR);
	renameat(folder, from, folder, to);
}

/* What the last recording is called. 0, or why it can't be kept so, as far as that can be told
 * without doing it: -errno. */
static int name_old(int folder, const char *name, char ret[NAME_MAX + 1])
{
	struct stat st;

	if (snprintf(ret, NAME_MAX + 1, "%s.old", name) > NAME_MAX)
		return -ENAMETOOLONG;
	return fstatat(folder, ret, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) ?
		       -EISDIR :
		       0;
}

bool outfile_is_old(int folder, const char *name, int fd)
{
	char old[NAME_MAX + 1];

	return name_old(folder, name, old) == 0 && outfile_named(folder, old, fd) == 0;
}

static int not_kept(const char *path, int why, struct err *err)
{
	return err_set(err, why,
		       "opening %s: the recording that is there can't be kept as %s.old: %s; "
		       "move one of them away",
		       path, path, strerror(-why));
}

/* perf moves its last recording out of the way, and so do we. 0 or -errno: it is where it was. */
static int move_old(int folder, const char *name, const char *beside)
{
	char old[NAME_MAX + 1];
	int ret = name_old(folder, name, old);

	if (!ret && renameat(folder, name, folder, old))
		ret = -errno;
	if (!ret && beside)
		move_old_beside(folder, name, old, beside);
	return ret;
}

/* What stands where a file is to be written. */
struct place {
	struct stat st;
	bool shared; /* others can write in its folder */
	bool is_there, is_device;
	bool is_kept; /* it becomes NAME.old */
};

static int look_at_place(int folder, const char *name, const char *path, bool keep_old,
			 const char *beside, struct place *ret, struct err *err)
{
	const char *why = NULL;
	struct stat dir;

	if (fstat(folder, &dir))
		return err_set(err, -errno, "opening %s: %s", path, strerror(errno));
	ret->shared = is_shared(&dir);
	ret->is_there = fstatat(folder, name, &ret->st, AT_SYMLINK_NOFOLLOW) == 0;
	ret->is_device = ret->is_there && !ret->shared && !strncmp(path, "/dev/", 5) &&
			 !S_ISREG(ret->st.st_mode);
	ret->is_kept = keep_old && ret->is_there && ret->st.st_size && !ret->is_device;
	if (ret->is_there && !ret->is_device)
		why = refusal(&ret->st, ret->shared);
	if (!why && beside && !ret->is_device)
		why = beside_refusal(folder, name, beside, ret->shared);
	return why ? err_set(err, -EPERM, "opening %s: %s", path, why) : 0;
}

int outfile_may_open(const char *path, bool keep_old, const char *beside, struct err *err)
{
	char old[NAME_MAX + 1];
	const char *name;
	struct place p;
	int folder = outfile_folder(path, &name, err), ret = MIN(folder, 0), why;

	if (!ret)
		ret = look_at_place(folder, name, path, keep_old, beside, &p, err);
	if (!ret && p.is_kept && (why = name_old(folder, name, old)))
		ret = not_kept(path, why, err);
	if (!ret && faccessat(folder, p.is_there ? name : ".", W_OK, 0))
		ret = err_set(err, -errno, "opening %s: %s", path, strerror(errno));
	base_close(&folder);
	return ret;
}

int outfile_open(int folder, const char *name, const char *path, mode_t mode, bool keep_old,
		 const char *beside, struct err *err)
{
	struct place p;
	int fd = look_at_place(folder, name, path, keep_old, beside, &p, err);

	if (!fd && p.is_kept && (fd = move_old(folder, name, beside)))
		return not_kept(path, fd, err);
	if (fd < 0)
		return fd;
	fd = p.is_device ? open_device(folder, name) :
			   open_regular(folder, name, mode, p.shared);
	if (fd >= 0)
		return fd;
	return err_set(err, fd, "opening %s: %s", path,
		       fd == -ENXIO ? "nobody reads it" : strerror(-fd));
}
