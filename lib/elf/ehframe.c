/* SPDX-License-Identifier: MIT
 *
 * ehframe - functions and their sizes from .eh_frame_hdr and .eh_frame: pure over byte
 * windows, every byte of which may be hostile.
 */
#include <errno.h>

#include "base/base.h"
#include "elf/module.h"
#include "elf/frames.h"

enum { ROW_ENC = 0x3b }; /* table rows: datarel | sdata4, what every linker writes */

int ehframe_hdr(struct ehframe_hdr *ret, struct bytes hdr, uint64_t hdr_at)
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

/* FDEs share few CIEs: the last one is remembered. */
struct last_cie {
	struct frames_cie cie;
	int bad; /* 0: it is good */
};

/* How long the function of the FDE at @at is; 0: damaged. */
static uint64_t fde_size(const struct frames_section *s, uint64_t at, struct last_cie *last)
{
	struct frames_record rec;
	struct frames_fde fde;

	if (frames_record(&rec, s, at) < 0 || rec.is_cie)
		return 0;
	if (last->cie.at != rec.cie)
		last->bad = frames_cie(&last->cie, s, rec.cie);
	if (last->bad || frames_fde(&fde, s, &rec, &last->cie) < 0)
		return 0;
	return fde.size;
}

static int func_cmp(const void *a, const void *b)
{
	const struct module_func *x = a, *y = b;

	return COMPARE(x->start, y->start) ?: COMPARE(y->size, x->size);
}

/* Sort (a linker did that already), drop doubles, cut overlaps, and let a function
 * of unknown size reach to the next. */
static size_t funcs_tidy(struct module_func *f, size_t n)
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

size_t ehframe_functions(struct bytes hdr, uint64_t hdr_at, struct bytes frame,
			 uint64_t frame_at, uint64_t base, struct module_func *ret, size_t cap)
{
	struct frames_section s = { .b = frame, .at = frame_at };
	struct last_cie last = { .cie.at = SIZE_MAX };
	struct ehframe_hdr h;
	size_t n = 0;

	if (ehframe_hdr(&h, hdr, hdr_at) < 0)
		return 0;
	for (size_t i = 0; i < h.n_rows && n < cap; i++) {
		const unsigned char *row = hdr.at + h.rows_at + 8 * i;
		uint64_t start = hdr_at + (uint64_t)(int32_t)load_u32(row) - base;
		uint64_t fde = hdr_at + (uint64_t)(int32_t)load_u32(row + 4) - frame_at;
		uint64_t size = fde_size(&s, fde, &last);

		if (start > UINT32_MAX)
			continue;
		size = MIN(size, UINT32_MAX - start);
		ret[n++] = (struct module_func){ (uint32_t)start, (uint32_t)size };
	}
	return funcs_tidy(ret, n);
}
