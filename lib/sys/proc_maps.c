/* SPDX-License-Identifier: MIT
 *
 * proc_maps - parses the maps of a process, and opens the files that it maps.
 */
#include "sys/proc_maps.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sys/proc.h"

/* A number in @base at *@at, then the character @end, which is stepped over. */
static bool scan_u64(const char **at, int base, char end, uint64_t *ret)
{
	const char *p = *at;
	uint64_t v = 0;

	for (; isxdigit((unsigned char)*p); p++) {
		int digit = isdigit((unsigned char)*p) ? *p - '0' : (*p | 0x20) - 'a' + 10;

		if (digit >= base || __builtin_mul_overflow(v, (uint64_t)base, &v) ||
		    __builtin_add_overflow(v, (uint64_t)digit, &v))
			return false;
	}
	if (p == *at || *p != end)
		return false;
	*at = p + 1;
	*ret = v;
	return true;
}

static bool scan_perms(const char **at, struct proc_map *m)
{
	const char *p = *at;

	if (strnlen(p, 5) < 5 || p[4] != ' ')
		return false;
	m->r = p[0] == 'r';
	m->w = p[1] == 'w';
	m->x = p[2] == 'x';
	m->shared = p[3] == 's';
	*at = p + 5;
	return true;
}

/* "55d0c000-55d0d000 r-xp 00001000 fe:01 1234      /usr/bin/x (deleted)" */
static bool map_parse(struct proc_map *ret, char *line)
{
	static const char deleted[] = " (deleted)";
	const char *p = line, *end = line + strlen(line);
	uint64_t maj, min;
	size_t n;

	*ret = (struct proc_map){ 0 };
	if (!scan_u64(&p, 16, '-', &ret->start) || !scan_u64(&p, 16, ' ', &ret->end) ||
	    !scan_perms(&p, ret) || !scan_u64(&p, 16, ' ', &ret->pgoff) ||
	    !scan_u64(&p, 16, ':', &maj) || !scan_u64(&p, 16, ' ', &min))
		return false;
	/* Nothing, not even a blank, need follow an anonymous map's inode. */
	if (!scan_u64(&p, 10, ' ', &ret->ino) && !scan_u64(&p, 10, '\0', &ret->ino))
		return false;
	if (ret->start >= ret->end)
		return false;
	ret->maj = (uint32_t)maj;
	ret->min = (uint32_t)min;
	while (p < end && *p == ' ')
		p++;
	n = p < end ? (size_t)(end - p) : 0;
	ret->path = n ? p : "";
	if (n >= sizeof(deleted) && !strcmp(p + n - sizeof(deleted) + 1, deleted)) {
		line[(size_t)(p - line) + n - sizeof(deleted) + 1] = '\0';
		ret->deleted = true;
	}
	return true;
}

int proc_maps_parse(struct proc_maps *ret, char *text, size_t n)
{
	size_t lines = 1;

	*ret = (struct proc_maps){ .text = text };
	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	ret->map = calloc(lines, sizeof(*ret->map));
	if (!ret->map) {
		proc_maps_deinit(ret);
		return -ENOMEM;
	}
	for (char *line = text, *next; line < text + n; line = next) {
		next = memchr(line, '\n', (size_t)(text + n - line));
		if (next)
			*next++ = '\0';
		else
			next = text + n;
		if (map_parse(&ret->map[ret->n], line))
			ret->n++;
	}
	return 0;
}

/* On x86-64 a page of the kernel's is the last one, above all that a program can map: then no
 * read has to tell that none follows. */
static bool is_whole(const char *text, size_t n)
{
	static const char last[] = "\nffffffffff600000-";
	const char *line = n && text[n - 1] == '\n' ? memrchr(text, '\n', n - 1) : NULL;

	return line && (size_t)(text + n - line) >= sizeof(last) &&
	       !memcmp(line, last, sizeof(last) - 1);
}

/* Who reads needs twice the room from here on; the kernel gives a page at a time. */
static bool is_too_long(size_t n)
{
	return n > PROC_MAPS_MAX - 16384;
}

static bool is_enough(const char *text, size_t n)
{
	return is_too_long(n) || is_whole(text, n);
}

int proc_maps_read(struct proc_maps *ret, pid_t pid)
{
	char path[64], *text;
	size_t n;
	int r;

	*ret = (struct proc_maps){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	r = proc_read_until(path, is_enough, &text, &n);
	if (r < 0)
		return proc_gone(-r);
	if (is_too_long(n)) {
		free(text);
		return -EFBIG;
	}
	if (n || !proc_outlived(&pid))
		return proc_maps_parse(ret, text, n);
	free(text);
	return proc_maps_read(ret, pid);
}

void proc_maps_deinit(struct proc_maps *m)
{
	free(m->map);
	free(m->text);
	*m = (struct proc_maps){ 0 };
}

/* @path without opening what it names: a device or FIFO would notice. */
static int path_look(const char *path, struct stat *st)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

/* Its link in map_files. */
static void link_name(char ret[64], pid_t pid, const struct proc_map *m)
{
	snprintf(ret, 64, "/proc/%d/map_files/%llx-%llx", pid, (unsigned long long)m->start,
		 (unsigned long long)m->end);
}

/* What map_files of one without memory says: Linux 6.18, at least, the second. */
static bool has_no_memory(int r)
{
	return r == -ENOENT || r == -ESRCH;
}

int proc_map_stat(pid_t pid, const struct proc_map *m, struct stat *ret)
{
	char path[64];
	int r;

	link_name(path, pid, m);
	r = proc_stat_known(path, ret);
	return has_no_memory(r) && proc_outlived(&pid) ? proc_map_stat(pid, m, ret) : r;
}

int proc_look_open(int look)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", look);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static bool is_mapped(const struct stat *st, const struct proc_map *m)
{
	return st->st_ino == m->ino && st->st_dev == makedev(m->maj, m->min);
}

/* True: @linked, which is mapped there by now, is the file that was. @st: what the path of that one
 * names; or NULL. */
static bool is_still_mapped(const struct stat *linked, const struct stat *st,
			    const struct proc_map *m)
{
	return !st || linked->st_ino == m->ino ||
	       (linked->st_ino == st->st_ino && linked->st_dev == st->st_dev);
}

static int map_look(pid_t pid, const struct proc_map *m)
{
	_cleanup_close_ int by_path = -1, by_map = -1;
	char path[PATH_MAX + 64];
	struct stat st = { 0 }, linked = { 0 };

	if (!m->ino)
		return -EINVAL;
	if (m->path[0] == '/' && !m->deleted) {
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, m->path);
		by_path = path_look(m->here ? m->path : path, &st);
		if (by_path >= 0 && is_mapped(&st, m))
			return base_take(&by_path);
	}
	link_name(path, pid, m);
	by_map = path_look(path, &linked);
	if (by_map >= 0 && is_mapped(&linked, m))
		return base_take(&by_map);
	/* map_files wants privileges. btrfs and overlayfs show another device in
	 * maps than stat() tells, the inode is the same; but for some of overlayfs. */
	if (by_path >= 0 && st.st_ino == m->ino)
		return base_take(&by_path);
	if (by_map >= 0 && is_still_mapped(&linked, by_path < 0 ? NULL : &st, m))
		return base_take(&by_map);
	/* Who may not follow links asks only processes of one's own: one may have mounts. */
	if (m->here && (by_map == -EPERM || by_map == -EACCES)) {
		struct proc_map through = *m;

		through.here = false;
		return map_look(pid, &through);
	}
	/* The process is gone: the same file where we are, if it is the same one. */
	if (by_path < 0 && m->path[0] == '/' && !m->deleted) {
		by_path = path_look(m->path, &st);
		if (by_path >= 0 && is_mapped(&st, m))
			return base_take(&by_path);
	}
	return by_path >= 0 ? -ESTALE : by_map;
}

int proc_map_look(pid_t pid, const struct proc_map *m)
{
	int fd = map_look(pid, m);

	return has_no_memory(fd) && proc_outlived(&pid) ? map_look(pid, m) : fd;
}

int proc_map_open(pid_t pid, const struct proc_map *m)
{
	_cleanup_close_ int look = proc_map_look(pid, m);

	return look < 0 ? look : proc_look_open(look);
}
