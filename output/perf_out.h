/* SPDX-License-Identifier: MIT
 *
 * perf_out - where the records of a perf.data go: into a file, behind its header, or down a
 * pipe; as they are or packed.
 */
#ifndef PERF_OUT_H
#define PERF_OUT_H

#include "base/stop.h"
#include "buf.h"
#include "perf_zstd.h"

struct perf_out {
	int fd;			 /* borrowed */
	bool stream;		 /* what is written can't be changed any more */
	const struct stop *stop; /* of a stream: from then on its reader is not waited for */
	uint64_t start, n; /* where records start in a file, and how many bytes there are */
	uint64_t n_samples; /* of samples among them */
	struct perf_packer *packer; /* or NULL */
	struct buf packed;
	struct buf marks;   /* u64 pairs: @n and @n_samples on the way, where it may end */
	uint64_t next_mark; /* the value of @n from which on there is another */
};

/* @level: of compression, 0: none. @stop: borrowed, may be NULL. 0 or -ENOMEM; deinit in any
 * case. */
int perf_out_init(struct perf_out *o, int fd, bool stream, const struct stop *stop, int level);
void perf_out_deinit(struct perf_out *o);

/* Write what is in @b as it is: to @at in a file, or next. 0 or -errno; -ETIMEDOUT: who reads
 * the stream has stopped. */
int perf_out_bytes(struct perf_out *o, const struct buf *b, uint64_t at);

/* Write whole records behind those that are there, and empty @records. 0, or -errno: then @n
 * counts the whole records that got there (packed ones: none of these). */
int perf_out_records(struct perf_out *o, struct buf *records);
/* The same without packing them. */
int perf_out_plain(struct perf_out *o, struct buf *records);

/* Take off what stands behind the records. 0 or -errno. */
int perf_out_cut(struct perf_out *o);

/* End at an earlier mark, an eighth before where it ends. False: it can't. */
bool perf_out_give_back(struct perf_out *o);

#endif
