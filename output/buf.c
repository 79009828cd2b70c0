/* SPDX-License-Identifier: MIT
 *
 * buf - growth by doubling, LEB128, whole writes.
 */
#include "buf.h"

#include <errno.h>

#include "base/base.h"

void buf_deinit(struct buf *b)
{
	free(b->at);
	*b = (struct buf){};
}

/* @n more bytes, uninitialised. NULL: no memory. */
static unsigned char *buf_more(struct buf *b, size_t n)
{
	if (b->oom)
		return NULL;
	if (n > b->cap - b->n) {
		size_t cap = MAX(b->cap * 2, MAX((size_t)256, b->n + n));
		unsigned char *at = realloc(b->at, cap);

		if (!at) {
			b->oom = true;
			return NULL;
		}
		b->at = at;
		b->cap = cap;
	}
	b->n += n;
	return b->at + b->n - n;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	unsigned char *at = n ? buf_more(b, n) : NULL;

	if (at)
		memcpy(at, p, n);
}

void buf_zero(struct buf *b, size_t n)
{
	unsigned char *at = n ? buf_more(b, n) : NULL;

	if (at)
		memset(at, 0, n);
}

void buf_align(struct buf *b, size_t to)
{
	buf_zero(b, (to - b->n % to) % to);
}

void buf_str(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s) + 1);
}

void buf_u8(struct buf *b, unsigned v)
{
	buf_put(b, &(uint8_t){ (uint8_t)v }, 1);
}

void buf_u16(struct buf *b, unsigned v)
{
	buf_put(b, &(uint16_t){ (uint16_t)v }, 2);
}

void buf_u32(struct buf *b, uint32_t v)
{
	buf_put(b, &v, 4);
}

void buf_u64(struct buf *b, uint64_t v)
{
	buf_put(b, &v, 8);
}

void buf_uleb(struct buf *b, uint64_t v)
{
	unsigned char bytes[10];
	size_t n = 0;

	for (; v > 0x7f; v >>= 7)
		bytes[n++] = (unsigned char)(v | 0x80);
	bytes[n++] = (unsigned char)v;
	buf_put(b, bytes, n);
}

void buf_sleb(struct buf *b, int64_t v)
{
	for (;;) {
		unsigned byte = v & 0x7f;

		v >>= 7;
		if (v == (byte & 0x40 ? -1 : 0)) {
			buf_u8(b, byte);
			return;
		}
		buf_u8(b, byte | 0x80);
	}
}

void buf_set_u16(struct buf *b, size_t off, unsigned v)
{
	if (!b->oom)
		memcpy(b->at + off, &(uint16_t){ (uint16_t)v }, 2);
}

void buf_set_u32(struct buf *b, size_t off, uint32_t v)
{
	if (!b->oom)
		memcpy(b->at + off, &v, 4);
}

int buf_pwrite(const struct buf *b, int fd, uint64_t off, size_t *done)
{
	size_t at = 0;
	int ret = b->oom ? -ENOMEM : 0;

	while (!ret && at < b->n) {
		ssize_t n = pwrite(fd, b->at + at, b->n - at, (off_t)(off + at));

		if (n > 0)
			at += (size_t)n;
		else if (n == 0)
			ret = -ENOSPC;
		else if (errno != EINTR)
			ret = -errno;
	}
	if (done)
		*done = at;
	return ret;
}
