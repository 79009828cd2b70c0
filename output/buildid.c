/* SPDX-License-Identifier: MIT
 *
 * buildid - reads notes; links files into perf's build-id cache.
 */
#include "buildid.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "sys/proc.h"

enum { NOTES_MAX = 64 * 1024, PHDRS_MAX = 256 };

struct buildid buildid_in_notes(struct bytes notes)
{
	struct buildid ret = {};
	Elf64_Nhdr nh;

	while (notes.n >= sizeof(nh)) {
		uint64_t name, size;

		memcpy(&nh, notes.at, sizeof(nh));
		name = sizeof(nh) + (((uint64_t)nh.n_namesz + 3) & ~3ull);
		size = name + (((uint64_t)nh.n_descsz + 3) & ~3ull);
		if (name + nh.n_descsz > notes.n)
			break;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 && nh.n_descsz &&
		    !memcmp(notes.at + sizeof(nh), "GNU", 4)) {
			ret.n = MIN((size_t)nh.n_descsz, (size_t)BUILDID_MAX);
			memcpy(ret.at, notes.at + name, ret.n);
			break;
		}
		size = MIN(size, notes.n);
		notes.at += size;
		notes.n -= size;
	}
	return ret;
}

struct buildid buildid_of_notes_file(const char *path)
{
	struct buildid ret = {};
	_cleanup_free_ char *text = NULL;
	size_t n = 0;

	if (!proc_read_file(path, &text, &n))
		ret = buildid_in_notes((struct bytes){ (unsigned char *)text, n });
	return ret;
}

static struct buildid buildid_of_segment(int fd, const GElf_Phdr *ph)
{
	struct buildid ret = {};
	size_t n = MIN(ph->p_filesz, (GElf_Xword)NOTES_MAX);
	_cleanup_free_ unsigned char *notes = malloc(n + 1);
	ssize_t got = notes ? pread(fd, notes, n, (off_t)ph->p_offset) : -1;

	if (got > 0)
		ret = buildid_in_notes((struct bytes){ notes, (size_t)got });
	return ret;
}

struct buildid buildid_of_elf(int fd)
{
	struct buildid ret = {};
	size_t n = 0;
	GElf_Phdr ph;
	Elf *elf;

	elf_version(EV_CURRENT);
	/* read, not mapped: the file may be cut under our feet */
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF && !elf_getphdrnum(elf, &n))
		for (int i = 0; i < (int)MIN(n, (size_t)PHDRS_MAX) && !ret.n; i++)
			if (gelf_getphdr(elf, i, &ph) && ph.p_type == PT_NOTE)
				ret = buildid_of_segment(fd, &ph);
	elf_end(elf);
	return ret;
}

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

static bool copy_file(const char *from, const char *to)
{
	_cleanup_close_ int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	char block[64 * 1024];
	ssize_t n = -1;

	if (in < 0 || out < 0)
		return false;
	while ((n = read(in, block, sizeof(block))) > 0)
		if (write(out, block, (size_t)n) != n)
			break;
	if (n)
		unlink(to);
	return !n;
}

/* ROOT/PATH/ID/elf, and ROOT/.build-id/II/REST, a link to the folder of the former. */
void buildid_cache_add(const char *path, struct buildid id)
{
	const char *set = getenv("PYSAMPLED_BUILDID_DIR"), *home = getenv("HOME");
	char hex[2 * BUILDID_MAX + 1] = "", root[PATH_MAX], file[PATH_MAX * 2 + 64];
	char entry[PATH_MAX + 64], target[PATH_MAX + 64];

	if (!id.n || (!set && !home))
		return;
	for (size_t i = 0; i < id.n; i++)
		snprintf(hex + 2 * i, 3, "%02x", id.at[i]);
	snprintf(root, sizeof(root), "%s%s", set ? set : home, set ? "" : "/.debug");
	if (root[0] != '/' || strlen(path) >= PATH_MAX)
		return;
	snprintf(file, sizeof(file), "%s%s/%s/elf", root, path, hex);
	snprintf(entry, sizeof(entry), "%s/.build-id/%.2s/%s", root, hex, hex + 2);
	snprintf(target, sizeof(target), "../..%s/%s", path, hex);
	if (!make_folders(file) || !make_folders(entry))
		return;
	if (link(path, file) && errno != EEXIST && !copy_file(path, file))
		return;
	if (symlink(target, entry) && errno == EEXIST)
		return;
}
