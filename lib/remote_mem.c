/* SPDX-License-Identifier: MIT */
#include "remote_mem.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/base.h"
#include "base/work.h"
#include "sys/proc.h"

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

/* True: the last read failed because the main thread has ended, and another is asked from then
 * on. */
static bool has_another_way(struct rmem_live *live)
{
	pid_t pid = live->pid, other = live->thread;

	if (errno != ESRCH || !other)
		return false;
	live->thread = 0;
	if (other == RMEM_OUTLIVER)
		other = proc_outliver(pid);
	if (other && proc_state(pid, other))
		live->pid = other;
	errno = ESRCH; /* what it was before the files were read */
	return live->pid != pid;
}

static ssize_t get(struct rmem_live *live, const struct iovec *to, const struct iovec *from,
		   size_t n)
{
	ssize_t got;

	live->calls++;
	work_add(WORK_reads, 1);
	work_add(WORK_ranges, n);
	got = process_vm_readv(live->pid, to, n, from, n, 0);
	return got < 0 && has_another_way(live) ? get(live, to, from, n) : got;
}

static int live_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct iovec to = { .iov_base = buf, .iov_len = n };
	struct iovec from = { .iov_base = (void *)(uintptr_t)at, .iov_len = n };
	ssize_t got = get(container_of(m, struct rmem_live, base), &to, &from, 1);

	if (got < 0)
		return -errno;
	return (size_t)got == n ? 0 : -EFAULT;
}

static size_t live_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
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
	got = get(container_of(m, struct rmem_live, base), to, from, n);
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
	*m = (struct rmem_live){ .base.ops = &live_ops, .pid = pid, .thread = RMEM_OUTLIVER };
}
