/* SPDX-License-Identifier: MIT */
#include "elf/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sys/memfile.h"

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

static int put(int fd, struct iovec *at, const struct iovec *end)
{
	while (at < end) {
		ssize_t n = writev(fd, at, (int)(end - at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -ENOMEM;
		for (; at < end && (size_t)n >= at->iov_len; at++)
			n -= (ssize_t)at->iov_len;
		if (at < end) {
			at->iov_base = (char *)at->iov_base + n;
			at->iov_len -= (size_t)n;
		}
	}
	return fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -ENOMEM : 0;
}

int sealed_make(struct iovec *part, size_t n)
{
	int r, fd = memfile_new("pysampled", true);

	if (fd < 0)
		return -ENOMEM;
	r = put(fd, part, part + n);
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

/* Its size, or 0. */
static size_t size_of(int fd, uint64_t max)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_size <= 0 ||
	    (uint64_t)st.st_size > max || lseek(fd, 0, SEEK_HOLE) != st.st_size)
		return 0;
	return (size_t)st.st_size;
}

int sealed_map(struct bytes *ret, int fd, uint64_t max)
{
	size_t n = size_of(fd, max);
	void *at = n ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;

	if (at == MAP_FAILED)
		return -ENOMEM;
	*ret = (struct bytes){ at, n };
	return n ? 0 : -EPROTO;
}
