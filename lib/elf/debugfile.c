/* SPDX-License-Identifier: MIT */
#include "elf/debugfile.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "sys/rootfile.h"
#include "elf/xz.h"

enum {
	MAX_MINI = 64 << 20,
	MAX_LINKED = 1 << 30, /* bytes to make a CRC of: 2 s */
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

static bool has_crc(int fd, uint32_t want)
{
	unsigned char block[1 << 16];
	uint32_t table[256], crc = UINT32_MAX;
	struct stat st;
	ssize_t n = 0;

	if (fstat(fd, &st) < 0 || st.st_size > MAX_LINKED)
		return false;
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

static int open_by_id(const unsigned char *id, size_t n, int root)
{
	static const char folder[] = "/usr/lib/debug/.build-id/";
	char path[sizeof(folder) + 2 * ELFIMAGE_MAX_ID + 16];
	size_t at = sizeof(folder) - 1;
	int fd;

	memcpy(path, folder, sizeof(folder));
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(path + at, sizeof(path) - at, i == 0 ? "%02x/" : "%02x",
				       id[i]);
	snprintf(path + at, sizeof(path) - at, ".debug");
	fd = rootfile_open(root, path);
	if (fd >= 0 && has_id(fd, id, n))
		return fd;
	if (fd >= 0)
		close(fd);
	return -ENOENT;
}

/* .gnu_debuglink: a file's name, padding to 4, the CRC of what is in it. */
static const char *link_name(struct bytes link, uint32_t *crc)
{
	const char *name = (const char *)link.at;
	size_t n = link.at ? strnlen(name, link.n) : 0, at = (n + 4) & ~(size_t)3;

	if (n == 0 || strchr(name, '/') || at > link.n || link.n - at < 4)
		return NULL;
	*crc = load_u32(link.at + at);
	return name;
}

static int open_by_link(const char *name, uint32_t crc, const char *beside, int root)
{
	static const char *const places[] = { "%.*s/%s", "%.*s/.debug/%s",
					      "/usr/lib/debug%.*s/%s" };
	const char *base = strrchr(beside, '/');
	char path[PATH_MAX];

	for (size_t i = 0; base && i < ARRAY_SIZE(places); i++) {
		int fd, n = snprintf(path, sizeof(path), places[i], (int)(base - beside),
				     beside, name);

		/* What links to itself has no symbols either. */
		if (n >= (int)sizeof(path) || strcmp(path, beside) == 0)
			continue;
		fd = rootfile_open(root, path);
		if (fd >= 0 && has_crc(fd, crc))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -ENOENT;
}

int debugfile_open(const struct elfimage *im, const struct debugfile_origin *o)
{
	_cleanup_bytes_ struct bytes link =
		elfimage_bytes(im, elfimage_section(im, ".gnu_debuglink"));
	const int roots[] = { o->root, -1 };
	unsigned char id[ELFIMAGE_MAX_ID];
	size_t n = elfimage_build_id(im, id), n_roots = o->root < 0 ? 1 : 2;
	uint32_t crc = 0;
	const char *name = link_name(link, &crc);
	int fd = -ENOENT;

	for (size_t i = 0; n > 1 && fd < 0 && i < n_roots; i++)
		fd = open_by_id(id, n, roots[i]);
	for (size_t i = 0; name && fd < 0 && i < n_roots; i++)
		fd = open_by_link(name, crc, o->path, roots[i]);
	return fd;
}

struct bytes debugfile_mini(const struct elfimage *im)
{
	_cleanup_bytes_ struct bytes packed =
		elfimage_bytes(im, elfimage_section(im, ".gnu_debugdata"));

	return packed.at ? xz_unpack(packed, MAX_MINI) : (struct bytes){ 0 };
}
