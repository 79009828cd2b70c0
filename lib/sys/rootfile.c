/* SPDX-License-Identifier: MIT */
#include "sys/rootfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/base.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"

enum { MAX_DEPTH = 64, MAX_LINKS = 40 };

int rootfile_root(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = fd < 0 ? -errno : fd;
	return fd == -ENOENT && proc_outlived(&pid) ? rootfile_root(pid) : fd;
}

/* A path as it is followed: the folders from the root down to where it is, and what is left.
 */
struct walk {
	int at[MAX_DEPTH];
	size_t depth; /* at[0] is the root, which is borrowed */
	int links;
	bool public; /* only folders that everybody may search are entered */
	char rest[2 * PATH_MAX];
};

static void go_up(struct walk *w, size_t depth)
{
	while (w->depth > depth)
		close(w->at[--w->depth]);
}

/* The next name of the path, taken off its rest; NULL: it is at its end. */
static char *next_name(struct walk *w, char name[NAME_MAX + 1])
{
	const char *p = w->rest + strspn(w->rest, "/");
	size_t n = strcspn(p, "/");

	if (n == 0 || n > NAME_MAX)
		return NULL;
	memcpy(name, p, n);
	name[n] = '\0';
	memmove(w->rest, p + n, strlen(p + n) + 1);
	return name;
}

/* What the link @fd says comes before the rest. */
static int follow(struct walk *w, int fd)
{
	char text[2 * PATH_MAX];
	ssize_t n = readlinkat(fd, "", text, PATH_MAX);

	if (n <= 0 || ++w->links > MAX_LINKS)
		return n < 0 ? -errno : -ELOOP;
	if (text[0] == '/')
		go_up(w, 1);
	if (snprintf(text + n, sizeof(text) - (size_t)n, "/%s", w->rest) >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(w->rest, text, strlen(text) + 1);
	return 0;
}

/* One name further. A descriptor of what is at the end, -EAGAIN: go on, or -errno. */
static int step(struct walk *w, const char *name)
{
	bool last = !w->rest[strspn(w->rest, "/")];
	struct stat st;
	int fd, r;

	if (!strcmp(name, "."))
		return -EAGAIN;
	if (!strcmp(name, "..")) {
		go_up(w, w->depth > 1 ? w->depth - 1 : 1);
		return -EAGAIN;
	}
	fd = openat(w->at[w->depth - 1], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && !S_ISLNK(st.st_mode) && last)
		return fd;
	if (r == 0 && S_ISDIR(st.st_mode) && w->public && !(st.st_mode & S_IXOTH))
		r = -EACCES;
	if (r == 0 && S_ISDIR(st.st_mode) && w->depth < MAX_DEPTH) {
		w->at[w->depth++] = fd;
		return -EAGAIN;
	}
	r = r == 0 && S_ISLNK(st.st_mode) ? follow(w, fd) : r < 0 ? r : -ENOTDIR;
	close(fd);
	return r < 0 ? r : -EAGAIN;
}

/* As openat2() with RESOLVE_IN_ROOT would, whose flags a seccomp filter can't see. */
static int look_in(int root, const char *path, bool public)
{
	struct walk w = { .at = { root }, .depth = 1, .public = public };
	char name[NAME_MAX + 1];
	int r = -EAGAIN;

	if (snprintf(w.rest, sizeof(w.rest), "%s", path) >= PATH_MAX)
		return -ENAMETOOLONG;
	while (r == -EAGAIN)
		r = next_name(&w, name) ? step(&w, name) : -EISDIR;
	go_up(&w, 1);
	return r;
}

/* @look, or -errno: of no size are files of the kernel, some of which notice that they are read.
 */
static int only_regular(int look)
{
	struct stat st;
	int r;

	if (look < 0)
		return look;
	r = fstat(look, &st) < 0 ? -errno : S_ISREG(st.st_mode) && st.st_size > 0 ? 0 : -EINVAL;
	if (r == 0)
		return look;
	close(look);
	return r;
}

int rootfile_look(int root, const char *path)
{
	int look = root < 0 ? open(path, O_PATH | O_CLOEXEC) : look_in(root, path, false);

	return root < 0 && look < 0 ? -errno : only_regular(look);
}

int rootfile_open(int root, const char *path)
{
	_cleanup_close_ int look = rootfile_look(root, path);

	return look < 0 ? look : proc_look_open(look);
}

int rootfile_open_public(const char *path)
{
	_cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int look = root < 0 ? -errno : only_regular(look_in(root, path, true));
	struct stat st;

	if (look < 0)
		return look;
	if (fstat(look, &st) < 0 || !(st.st_mode & S_IROTH))
		return -EACCES;
	return proc_look_open(look);
}

char *rootfile_text(int fd, size_t n)
{
	char *ret = malloc(n + 1);
	size_t have = 0;
	ssize_t got;

	while (ret && have < n && (got = read(fd, ret + have, n - have)) > 0)
		have += (size_t)got;
	if (ret)
		ret[have] = '\0';
	return ret;
}
