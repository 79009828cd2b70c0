/* SPDX-License-Identifier: MIT
 *
 * cursor - reading DWARF's numbers from bytes of any origin, front to back.
 *
 * A read over the end sets bad; it and every later one give 0, so a reader may look at
 * bad once, at the end.
 */
#ifndef CURSOR_H
#define CURSOR_H

#include <stdbool.h>

#include "base/base.h"

/* DWARF pointer encodings (LSB core, 10.5.1). */
enum {
	ENC_PTR = 0,
	ENC_U2 = 2,
	ENC_U4 = 3,
	ENC_U8 = 4,
	ENC_PCREL = 0x10,
	ENC_DATAREL = 0x30,
	ENC_BASE = 0xf0, /* what the value is relative to, and indirect */
};

struct cursor {
	struct bytes b;
	size_t at;
	bool bad;
};

/* @n bytes, at most 8. */
static inline const unsigned char *cursor_take(struct cursor *c, size_t n)
{
	static const unsigned char zeros[8];

	if (c->bad || c->at > c->b.n || n > c->b.n - c->at || n > sizeof(zeros)) {
		c->bad = true;
		return zeros;
	}
	c->at += n;
	return c->b.at + c->at - n;
}

static inline unsigned cursor_u8(struct cursor *c)
{
	return *cursor_take(c, 1);
}

static inline uint32_t cursor_u16(struct cursor *c)
{
	const unsigned char *p = cursor_take(c, 2);

	return p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t cursor_u32(struct cursor *c)
{
	return load_u32(cursor_take(c, 4));
}

static inline uint64_t cursor_u64(struct cursor *c)
{
	return load_u64(cursor_take(c, 8));
}

/* The seven bits of each byte, but those above the 64th; *@shift: behind them; *@last: the last
 * byte. */
static inline uint64_t cursor_leb(struct cursor *c, unsigned *shift, unsigned *last)
{
	uint64_t v = 0;

	*shift = 0;
	do {
		*last = cursor_u8(c);
		if (*shift < 64)
			v |= (uint64_t)(*last & 0x7f) << *shift;
		*shift += 7;
	} while (*last & 0x80 && !c->bad);
	return v;
}

static inline uint64_t cursor_uleb(struct cursor *c)
{
	unsigned shift, last;

	return cursor_leb(c, &shift, &last);
}

static inline int64_t cursor_sleb(struct cursor *c)
{
	unsigned shift, last;
	uint64_t v = cursor_leb(c, &shift, &last);

	if (shift < 64 && last & 0x40)
		v |= ~(uint64_t)0 << shift;
	return (int64_t)v;
}

/* A window of the next @n bytes, which are skipped; empty when there are not so many. */
static inline struct bytes cursor_window(struct cursor *c, uint64_t n)
{
	if (c->bad || c->at > c->b.n || n > c->b.n - c->at) {
		c->bad = true;
		return (struct bytes){ 0 };
	}
	c->at += n;
	return (struct bytes){ c->b.at + c->at - n, n };
}

/* An encoded value of fixed size without its base; the sign is extended where there is
 * one. */
static inline uint64_t cursor_enc(struct cursor *c, unsigned enc)
{
	static const unsigned char size[8] = {
		[ENC_PTR] = 8, [ENC_U2] = 2, [ENC_U4] = 4, [ENC_U8] = 8
	};
	size_t n = size[enc & 7];
	int shift = 64 - 8 * (int)n;
	uint64_t v = 0;

	if (n == 0) {
		c->bad = true;
		return 0;
	}
	memcpy(&v, cursor_take(c, n), n);
	return enc & 8 ? (uint64_t)((int64_t)(v << shift) >> shift) : v;
}

#endif
