/* SPDX-License-Identifier: MIT */
#include "modules/codefile.h"

#include "modules/space_file.h"

#include <errno.h>

#include "base/clock.h"

enum { BLOCK = 16 << 10, RETRY_NS = 1000000000 };

void codefile_deinit(struct codefile *c)
{
	for (size_t i = 0; i < CODEFILE_BLOCKS; i++)
		free(c->block[i].bytes);
}

static struct codefile_block *block_slot(struct codefile *c, uint64_t file, uint64_t at)
{
	uint64_t h = (file << 40 ^ file ^ at / BLOCK) * 0x9e3779b97f4a7c15;

	return &c->block[h >> 32 & (CODEFILE_BLOCKS - 1)];
}

/* The block of @m's file at @at. Nothing is in it that could not be read: that is tried again,
 * but each try takes a thread. */
static const struct codefile_block *block(struct codefile *c, const struct space *sp,
					  const struct space_map *m, uint64_t at)
{
	uint64_t file = elfcache_version(m->elf), now = now_ns();
	struct codefile_block *b = block_slot(c, file, at);
	ssize_t n;

	if (b->file == file && b->at == at && (b->n || now < b->retry_ns))
		return b;
	if (!b->bytes)
		b->bytes = malloc(BLOCK);
	n = b->bytes ? space_read(sp, m, at, b->bytes, BLOCK) : -ENOMEM;
	b->file = file;
	b->at = at;
	b->n = n < 0 ? 0 : (size_t)n;
	b->retry_ns = now + RETRY_NS;
	return b;
}

int codefile_at(struct codefile *c, const struct space *sp, const struct space_map *m,
		uint64_t offset, void *buf, size_t n)
{
	unsigned char *to = buf;

	while (n > 0) {
		size_t skip = offset % BLOCK, more;
		const struct codefile_block *b = block(c, sp, m, offset - skip);

		if (skip >= b->n)
			return -EFAULT;
		more = MIN(n, b->n - skip);
		memcpy(to, b->bytes + skip, more);
		to += more, offset += more, n -= more;
	}
	return 0;
}

int codefile_read(struct codefile *c, const struct space *sp, uint64_t at, void *buf, size_t n)
{
	const struct space_map *m = sp ? space_at(sp, at) : NULL;

	if (!m || !m->elf || m->hi - at < n)
		return -EFAULT;
	return codefile_at(c, sp, m, at - m->lo + m->pgoff, buf, n);
}
