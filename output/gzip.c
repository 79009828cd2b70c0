/* SPDX-License-Identifier: MIT
 *
 * gzip - zlib, 64 KB at a time.
 */
#include "gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/base.h"

enum { OUT_BYTES = 64 * 1024, GZIP_BITS = 15 + 16 /* a gzip header, too */, MEM_LEVEL = 8 };

struct gzip {
	z_stream z;
	FILE *out;
	int failed;
	unsigned char buf[OUT_BYTES];
};

struct gzip *gzip_create(FILE *out)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->out = out;
	if (deflateInit2(&g->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_BITS, MEM_LEVEL,
			 Z_DEFAULT_STRATEGY) == Z_OK)
		return g;
	free(g);
	return NULL;
}

/* Compress what is in @z.next_in; with Z_FINISH to the end. */
static void pump(struct gzip *g, int flush)
{
	size_t n;

	do {
		g->z.next_out = g->buf;
		g->z.avail_out = sizeof(g->buf);
		deflate(&g->z, flush);
		n = sizeof(g->buf) - g->z.avail_out;
		errno = 0;
		if (!g->failed && fwrite(g->buf, 1, n, g->out) != n)
			g->failed = errno ? -errno : -EIO;
	} while (!g->z.avail_out);
}

void gzip_put(struct gzip *g, const void *p, size_t n)
{
	g->z.next_in = (z_const Bytef *)(uintptr_t)p;
	g->z.avail_in = (uInt)n;
	pump(g, Z_NO_FLUSH);
}

int gzip_finish(struct gzip *g)
{
	int ret;

	g->z.avail_in = 0;
	pump(g, Z_FINISH);
	ret = g->failed;
	deflateEnd(&g->z);
	free(g);
	return ret;
}

size_t gzip_head(struct bytes packed, unsigned char *to, size_t cap)
{
	z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)packed.at,
		       .avail_in = (uInt)packed.n,
		       .next_out = to,
		       .avail_out = (uInt)cap };

	if (inflateInit2(&z, GZIP_BITS) != Z_OK)
		return 0;
	inflate(&z, Z_SYNC_FLUSH);
	inflateEnd(&z);
	return cap - z.avail_out;
}
