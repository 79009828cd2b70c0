/* SPDX-License-Identifier: MIT
 *
 * perf_zstd - one compressor or decompressor a file, flushed at the end of each piece.
 */
#include "perf_zstd.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/base.h"

enum {
	MAX_RECORD = 1 << 16,
	BLOCK = 256 * 1024,
	WINDOW_LOG = 21, /* of all levels: what they look back at takes 2 MiB */
};

/* ---- packing ---- */

struct perf_packer {
	ZSTD_CCtx *z;
	uint64_t in, out; /* bytes */
};

struct perf_packer *perf_packer_create(int level)
{
	struct perf_packer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->z = ZSTD_createCCtx();
	if (p->z &&
	    !ZSTD_isError(ZSTD_CCtx_setParameter(p->z, ZSTD_c_compressionLevel, level)) &&
	    !ZSTD_isError(ZSTD_CCtx_setParameter(p->z, ZSTD_c_windowLog, WINDOW_LOG)))
		return p;
	perf_packer_destroy(p);
	return NULL;
}

void perf_packer_destroy(struct perf_packer *p)
{
	if (p)
		ZSTD_freeCCtx(p->z);
	free(p);
}

/* One COMPRESSED record: readers take what it gives back at once, and give up where that is
 * nothing. */
static int pack_piece(struct perf_packer *p, const void *at, size_t n, struct buf *out)
{
	size_t start = out->n;
	ZSTD_inBuffer from = { at, n, 0 };
	ZSTD_outBuffer to;

	buf_u32(out, PERF_RECORD_COMPRESSED);
	buf_zero(out, 4);
	buf_zero(out, ZSTD_COMPRESSBOUND(PERF_ZSTD_PIECE) + 64);
	if (out->oom)
		return -ENOMEM;
	to = (ZSTD_outBuffer){ out->at + start, out->n - start, 8 };
	if (ZSTD_compressStream2(p->z, &to, &from, ZSTD_e_flush) != 0)
		return -ENOMEM;
	out->n = start + to.pos;
	buf_set_u16(out, start + 6, (unsigned)to.pos);
	return 0;
}

int perf_pack(struct perf_packer *p, const struct buf *records, struct buf *out)
{
	size_t start = out->n;
	int ret = records->oom ? -ENOMEM : 0;

	for (size_t at = 0; !ret && at < records->n; at += PERF_ZSTD_PIECE)
		ret = pack_piece(p, records->at + at,
				 MIN(records->n - at, (size_t)PERF_ZSTD_PIECE), out);
	if (ret)
		out->n = start;
	p->in += ret ? 0 : records->n;
	p->out += out->n - start;
	return ret;
}

uint32_t perf_packer_ratio(const struct perf_packer *p)
{
	return p->out ? (uint32_t)((p->in + p->out / 2) / p->out) : 0;
}

int perf_pack_file(int in, int out, uint64_t off, int level, uint64_t *n)
{
	struct perf_packer *p = perf_packer_create(level);
	_cleanup_free_ unsigned char *block = malloc(BLOCK);
	struct buf packed = {};
	struct stat st;
	ssize_t got = 1;
	int ret = p && block ? 0 : -ENOMEM;

	*n = 0;
	if (!ret && fstat(in, &st))
		ret = -errno;
	if (!ret) /* stands at the front, for who unpacks it */
		ZSTD_CCtx_setPledgedSrcSize(p->z, (unsigned long long)st.st_size);
	while (!ret && got) {
		ZSTD_inBuffer from = { block, 0, 0 };
		ZSTD_outBuffer to;

		got = read(in, block, BLOCK);
		if (got < 0) {
			ret = -errno;
			break;
		}
		from.size = (size_t)got;
		packed.n = 0;
		buf_zero(&packed, ZSTD_COMPRESSBOUND(2 * BLOCK));
		to = (ZSTD_outBuffer){ packed.at, packed.oom ? 0 : packed.n, 0 };
		if (ZSTD_compressStream2(p->z, &to, &from, got ? ZSTD_e_flush : ZSTD_e_end))
			ret = packed.oom ? -ENOMEM : -EIO;
		packed.n = to.pos;
		if (!ret)
			ret = buf_pwrite(&packed, out, off + *n, NULL);
		*n += packed.n;
	}
	buf_deinit(&packed);
	perf_packer_destroy(p);
	return ret;
}

/* ---- unpacking ---- */

bool perf_unpack_bytes(struct bytes packed, size_t max, struct bytes *ret)
{
	unsigned long long n = ZSTD_getFrameContentSize(packed.at, packed.n);
	unsigned char *at;
	size_t got;

	if (n == ZSTD_CONTENTSIZE_UNKNOWN || n == ZSTD_CONTENTSIZE_ERROR || !n || n > max)
		return false;
	at = malloc(n);
	got = at ? ZSTD_decompress(at, n, packed.at, packed.n) : 0;
	if (got == n)
		*ret = (struct bytes){ at, n };
	else
		free(at);
	return got == n;
}

struct perf_unpacker {
	ZSTD_DCtx *z;
	ZSTD_inBuffer from;
	size_t at, n;			/* what is not taken yet, in @plain */
	bool full;			/* there is more than there was room for */
	unsigned char body[MAX_RECORD]; /* @from.src */
	unsigned char plain[2 * MAX_RECORD];
};

struct perf_unpacker *perf_unpacker_create(void)
{
	struct perf_unpacker *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->z = ZSTD_createDCtx();
	if (u->z)
		return u;
	free(u);
	return NULL;
}

void perf_unpacker_destroy(struct perf_unpacker *u)
{
	if (u)
		ZSTD_freeDCtx(u->z);
	free(u);
}

void perf_unpacker_feed(struct perf_unpacker *u, const struct perf_event_header *h)
{
	const unsigned char *body = (const unsigned char *)(h + 1);
	size_t n = h->size - sizeof(*h), length = 0;

	if (h->type == PERF_RECORD_COMPRESSED2 && n >= sizeof(uint64_t)) {
		length = sizeof(uint64_t);
		n = MIN(load_u64(body), n - length);
	}
	memcpy(u->body, body + length, n);
	u->from = (ZSTD_inBuffer){ u->body, n, 0 };
}

/* Move the rest to the front and fill up what is behind. False: damaged. */
static bool fill(struct perf_unpacker *u)
{
	ZSTD_outBuffer to = { u->plain, sizeof(u->plain), u->n - u->at };
	size_t ret;

	memmove(u->plain, u->plain + u->at, to.pos);
	ret = ZSTD_decompressStream(u->z, &to, &u->from);
	u->at = 0;
	u->n = to.pos;
	u->full = to.pos == to.size;
	return !ZSTD_isError(ret);
}

int perf_unpacker_next(struct perf_unpacker *u, void *ret)
{
	struct perf_event_header h = { 0 };

	for (;;) {
		size_t has = u->n - u->at;

		if (has >= sizeof(h)) {
			memcpy(&h, u->plain + u->at, sizeof(h));
			if (h.size < sizeof(h) || perf_is_packed(h.type))
				return -EBADMSG;
			if (h.size <= has)
				break;
		}
		if (u->from.pos == u->from.size && !u->full)
			return 0;
		if (!fill(u))
			return -EBADMSG;
	}
	memcpy(ret, u->plain + u->at, h.size);
	u->at += h.size;
	return 1;
}
