/* SPDX-License-Identifier: MIT */
#include "remote_mem.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/base.h"
#include "base/work.h"

size_t rmem_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	if (n > RMEM_MAX_VEC)
		n = RMEM_MAX_VEC;
	if (m->ops->readv)
		return m->ops->readv(m, v, n);
	for (size_t i = 0; i < n; i++)
		if (rmem_read(m, v[i].at, v[i].buf, v[i].n) < 0)
			return i;
	return n;
}

static int live_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct rmem_live *live = container_of(m, struct rmem_live, base);
	struct iovec to = { .iov_base = buf, .iov_len = n };
	struct iovec from = { .iov_base = (void *)(uintptr_t)at, .iov_len = n };
	ssize_t got;

	live->calls++;
	work_add(WORK_reads, 1);
	work_add(WORK_ranges, 1);
	got = process_vm_readv(live->pid, &to, 1, &from, 1, 0);
	if (got < 0)
		return -errno;
	return (size_t)got == n ? 0 : -EFAULT;
}

static size_t live_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct rmem_live *live = container_of(m, struct rmem_live, base);
	struct iovec to[RMEM_MAX_VEC], from[RMEM_MAX_VEC];
	ssize_t got;
	size_t i = 0;

	if (n == 0 || n > RMEM_MAX_VEC)
		return 0;
	do {
		to[i] = (struct iovec){ .iov_base = v[i].buf, .iov_len = v[i].n };
		from[i] = (struct iovec){ .iov_base = (void *)(uintptr_t)v[i].at,
					  .iov_len = v[i].n };
	} while (++i < n);
	live->calls++;
	work_add(WORK_reads, 1);
	work_add(WORK_ranges, n);
	got = process_vm_readv(live->pid, to, n, from, n, 0);
	for (i = 0; i < n && got >= (ssize_t)v[i].n; i++)
		got -= (ssize_t)v[i].n;
	return i;
}

static const struct rmem_ops live_ops = {
	.name = "live",
	.read = live_read,
	.readv = live_readv,
};

void rmem_live_init(struct rmem_live *m, pid_t pid)
{
	*m = (struct rmem_live){ .base.ops = &live_ops, .pid = pid };
}

/* Bounds by subtraction: @at and @n come from the target and may be anything. */
static bool chunk_covers(const struct rmem_chunk *c, raddr at, size_t n)
{
	return at >= c->at && n <= c->n && at - c->at <= c->n - n;
}

static int image_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct rmem_image *image = container_of(m, struct rmem_image, base);

	for (size_t i = image->n_chunks; i-- > 0;) {
		const struct rmem_chunk *c = &image->chunks[i];

		if (!chunk_covers(c, at, n))
			continue;
		if (!c->bytes)
			return -EFAULT;
		memcpy(buf, (const char *)c->bytes + (at - c->at), n);
		return 0;
	}
	return -EFAULT;
}

static const struct rmem_ops image_ops = { .name = "image", .read = image_read };

void rmem_image_init(struct rmem_image *m, const struct rmem_chunk *chunks, size_t n_chunks)
{
	*m = (struct rmem_image){
		.base.ops = &image_ops,
		.chunks = chunks,
		.n_chunks = n_chunks,
	};
}
