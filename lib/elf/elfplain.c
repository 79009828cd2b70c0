/* SPDX-License-Identifier: MIT */
#include "elf/elfplain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/sendfile.h>
#include <zstd.h>

#include "elf/elfimage.h"
#include "sys/memfile.h"

enum {
	ZSTD = 2, /* ELFCOMPRESS_ZSTD, which Debian 12's elf.h has not yet */
	ALIGN = 64,
};

static bool is_zstd(const struct elfimage *im, const Elf64_Shdr *sh, Elf64_Chdr *ret)
{
	_cleanup_bytes_ struct bytes head = { 0 };

	if (!(sh->sh_flags & SHF_COMPRESSED) || sh->sh_type == SHT_NOBITS ||
	    sh->sh_size <= sizeof(*ret))
		return false;
	head = elfimage_part(im, sh->sh_offset, sizeof(*ret));
	if (!head.at)
		return false;
	memcpy(ret, head.at, sizeof(*ret));
	return ret->ch_type == ZSTD && ret->ch_size > 0 && ret->ch_size <= ELFPLAIN_MAX;
}

static int copy(int fd, uint64_t size)
{
	int to = memfile_new("elf", false);
	off_t at = 0;

	while (to >= 0 && (uint64_t)at < size) {
		if (sendfile(to, fd, &at, size - (uint64_t)at) <= 0) {
			close(to);
			return -EIO;
		}
	}
	return to < 0 ? -errno : to;
}

static int write_at(int fd, const void *p, size_t n, uint64_t at)
{
	size_t done = 0;

	while (done < n) {
		ssize_t k = pwrite(fd, (const char *)p + done, n - done, (off_t)(at + done));

		if (k <= 0)
			return -EIO;
		done += (size_t)k;
	}
	return 0;
}

/* Put section @i unpacked at @end of @to, and have its header say so. */
static int unpack(const struct elfimage *im, size_t i, const Elf64_Chdr *ch, int to,
		  uint64_t end)
{
	Elf64_Shdr sh = im->sh[i];
	_cleanup_bytes_ struct bytes packed = elfimage_part(im, sh.sh_offset, sh.sh_size);
	_cleanup_free_ unsigned char *plain = malloc(ch->ch_size);
	Elf64_Ehdr eh;
	size_t n;

	if (!packed.at || !plain)
		return -ENOMEM;
	n = ZSTD_decompress(plain, ch->ch_size, packed.at + sizeof(*ch),
			    packed.n - sizeof(*ch));
	if (ZSTD_isError(n) || n != ch->ch_size ||
	    pread(to, &eh, sizeof(eh), 0) != sizeof(eh) || write_at(to, plain, n, end) < 0)
		return -EIO;
	sh.sh_flags &= ~(uint64_t)SHF_COMPRESSED;
	sh.sh_offset = end;
	sh.sh_size = n;
	sh.sh_addralign = ch->ch_addralign;
	return write_at(to, &sh, sizeof(sh), eh.e_shoff + i * sizeof(sh));
}

static int open_plain(const struct elfimage *im)
{
	uint64_t end = im->size;
	int to = -1, r = 0;
	Elf64_Chdr ch;

	for (size_t i = 0; i < im->n_sh && r == 0; i++) {
		if (!is_zstd(im, &im->sh[i], &ch))
			continue;
		end = (end + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
		r = end + ch.ch_size > ELFPLAIN_MAX ? -E2BIG : 0;
		if (r == 0 && to < 0)
			r = to = copy(im->fd, im->size);
		if (r >= 0)
			r = unpack(im, i, &ch, to, end);
		end += ch.ch_size;
	}
	if (r < 0 && to >= 0)
		close(to);
	if (r < 0)
		return r;
	return to >= 0 ? to : fcntl(im->fd, F_DUPFD_CLOEXEC, 0);
}

int elfplain_open(int fd)
{
	struct elfimage im;
	int r = elfimage_init(&im, fd, (struct bytes){ 0 });

	if (r == 0)
		r = open_plain(&im);
	elfimage_deinit(&im);
	return r;
}
