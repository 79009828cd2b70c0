/* SPDX-License-Identifier: MIT
 *
 * ehframe - functions and their sizes from .eh_frame_hdr and .eh_frame: pure over byte
 * windows, every byte of which may be hostile.
 */
#include <errno.h>

#include "elfcache.h"

/* DWARF pointer encodings that occur in these sections. */
enum {
	ENC_PTR = 0,
	ENC_U2 = 2,
	ENC_U4 = 3,
	ENC_U8 = 4,
	ENC_PCREL = 0x10,
	ENC_DATAREL = 0x30,
};
enum { ROW_ENC = 0x3b }; /* table rows: datarel | sdata4, what every linker writes */

struct cursor {
	struct bytes b;
	size_t at;
	bool bad; /* ran over the end; every later read gives 0 */
};

static const unsigned char *cursor_take(struct cursor *c, size_t n)
{
	static const unsigned char zeros[8];

	if (c->bad || c->at > c->b.n || n > c->b.n - c->at || n > sizeof(zeros)) {
		c->bad = true;
		return zeros;
	}
	c->at += n;
	return c->b.at + c->at - n;
}

static uint32_t cursor_u32(struct cursor *c)
{
	return load_u32(cursor_take(c, 4));
}

static unsigned cursor_u8(struct cursor *c)
{
	return *cursor_take(c, 1);
}

static void cursor_skip_leb(struct cursor *c)
{
	while (!c->bad && (cursor_u8(c) & 0x80))
		;
}

/* How many bytes a value of this encoding has; 0: not a fixed number. */
static size_t enc_size(unsigned enc)
{
	static const unsigned char size[8] = {
		[ENC_PTR] = 8, [ENC_U2] = 2, [ENC_U4] = 4, [ENC_U8] = 8
	};

	return size[enc & 7];
}

/* An encoded value without its base; the sign is extended where there is one. */
static uint64_t cursor_enc(struct cursor *c, unsigned enc)
{
	uint64_t v = 0;
	size_t n = enc_size(enc);
	int shift = 64 - 8 * (int)n;

	if (n == 0) {
		c->bad = true;
		return 0;
	}
	memcpy(&v, cursor_take(c, n), n);
	return enc & 8 ? (uint64_t)((int64_t)(v << shift) >> shift) : v;
}

int elfcache_eh_hdr(struct elfcache_eh_hdr *ret, struct bytes hdr, uint64_t hdr_at)
{
	struct cursor c = { .b = hdr };
	unsigned version = cursor_u8(&c), ptr = cursor_u8(&c), count = cursor_u8(&c);
	unsigned rows = cursor_u8(&c);
	uint64_t n;

	if (version != 1 || rows != ROW_ENC || (count & 0x70) != 0)
		return -ENOEXEC;
	switch (ptr & 0x70) {
	case ENC_PCREL:
		ret->frame_at = hdr_at + c.at;
		break;
	case ENC_DATAREL:
		ret->frame_at = hdr_at;
		break;
	default:
		ret->frame_at = 0;
	}
	ret->frame_at += cursor_enc(&c, ptr);
	n = cursor_enc(&c, count);
	if (c.bad)
		return -ENOEXEC;
	ret->rows_at = c.at;
	ret->n_rows = MIN(n, (hdr.n - c.at) / 8);
	return 0;
}

/* The encoding of addresses in the FDEs of the CIE at @at, or -ENOEXEC. */
static int cie_encoding(struct bytes frame, size_t at)
{
	struct cursor c = { .b = frame, .at = at };
	char aug[9] = "";
	unsigned version;

	if (cursor_u32(&c) == UINT32_MAX || cursor_u32(&c) != 0)
		return -ENOEXEC;
	version = cursor_u8(&c);
	for (size_t i = 0; i < sizeof(aug) - 1; i++)
		if ((aug[i] = (char)cursor_u8(&c)) == '\0')
			break;
	if (c.bad || (version != 1 && version != 3) || (aug[0] && aug[0] != 'z'))
		return -ENOEXEC;
	cursor_skip_leb(&c); /* code and data alignment, return address register */
	cursor_skip_leb(&c);
	if (version == 1)
		cursor_u8(&c);
	else
		cursor_skip_leb(&c);
	if (aug[0])
		cursor_skip_leb(&c);
	for (const char *a = aug; *a && !c.bad; a++) {
		if (*a == 'R')
			return (int)cursor_u8(&c);
		if (*a == 'P')
			cursor_enc(&c, cursor_u8(&c));
		else if (*a == 'L')
			cursor_u8(&c);
		else if (!strchr("zSBG", *a))
			return -ENOEXEC;
	}
	return c.bad ? -ENOEXEC : ENC_PTR;
}

/* FDEs share few CIEs: the last one is remembered. */
struct cie {
	size_t at;
	int enc;
};

/* How long the function of the FDE at @at is; 0: damaged. */
static uint64_t fde_size(struct bytes frame, uint64_t at, struct cie *cie)
{
	struct cursor c = { .b = frame, .at = at };
	uint32_t n = cursor_u32(&c), back = cursor_u32(&c);
	uint64_t size;

	if (c.bad || n == 0 || n == UINT32_MAX || back == 0 || back > at + 4)
		return 0;
	if (cie->at != at + 4 - back)
		*cie = (struct cie){ at + 4 - back, cie_encoding(frame, at + 4 - back) };
	if (cie->enc < 0)
		return 0;
	cursor_enc(&c, (unsigned)cie->enc);
	size = cursor_enc(&c, (unsigned)cie->enc & 7);
	return c.bad ? 0 : size;
}

static int func_cmp(const void *a, const void *b)
{
	const struct elfcache_func *x = a, *y = b;

	return x->start != y->start ? (x->start < y->start ? -1 : 1) :
				      (x->size > y->size ? -1 : x->size < y->size);
}

/* Sort (a linker did that already), drop doubles, cut overlaps, and let a function
 * of unknown size reach to the next. */
static size_t funcs_tidy(struct elfcache_func *f, size_t n)
{
	size_t k = 0;

	for (size_t i = 1; i < n; i++) {
		if (f[i - 1].start > f[i].start) {
			qsort(f, n, sizeof(*f), func_cmp);
			break;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (k == 0 || f[k - 1].start != f[i].start)
			f[k++] = f[i];
	for (size_t i = 0; i + 1 < k; i++) {
		uint32_t room = f[i + 1].start - f[i].start;

		f[i].size = f[i].size ? MIN(f[i].size, room) : room;
	}
	return k;
}

size_t elfcache_eh_functions(struct bytes hdr, uint64_t hdr_at, struct bytes frame,
			     uint64_t frame_at, uint64_t base, struct elfcache_func *ret,
			     size_t cap)
{
	struct elfcache_eh_hdr h;
	struct cie cie = { SIZE_MAX, -ENOEXEC };
	size_t n = 0;

	if (elfcache_eh_hdr(&h, hdr, hdr_at) < 0)
		return 0;
	for (size_t i = 0; i < h.n_rows && n < cap; i++) {
		const unsigned char *row = hdr.at + h.rows_at + 8 * i;
		uint64_t start = hdr_at + (uint64_t)(int32_t)load_u32(row) - base;
		uint64_t fde = hdr_at + (uint64_t)(int32_t)load_u32(row + 4) - frame_at;
		uint64_t size = fde < frame.n ? fde_size(frame, fde, &cie) : 0;

		if (start > UINT32_MAX)
			continue;
		size = MIN(size, UINT32_MAX - start);
		ret[n++] = (struct elfcache_func){ (uint32_t)start, (uint32_t)size };
	}
	return funcs_tidy(ret, n);
}
