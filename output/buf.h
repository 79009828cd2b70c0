/* SPDX-License-Identifier: MIT
 *
 * buf - bytes that grow, for formats that are built in memory.
 *
 * Little-endian, like the machines we run on. Running out of memory is sticky:
 * put everything, then look at @oom once.
 */
#ifndef BUF_H
#define BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	unsigned char *at;
	size_t n, cap;
	bool oom;
};

void buf_deinit(struct buf *b);

void buf_put(struct buf *b, const void *p, size_t n);
void buf_zero(struct buf *b, size_t n);
void buf_align(struct buf *b, size_t to);   /* zeroes up to a multiple of @to */
void buf_str(struct buf *b, const char *s); /* with its NUL */
void buf_u8(struct buf *b, unsigned v);
void buf_u16(struct buf *b, unsigned v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_uleb(struct buf *b, uint64_t v);
void buf_sleb(struct buf *b, int64_t v);

/* Overwrite what was put at @off. */
void buf_set_u16(struct buf *b, size_t off, unsigned v);
void buf_set_u32(struct buf *b, size_t off, uint32_t v);

/* All of the bytes into a file, at @off. 0 or -errno; @done (may be NULL) is how
 * many got there. */
int buf_pwrite(const struct buf *b, int fd, uint64_t off, size_t *done);

#endif
