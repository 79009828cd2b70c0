/* SPDX-License-Identifier: MIT
 *
 * buildid - reads notes; links files into perf's build-id cache.
 */
#include "buildid.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "elf/elfimage.h"
#include "sys/proc.h"

struct buildid buildid_of_notes_file(const char *path)
{
	_cleanup_free_ char *text = NULL;
	unsigned char id[ELFIMAGE_MAX_ID];
	size_t n = 0;

	if (proc_read_file(path, &text, &n) < 0)
		return (struct buildid){};
	n = elfimage_id_in_notes((struct bytes){ (unsigned char *)text, n }, id);
	return buildid_from((struct bytes){ id, n });
}

struct buildid buildid_from(struct bytes id)
{
	struct buildid ret = { .n = MIN(id.n, (size_t)BUILDID_MAX) };

	if (ret.n)
		memcpy(ret.at, id.at, ret.n);
	return ret;
}

/* Entries of one path that stay, and that go at a time. */
enum { BUILDID_KEEP = 16, BUILDID_FORGET = 8 };

static bool make_folders(char *path)
{
	for (char *p = path + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			if (mkdir(path, 0755) && errno != EEXIST)
				return false;
			*p = '/';
		}
	return true;
}

static int copy_file(const char *from, const char *to)
{
	_cleanup_close_ int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	char block[64 * 1024];
	ssize_t n;
	int ret;

	if (in < 0 || out < 0)
		return -errno;
	while ((n = read(in, block, sizeof(block))) > 0) {
		errno = ENOSPC; /* where there is room for a part */
		if (write(out, block, (size_t)n) != n)
			break;
	}
	ret = n ? -errno : 0;
	if (ret)
		unlink(to);
	return ret;
}

/* ROOT/PATH/ID/elf, and ROOT/.build-id/II/REST, a link to the folder of the former. */
struct place {
	char file[PATH_MAX * 2 + 64], entry[PATH_MAX + 64], target[PATH_MAX + 64];
};

/* Where the cache is, and what a build-id is called in it. 0 or -errno. */
static int find_root(struct buildid id, char root[PATH_MAX], char hex[2 * BUILDID_MAX + 1])
{
	const char *set = getenv("PYSAMPLED_BUILDID_DIR"), *home = getenv("HOME");

	if (!id.n || (!set && (!home || !*home)))
		return -ENOENT;
	for (size_t i = 0; i < id.n; i++)
		snprintf(hex + 2 * i, 3, "%02x", id.at[i]);
	snprintf(root, PATH_MAX, "%s%s", set ? set : home, set ? "" : "/.debug");
	if (root[0] != '/')
		return -ENOENT;
	/* A user's home is not for us to make, such as nobody's /nonexistent. */
	return !set && access(home, F_OK) ? -errno : 0;
}

/* Its folders are made. 0 or -errno. */
static int make_place(struct place *p, const char *path, struct buildid id)
{
	char hex[2 * BUILDID_MAX + 1] = "", root[PATH_MAX];
	int ret = find_root(id, root, hex);

	if (ret || strlen(path) >= PATH_MAX)
		return ret ? ret : -ENOENT;
	snprintf(p->file, sizeof(p->file), "%s%s/%s/" BUILDID_CACHE_FILE, root, path, hex);
	snprintf(p->entry, sizeof(p->entry), "%s/.build-id/%.2s/%s", root, hex, hex + 2);
	snprintf(p->target, sizeof(p->target), "../..%s/%s", path, hex);
	return make_folders(p->file) && make_folders(p->entry) ? 0 : -errno;
}

/* The oldest entry of the folder @dir that a build-id names, in @name; how many there are. */
static size_t oldest(DIR *dir, char name[NAME_MAX + 1])
{
	struct timespec first = { 0 };
	struct dirent *d;
	struct stat st;
	size_t n = 0;

	rewinddir(dir);
	while ((d = readdir(dir))) {
		size_t len = strlen(d->d_name);

		if (len != strspn(d->d_name, "0123456789abcdef") ||
		    fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISDIR(st.st_mode))
			continue;
		if (!n++ || st.st_mtim.tv_sec < first.tv_sec ||
		    (st.st_mtim.tv_sec == first.tv_sec &&
		     st.st_mtim.tv_nsec < first.tv_nsec)) {
			first = st.st_mtim;
			memcpy(name, d->d_name, len + 1);
		}
	}
	return n;
}

/* Of one path the newest stay: a file that is recorded into again and again would fill the
 * cache. */
static void forget_old(const struct place *p)
{
	const char *ids = strstr(p->entry, "/.build-id/");
	char folder[sizeof(p->file)], name[NAME_MAX + 1], link[PATH_MAX + NAME_MAX + 64];
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s", p->file);
	*strrchr(folder, '/') = '\0'; /* of this id */
	*strrchr(folder, '/') = '\0'; /* of the path */
	dir = opendir(folder);
	for (int i = 0; dir && i < BUILDID_FORGET && oldest(dir, name) > BUILDID_KEEP; i++) {
		char elf[NAME_MAX + sizeof("/" BUILDID_CACHE_FILE)];

		snprintf(elf, sizeof(elf), "%s/" BUILDID_CACHE_FILE, name);
		snprintf(link, sizeof(link), "%.*s/.build-id/%.2s/%s", (int)(ids - p->entry),
			 p->entry, name, name + MIN(strlen(name), (size_t)2));
		unlink(link);
		unlinkat(dirfd(dir), elf, 0);
		if (unlinkat(dirfd(dir), name, AT_REMOVEDIR))
			break;
	}
	if (dir)
		closedir(dir);
}

int buildid_cache_add(const char *path, struct buildid id)
{
	struct place p;
	int ret = make_place(&p, path, id);

	if (!ret && link(path, p.file) && errno != EEXIST)
		ret = copy_file(path, p.file);
	if (ret && ret != -EEXIST)
		return ret;
	if (symlink(p.target, p.entry))
		return errno == EEXIST ? 0 : -errno;
	forget_old(&p);
	return 0;
}

int buildid_cache_place(const char *path, struct buildid id)
{
	struct place p;
	int ret = make_place(&p, path, id), fd;

	if (ret)
		return ret;
	forget_old(&p);
	*strrchr(p.file, '/') = '\0';
	fd = open(p.file, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (!symlink(p.target, p.entry) || errno == EEXIST))
		return fd;
	ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

int buildid_cache_open(struct buildid id)
{
	char hex[2 * BUILDID_MAX + 1] = "", root[PATH_MAX], path[PATH_MAX + 128];
	int ret = find_root(id, root, hex), fd;

	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s/" BUILDID_CACHE_FILE, root, hex,
		 hex + 2);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}
