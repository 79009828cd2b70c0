/* SPDX-License-Identifier: MIT */
#include "elf/xz.h"

#ifdef PYSAMPLED_LZMA

#include <lzma.h>

enum { MAX_WORK = 128 << 20 /* bytes of the decoder's dictionary */ };

const bool xz_built = true;

/* All of @z's input, into a buffer that grows. */
static struct bytes unpack_all(lzma_stream *z, size_t max)
{
	size_t cap = 0;
	unsigned char *buf = NULL;
	lzma_ret r = LZMA_OK;

	while (r == LZMA_OK) {
		if (z->total_out == cap) {
			size_t more = MIN(MAX(cap * 2, z->avail_in * 4 + 4096), max);
			unsigned char *grown = more > cap ? realloc(buf, more) : NULL;

			if (!grown)
				break;
			buf = grown;
			cap = more;
		}
		z->next_out = buf + z->total_out;
		z->avail_out = cap - (size_t)z->total_out;
		r = lzma_code(z, LZMA_FINISH);
	}
	if (r == LZMA_STREAM_END)
		return (struct bytes){ buf, (size_t)z->total_out };
	free(buf);
	return (struct bytes){ 0 };
}

struct bytes xz_unpack(struct bytes in, size_t max)
{
	lzma_stream z = LZMA_STREAM_INIT;
	struct bytes ret = { 0 };

	z.next_in = in.at;
	z.avail_in = in.n;
	if (lzma_stream_decoder(&z, MAX_WORK, 0) == LZMA_OK)
		ret = unpack_all(&z, max);
	lzma_end(&z);
	return ret;
}

#else

const bool xz_built = false;

struct bytes xz_unpack(struct bytes in, size_t max)
{
	return (struct bytes){ 0 };
}

#endif
