/* SPDX-License-Identifier: MIT
 *
 * remote_mem - read the memory of another process.
 *
 * One reader, several sources: the live process, and a decorator that
 * records another reader; tests have images. Everything above this
 * header is pure: given the same bytes it gives the same answer.
 *
 * A reader is used by one thread at a time and never allocates. Addresses are
 * raddr, never pointers, so they cannot be dereferenced by mistake. Nothing
 * here can write into the other process.
 */
#ifndef REMOTE_MEM_H
#define REMOTE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint64_t raddr;

/* One piece of a batched read: @n bytes at @at into @buf. */
struct rmem_vec {
	raddr at;
	void *buf;
	size_t n;
};

struct rmem;

struct rmem_ops {
	const char *name;
	/* All or nothing: 0, or -EFAULT, -ESRCH, -EPERM and @buf unspecified. */
	int (*read)(struct rmem *m, raddr at, void *buf, size_t n);
	/* Read pieces in order, stop at the first that fails. Returns how many
	 * pieces were read whole (0 to @n). NULL: rmem_readv() loops over read. */
	size_t (*readv)(struct rmem *m, const struct rmem_vec *v, size_t n);
};

struct rmem {
	const struct rmem_ops *ops;
};

static inline int rmem_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	return m->ops->read(m, at, buf, n);
}

static inline int rmem_read_u64(struct rmem *m, raddr at, uint64_t *ret)
{
	return rmem_read(m, at, ret, sizeof(*ret));
}

/* See rmem_ops.readv. At most RMEM_MAX_VEC pieces in one call. */
enum { RMEM_MAX_VEC = 64 };
size_t rmem_readv(struct rmem *m, const struct rmem_vec *v, size_t n);

/* The live process, by process_vm_readv(2): 1.6 us a call, 0.33 us a further
 * piece, bytes almost free. Owns nothing. Once the main thread of @pid has ended, its memory can
 * be had by another thread's number only. */
struct rmem_live {
	struct rmem base;
	pid_t pid;
	pid_t thread;	/* that one; 0: none, RMEM_OUTLIVER: proc_outliver() */
	uint64_t calls; /* process_vm_readv calls made */
};
enum { RMEM_OUTLIVER = -1 }; /* what rmem_live_init() begins with */
void rmem_live_init(struct rmem_live *m, pid_t pid);

#endif
