/* SPDX-License-Identifier: MIT
 *
 * tape_stream - unpacks as it goes.
 */
#include "sample/tape_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

enum { PIECE = 64 << 10, HEADER = 8 };

struct tape_stream {
	FILE *in;
	ZSTD_DCtx *z;
	ZSTD_inBuffer packed;
	size_t at, n; /* in @piece */
	bool over;    /* the packed stream has ended */
	bool cut;
	unsigned char file[PIECE], piece[PIECE];
	unsigned char chunk[TAPE_STREAM_MAX];
};

/* True: there is packed input. */
static bool fill(struct tape_stream *s)
{
	if (s->packed.pos == s->packed.size)
		s->packed = (ZSTD_inBuffer){ s->file,
					     fread(s->file, 1, sizeof(s->file), s->in), 0 };
	return s->packed.size > 0;
}

/* Unpack the next piece. 1; 0: there is none; -EBADMSG; -EIO. */
static int unpack(struct tape_stream *s)
{
	ZSTD_outBuffer out = { s->piece, sizeof(s->piece), 0 };

	while (!out.pos && !s->over && !s->cut) {
		bool more = fill(s);
		size_t left = ZSTD_decompressStream(s->z, &out, &s->packed);

		if (ferror(s->in))
			return -EIO;
		if (ZSTD_isError(left))
			return -EBADMSG;
		s->over = !left;
		s->cut = !more && !s->over && !out.pos;
	}
	s->at = 0;
	s->n = out.pos;
	return out.pos > 0;
}

/* @n bytes into @to, or NULL: passed over. How many there were, or -errno. */
static int64_t take(struct tape_stream *s, unsigned char *to, size_t n)
{
	size_t done = 0;

	while (done < n) {
		size_t more = MIN(n - done, s->n - s->at);
		int r = more ? 1 : unpack(s);

		if (r < 0)
			return r;
		if (r == 0)
			break;
		if (to && more)
			memcpy(to + done, s->piece + s->at, more);
		s->at += more;
		done += more;
	}
	return (int64_t)done;
}

/* All @n bytes: 1; 0: the stream is cut; -errno. */
static int take_all(struct tape_stream *s, unsigned char *to, size_t n)
{
	int64_t got = take(s, to, n);

	if (got < 0)
		return (int)got;
	if ((size_t)got == n)
		return 1;
	return s->cut ? 0 : -EBADMSG;
}

static bool is_wanted(uint32_t type)
{
	return type == TAPE_EVENT || (type >= TAPE_TEXT && type <= TAPE_ROUND);
}

int tape_stream_next(struct tape_stream *s, uint32_t *type, struct bytes *chunk)
{
	unsigned char header[HEADER];
	size_t n;
	int r;

	for (;;) {
		int64_t got = take(s, header, sizeof(header));

		if (got <= 0)
			return (int)got;
		if (got < HEADER)
			return s->cut ? 0 : -EBADMSG;
		*type = load_u32(header);
		n = load_u32(header + 4);
		if (is_wanted(*type))
			break;
		r = take_all(s, NULL, n + (-n & 7));
		if (r <= 0)
			return r;
	}
	if (n > sizeof(s->chunk))
		return -EBADMSG;
	*chunk = (struct bytes){ s->chunk, n };
	r = take_all(s, s->chunk, n);
	if (r > 0 && take_all(s, NULL, -n & 7) == -EIO)
		r = -EIO; /* a chunk without its padding is whole */
	return r;
}

bool tape_stream_is_cut(const struct tape_stream *s)
{
	return s->cut;
}

int tape_stream_create(struct tape_stream **ret, FILE *in)
{
	struct tape_stream *s = calloc(1, sizeof(*s));
	unsigned char magic[HEADER];
	int r = -ENOMEM;

	if (s)
		s->z = ZSTD_createDCtx();
	if (s && s->z) {
		s->in = in;
		ZSTD_DCtx_setParameter(s->z, ZSTD_d_windowLogMax, TAPE_WINDOW_LOG);
		r = take_all(s, magic, sizeof(magic));
		if (r >= 0)
			r = r && !memcmp(magic, TAPE_MAGIC, sizeof(magic)) ? 0 : -EBADMSG;
	}
	*ret = r ? NULL : s;
	if (r)
		tape_stream_destroy(s);
	return r;
}

void tape_stream_destroy(struct tape_stream *s)
{
	if (!s)
		return;
	ZSTD_freeDCtx(s->z);
	free(s);
}
