/* SPDX-License-Identifier: MIT
 *
 * rmem_image - a target's memory that lies in ours.
 */
#ifndef RMEM_IMAGE_H
#define RMEM_IMAGE_H

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "remote_mem.h"

/* Bytes kept in this process: a fixture or a tape. A
 * chunk whose bytes are NULL is a hole: reads that lie in it fail. */
struct rmem_chunk {
	raddr at;
	size_t n;
	const void *bytes;
};
struct rmem_image {
	struct rmem base;
	const struct rmem_chunk *chunks; /* borrowed; the last one that fits wins */
	size_t n_chunks;
};

/* Bounds by subtraction: @at and @n come from the target and may be anything. */
static inline bool rmem_chunk_covers(const struct rmem_chunk *c, raddr at, size_t n)
{
	return at >= c->at && n <= c->n && at - c->at <= c->n - n;
}

static inline int rmem_image_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct rmem_image *image = container_of(m, struct rmem_image, base);

	for (size_t i = image->n_chunks; i-- > 0;) {
		const struct rmem_chunk *c = &image->chunks[i];

		if (!rmem_chunk_covers(c, at, n))
			continue;
		if (!c->bytes)
			return -EFAULT;
		memcpy(buf, (const char *)c->bytes + (at - c->at), n);
		return 0;
	}
	return -EFAULT;
}

static inline void rmem_image_init(struct rmem_image *m, const struct rmem_chunk *chunks,
				   size_t n_chunks)
{
	static const struct rmem_ops ops = { .name = "image", .read = rmem_image_read };

	*m = (struct rmem_image){
		.base.ops = &ops,
		.chunks = chunks,
		.n_chunks = n_chunks,
	};
}

#endif
