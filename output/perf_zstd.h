/* SPDX-License-Identifier: MIT
 *
 * perf_zstd - records of perf.data in zstd, as perf record -z has them, both ways.
 *
 * All records of a file are one zstd frame, cut into pieces: each is the body of a COMPRESSED
 * record and gives back some of their bytes, not always whole records.
 */
#ifndef PERF_ZSTD_H
#define PERF_ZSTD_H

#include <linux/perf_event.h>
#include <stdint.h>

#include "base/base.h"
#include "buf.h"

enum {
	PERF_RECORD_COMPRESSED = 81,
	PERF_RECORD_COMPRESSED2 = 83, /* newer perf's: the body's length stands before it */
	PERF_ZSTD_DEFAULT = 3,	     /* level */
	PERF_ZSTD_BEST = 22,	     /* the highest */
	PERF_ZSTD_PIECE = 56 * 1024, /* bytes that a record gives back at most */
};

static inline bool perf_is_packed(uint32_t type)
{
	return type == PERF_RECORD_COMPRESSED || type == PERF_RECORD_COMPRESSED2;
}

struct perf_packer;

/* NULL: no memory. */
struct perf_packer *perf_packer_create(int level);
void perf_packer_destroy(struct perf_packer *p);

/* Append @records to @out in COMPRESSED records, which give back all of them. 0 or -ENOMEM;
 * after a failure nothing more can be packed. */
int perf_pack(struct perf_packer *p, const struct buf *records, struct buf *out);

/* Bytes put in for each byte that came out, rounded; 0: nothing was packed. */
uint32_t perf_packer_ratio(const struct perf_packer *p);

/* Pack the file @in whole, to @off of @out; *@n is what it takes there. 0 or -errno. */
int perf_pack_file(int in, int out, uint64_t off, int level, uint64_t *n);

/* What perf_pack_file() packed, malloc'ed, at most @max bytes. False: @packed was not packed,
 * is damaged, or there is no memory. */
bool perf_unpack_bytes(struct bytes packed, size_t max, struct bytes *ret);

struct perf_unpacker;

/* NULL: no memory. */
struct perf_unpacker *perf_unpacker_create(void);
void perf_unpacker_destroy(struct perf_unpacker *u);

/* What comes next is in @h, which perf_is_packed(): copied. */
void perf_unpacker_feed(struct perf_unpacker *u, const struct perf_event_header *h);

/* Take the next whole record into @ret, 64 KiB. 1; 0: that takes another body; -EBADMSG: what
 * was packed is damaged, or no records. */
int perf_unpacker_next(struct perf_unpacker *u, void *ret);

#endif
