/* SPDX-License-Identifier: MIT
 *
 * whole - a whole tape in memory. (What reads one of any length is tape_stream.)
 */
#ifndef WHOLE_H
#define WHOLE_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/base.h"
#include "sample/tape.h"

enum { TAPE_MAGIC_SIZE = 8, TAPE_HEADER_SIZE = 8, TAPE_STEP = 64 << 10 };

/* A whole tape in memory (at most @max bytes unpacked), for playing. */
struct tape {
	unsigned char *data;
	size_t n; /* bytes unpacked */
	bool cut; /* the stream ended early */
};

static inline void tape_free_dctx(ZSTD_DCtx **z)
{
	ZSTD_freeDCtx(*z);
}

static inline void tape_deinit(struct tape *t)
{
	free(t->data);
	*t = (struct tape){ 0 };
}

/* Room for at least one more byte, at most @max in all. */
static inline int tape_grow(struct tape *t, size_t *cap, size_t max)
{
	size_t more = *cap > max / 2 ? max : MAX(*cap * 2, MIN(max, TAPE_STEP));
	unsigned char *data;

	if (t->n < *cap)
		return 0;
	if (*cap == max)
		return -EFBIG;
	data = realloc(t->data, more);
	if (!data)
		return -ENOMEM;
	t->data = data;
	*cap = more;
	return 0;
}

/* Unpack what can be unpacked: an error in the stream ends it like a cut. */
static inline int tape_unpack(struct tape *t, struct bytes file, size_t max)
{
	__attribute__((__cleanup__(tape_free_dctx))) ZSTD_DCtx *z = ZSTD_createDCtx();
	ZSTD_inBuffer in = { file.at, file.n, 0 };
	size_t cap = 0, left = 1;
	int r;

	if (!z)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, TAPE_WINDOW_LOG);
	while (left != 0) {
		ZSTD_outBuffer out;
		size_t in_before = in.pos;

		r = tape_grow(t, &cap, max);
		if (r < 0)
			return r;
		out = (ZSTD_outBuffer){ t->data + t->n, cap - t->n, 0 };
		left = ZSTD_decompressStream(z, &out, &in);
		t->n += out.pos;
		if (ZSTD_isError(left) || (out.pos == 0 && in.pos == in_before))
			break;
	}
	t->cut = left != 0;
	return 0;
}

/* From the bytes of a file. 0; -EBADMSG not a tape; -EFBIG. */
static inline int tape_load(struct tape *t, struct bytes file, size_t max, struct err *err)
{
	size_t cap = MIN(max, SIZE_MAX - TAPE_MAGIC_SIZE - 1) + TAPE_MAGIC_SIZE + 1;
	int r;

	*t = (struct tape){ 0 };
	r = tape_unpack(t, file, cap);
	if (r == 0 && (t->n < TAPE_MAGIC_SIZE || memcmp(t->data, TAPE_MAGIC, TAPE_MAGIC_SIZE) != 0))
		r = -EBADMSG;
	if (r == 0 && t->n - TAPE_MAGIC_SIZE > max)
		r = -EFBIG;
	if (r < 0) {
		tape_deinit(t);
		return err_set(err, r,
			       r == -EBADMSG ? "not a tape" :
			       r == -EFBIG   ? "the tape is larger than %zu bytes unpacked" :
					       "no memory for the tape",
			       max);
	}
	t->n -= TAPE_MAGIC_SIZE;
	memmove(t->data, t->data + TAPE_MAGIC_SIZE, t->n);
	return 0;
}

static inline int tape_read_whole(int fd, unsigned char *buf, size_t n, size_t *got)
{
	for (*got = 0; *got < n;) {
		ssize_t k = read(fd, buf + *got, n - *got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			break;
		*got += (size_t)k;
	}
	return 0;
}

static inline int tape_load_file(struct tape *t, const char *path, size_t max, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	unsigned char *file;
	struct stat st;
	size_t got;
	int r;

	*t = (struct tape){ 0 };
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EBADMSG, "%s: not a regular file", path);
	/* Packed is hardly ever larger than unpacked. */
	if ((uint64_t)st.st_size > max + max / 8 + TAPE_STEP)
		return err_set(err, -EFBIG, "%s: larger than %zu bytes", path, max);
	file = malloc((size_t)st.st_size + 1);
	if (!file)
		return err_set(err, -ENOMEM, "%s: no memory for it", path);
	r = tape_read_whole(fd, file, (size_t)st.st_size, &got);
	if (r < 0)
		err_set(err, r, "%s: %s", path, strerror(-r));
	else
		r = tape_load(t, (struct bytes){ file, got }, max, err);
	free(file);
	return r;
}

/* The chunk at *@pos, which moves on. False at the end or at a broken chunk. @type may be one
 * that enum tape_type does not have. */
static inline bool tape_next(const struct tape *t, size_t *pos, uint32_t *type, struct bytes *chunk)
{
	uint32_t n;

	if (*pos > t->n || t->n - *pos < TAPE_HEADER_SIZE)
		return false;
	n = load_u32(t->data + *pos + 4);
	if (n > t->n - *pos - TAPE_HEADER_SIZE)
		return false;
	*type = load_u32(t->data + *pos);
	*chunk = (struct bytes){ t->data + *pos + TAPE_HEADER_SIZE, n };
	*pos += TAPE_HEADER_SIZE + n;
	*pos += MIN(-(size_t)n & 7, t->n - *pos); /* a cut may have taken the padding */
	return true;
}

#endif
