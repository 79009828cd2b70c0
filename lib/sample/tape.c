/* SPDX-License-Identifier: MIT
 *
 * tape - the stream of chunks and the fields in them.
 */
#include "sample/tape.h"

#include <assert.h>
#include <errno.h>
#include <zstd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	      "tapes are little-endian, written as they lie in memory");

enum {
	MAGIC_SIZE = 8,
	HEADER_SIZE = 8,
	FLUSH_EVERY = 64, /* samples: what a killed recording may lose */
	LEVEL = 1,
	MAX_RECORD = 256 << 20,
	CHUNK = 64 << 10,
};

const char *const tape_provenances[PROV_N] = { "exact", "late", "torn", "nopython" };

static size_t padding(uint64_t n)
{
	return -n & 7;
}

/* ---- Writing ---- */

static void put_header(struct tape_head *h, enum tape_tag tag, size_t n)
{
	uint32_t header[2] = { tag, (uint32_t)n };

	memcpy(h->bytes + h->n, header, sizeof(header));
	h->n += sizeof(header);
}

void tape_put_bytes(struct tape_head *h, enum tape_tag tag, const void *at, size_t n)
{
	size_t room = sizeof(h->bytes) - h->n;

	if (room < HEADER_SIZE || n + padding(n) > room - HEADER_SIZE) {
		h->full = true;
		return;
	}
	put_header(h, tag, n);
	memset(h->bytes + h->n + n, 0, padding(n));
	if (n)
		memcpy(h->bytes + h->n, at, n);
	h->n += n + padding(n);
}

void tape_put(struct tape_head *h, enum tape_tag tag, uint64_t value)
{
	tape_put_bytes(h, tag, &value, sizeof(value));
}

void tape_put_body(struct tape_head *h, enum tape_tag tag, size_t n)
{
	if (sizeof(h->bytes) - h->n < HEADER_SIZE)
		h->full = true;
	else
		put_header(h, tag, n);
}

struct bytes tape_head_bytes(const struct tape_head *h)
{
	return (struct bytes){ h->bytes, h->n };
}

struct tape_writer {
	FILE *out;
	ZSTD_CCtx *z;
	unsigned unflushed; /* samples since the last flush */
	int failed;	    /* first -errno; nothing is written after it */
	bool finished;
	char buf[CHUNK];
};

/* Feed @in to the stream; with a directive other than continue, until all is out. */
static int writer_feed(struct tape_writer *w, struct bytes in, ZSTD_EndDirective how)
{
	ZSTD_inBuffer from = { in.at, in.n, 0 };
	bool more = in.n > 0 || how != ZSTD_e_continue;

	while (more && !w->failed) {
		ZSTD_outBuffer to = { w->buf, sizeof(w->buf), 0 };
		size_t left = ZSTD_compressStream2(w->z, &to, &from, how);

		if (ZSTD_isError(left))
			w->failed = -EIO;
		else if (fwrite(w->buf, 1, to.pos, w->out) != to.pos)
			w->failed = errno ? -errno : -EIO;
		more = how == ZSTD_e_continue ? from.pos < from.size : left > 0;
	}
	return w->failed;
}

static int writer_flush(struct tape_writer *w, ZSTD_EndDirective how)
{
	writer_feed(w, (struct bytes){ 0 }, how);
	if (!w->failed && fflush(w->out) != 0)
		w->failed = errno ? -errno : -EIO;
	w->unflushed = 0;
	return w->failed;
}

struct tape_writer *tape_writer_create(FILE *out, struct err *err)
{
	struct tape_writer *w = calloc(1, sizeof(*w));

	if (w)
		w->z = ZSTD_createCCtx();
	if (!w || !w->z) {
		free(w);
		err_set(err, -ENOMEM, "no memory for a tape");
		return NULL;
	}
	w->out = out;
	ZSTD_CCtx_setParameter(w->z, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(w->z, ZSTD_c_checksumFlag, 1);
	writer_feed(w, (struct bytes){ (const unsigned char *)TAPE_MAGIC, MAGIC_SIZE },
		    ZSTD_e_continue);
	return w;
}

int tape_write(struct tape_writer *w, enum tape_type type, struct bytes head,
	       struct bytes body)
{
	static const unsigned char zeros[8];
	uint32_t header[2] = { type, (uint32_t)(head.n + body.n) };

	if (w->finished || head.n > MAX_RECORD || body.n > MAX_RECORD - head.n)
		return -EINVAL;
	errno = 0;
	writer_feed(w, (struct bytes){ (const unsigned char *)header, sizeof(header) },
		    ZSTD_e_continue);
	writer_feed(w, head, ZSTD_e_continue);
	writer_feed(w, body, ZSTD_e_continue);
	writer_feed(w, (struct bytes){ zeros, padding(header[1]) }, ZSTD_e_continue);
	if (type == TAPE_JUDGED && ++w->unflushed >= FLUSH_EVERY)
		writer_flush(w, ZSTD_e_flush);
	return w->failed;
}

int tape_writer_flush(struct tape_writer *w)
{
	errno = 0;
	return w->finished ? w->failed : writer_flush(w, ZSTD_e_flush);
}

int tape_writer_finish(struct tape_writer *w)
{
	if (w->finished)
		return w->failed;
	errno = 0;
	writer_flush(w, ZSTD_e_end);
	w->finished = true;
	return w->failed;
}

void tape_writer_destroy(struct tape_writer *w)
{
	if (!w)
		return;
	ZSTD_freeCCtx(w->z);
	free(w);
}

/* ---- Reading ---- */

bool tape_field(struct bytes chunk, enum tape_tag tag, struct bytes *ret)
{
	*ret = (struct bytes){ 0 };
	for (size_t pos = 0; chunk.n - pos >= HEADER_SIZE;) {
		const unsigned char *at = chunk.at + pos;
		uint32_t n = load_u32(at + 4);

		pos += HEADER_SIZE;
		if (n > chunk.n - pos)
			return false;
		if ((load_u32(at) & 0xffff) == tag) {
			*ret = (struct bytes){ chunk.at + pos, n };
			return true;
		}
		pos += n;
		pos += MIN(padding(n), chunk.n - pos);
	}
	return false;
}

uint64_t tape_get(struct bytes chunk, enum tape_tag tag, uint64_t missing)
{
	struct bytes b;

	return tape_field(chunk, tag, &b) && b.n == 8 ? load_u64(b.at) : missing;
}

void tape_get_text(struct bytes chunk, enum tape_tag tag, char *ret, size_t size)
{
	struct bytes b;

	tape_field(chunk, tag, &b);
	b.n = MIN(b.n, size - 1);
	if (b.n)
		memcpy(ret, b.at, b.n);
	ret[b.n] = '\0';
}
