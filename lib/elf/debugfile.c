/* SPDX-License-Identifier: MIT */
#include "elf/debugfile.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "sys/rootfile.h"
#include "elf/xz.h"

enum {
	MAX_MINI = 64 << 20,
	MAX_LINKED = 1 << 30, /* bytes to make CRCs of, of all places: 2 s */
};

/* The CRC-32 of IEEE 802.3, as zlib's crc32(). */
static void crc_table(uint32_t table[256])
{
	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int k = 0; k < 8; k++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
	}
}

/* What is read counts in *@left. */
static bool has_crc(int fd, uint32_t want, off_t *left)
{
	unsigned char block[1 << 16];
	uint32_t table[256], crc = UINT32_MAX;
	struct stat st;
	ssize_t n = 0;

	if (fstat(fd, &st) < 0 || st.st_size > *left)
		return false;
	*left -= st.st_size;
	crc_table(table);
	for (off_t at = 0; at < st.st_size; at += n) {
		n = pread(fd, block, sizeof(block), at);
		if (n <= 0)
			return false;
		for (ssize_t i = 0; i < n; i++)
			crc = crc >> 8 ^ table[(crc ^ block[i]) & 0xff];
	}
	return ~crc == want;
}

static bool has_id(int fd, const unsigned char *id, size_t n)
{
	unsigned char its[ELFIMAGE_MAX_ID];
	struct elfimage im;
	bool ret = elfimage_init(&im, fd, (struct bytes){ 0 }) == 0 &&
		   elfimage_build_id(&im, its) == n && memcmp(its, id, n) == 0;

	elfimage_deinit(&im);
	return ret;
}

static void path_by_id(char path[PATH_MAX], const unsigned char *id, size_t n)
{
	size_t at = (size_t)snprintf(path, PATH_MAX, "/usr/lib/debug/.build-id/");

	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(path + at, PATH_MAX - at, i == 0 ? "%02x/" : "%02x",
				       id[i]);
	snprintf(path + at, PATH_MAX - at, ".debug");
}

/* The @i-th of the places of one that is linked to. False: there is none. */
static bool path_by_link(char path[PATH_MAX], const char *name, const char *beside, size_t i)
{
	static const char *const places[] = { "%.*s/%s", "%.*s/.debug/%s",
					      "/usr/lib/debug%.*s/%s" };
	const char *base = strrchr(beside, '/');
	int n = base ? snprintf(path, PATH_MAX, places[i], (int)(base - beside), beside,
				name) :
		       -1;

	/* What links to itself has no symbols either. */
	return n >= 0 && n < PATH_MAX && strcmp(path, beside) != 0;
}

/* True: a process without rights may have it. */
static bool may_be_handed_on(int fd)
{
	char magic[SELFMAG];
	struct stat st;

	return fstat(fd, &st) == 0 &&
	       (st.st_mode & S_IROTH || (pread(fd, magic, SELFMAG, 0) == SELFMAG &&
					 memcmp(magic, ELFMAG, SELFMAG) == 0));
}

static int open_at(int root, const char *path)
{
	int fd = rootfile_open(root, path);

	if (fd < 0 || may_be_handed_on(fd))
		return MAX(fd, -1);
	close(fd);
	return -1;
}

void debugfile_open_all(const struct debugfile_want *want, int root, const char *beside,
			int fd[DEBUGFILE_PLACES])
{
	bool linked = *want->link && memchr(want->link, '\0', sizeof(want->link)) &&
		      !strchr(want->link, '/');
	const int roots[] = { root, -1 };
	size_t n_roots = root < 0 ? 1 : 2;
	char path[PATH_MAX];

	for (size_t i = 0; i < DEBUGFILE_PLACES; i++)
		fd[i] = -1;
	if (want->n_id > 1 && want->n_id <= sizeof(want->id)) {
		path_by_id(path, want->id, want->n_id);
		for (size_t i = 0; i < n_roots; i++)
			fd[i] = open_at(roots[i], path);
	}
	for (size_t i = 0; linked && i < 3 * n_roots; i++)
		if (path_by_link(path, want->link, beside, i % 3))
			fd[DEBUGFILE_BY_ID + i] = open_at(roots[i / 3], path);
}

/* .gnu_debuglink: a file's name, padding to 4, the CRC of what is in it. */
static void read_link(struct debugfile_want *want, struct bytes link)
{
	const char *name = (const char *)link.at;
	size_t n = link.at ? strnlen(name, link.n) : 0, at = (n + 4) & ~(size_t)3;

	if (n == 0 || n >= sizeof(want->link) || strchr(name, '/') || at > link.n ||
	    link.n - at < 4)
		return;
	want->crc = load_u32(link.at + at);
	memcpy(want->link, name, n);
}

static bool fits(const struct debugfile_want *want, size_t place, int fd, off_t *left)
{
	return place < DEBUGFILE_BY_ID ? has_id(fd, want->id, want->n_id) :
					 has_crc(fd, want->crc, left);
}

int debugfile_open(const struct elfimage *im, const struct debugfile_origin *o)
{
	_cleanup_bytes_ struct bytes link =
		elfimage_bytes(im, elfimage_section(im, ".gnu_debuglink"));
	struct debugfile_want want = { 0 };
	int fd[DEBUGFILE_PLACES], found = -ENOENT;
	off_t left = MAX_LINKED;

	want.n_id = (uint32_t)elfimage_build_id(im, want.id);
	read_link(&want, link);
	if (want.n_id < 2 && !*want.link)
		return -ENOENT;
	if (o->open)
		o->open(o->arg, &want, fd);
	else
		debugfile_open_all(&want, o->root, o->path, fd);
	for (size_t i = 0; i < DEBUGFILE_PLACES; i++) {
		if (fd[i] < 0)
			continue;
		if (found < 0 && fits(&want, i, fd[i], &left))
			found = fd[i];
		else
			close(fd[i]);
	}
	return found;
}

bool debugfile_has_dwarf(int fd)
{
	const Elf64_Shdr *sh = NULL;
	struct elfimage im;
	bool ret;

	if (elfimage_init(&im, fd, (struct bytes){ 0 }) == 0)
		sh = elfimage_section(&im, ".debug_info");
	if (!sh)
		sh = elfimage_section(&im, ".zdebug_info");
	ret = sh && sh->sh_type != SHT_NOBITS;
	elfimage_deinit(&im);
	return ret;
}

struct bytes debugfile_mini(const struct elfimage *im)
{
	_cleanup_bytes_ struct bytes packed =
		elfimage_bytes(im, elfimage_section(im, ".gnu_debugdata"));

	return packed.at ? xz_unpack(packed, MAX_MINI) : (struct bytes){ 0 };
}
