/* SPDX-License-Identifier: MIT
 *
 * tape - everything that came in from outside, kept to be played again.
 *
 * A tape is golden fixture, fuzz seed, bug report and benchmark input. It holds
 * the perf records and the remote reads that answered them, failed reads too,
 * so that a replay is exact. The file is one zstd stream:
 *
 *   magic "PYSTAPE1", then records: u32 type, u32 n, n bytes, padded to 8.
 *
 * All numbers little-endian. A tape may be cut anywhere: what is whole plays.
 */
#ifndef TAPE_H
#define TAPE_H

#include <stdbool.h>
#include <stdio.h>

#include "base.h"
#include "err.h"

enum tape_type {
	TAPE_SESSION = 1, /* struct session's events: u32 count, then event_info each */
	TAPE_TARGET,	  /* struct tape_target */
	TAPE_RECORD,	  /* struct tape_record, then the perf record as the kernel wrote it */
	TAPE_READ,	  /* struct tape_read, then its bytes where ret is 0 */
	TAPE_VERDICT,	  /* struct tape_verdict: ends a sample. The READs of its CPU since
			   * the verdict before are its own; none: those serve again */
};

struct tape_target {
	int32_t pid;
	uint32_t version; /* PY_VERSION_HEX */
	uint64_t runtime;
	/* then the raw struct pylayout of this build (same program version only:
	 * layout_size is checked) */
	uint32_t layout_size, pad;
};

struct tape_record {
	uint32_t event, cpu;
};

struct tape_read {
	uint64_t at, n;
	int32_t ret;
	uint32_t cpu; /* whose reader: the readers' records interleave */
};

struct tape_verdict {
	uint32_t prov, truncated;
	int32_t pid, tid, tid_inner; /* inner: as its own PID namespace has it */
	uint32_t cpu;
	uint64_t late_ns;
};

struct tape_writer;
/* @out is borrowed and must outlive the writer. NULL with a sentence in @err. */
struct tape_writer *tape_writer_create(FILE *out, struct err *err);
int tape_write(struct tape_writer *w, enum tape_type type, struct bytes head,
	       struct bytes body);	       /* 0 or -errno */
int tape_writer_finish(struct tape_writer *w); /* flush the stream; 0 or -errno */
void tape_writer_destroy(struct tape_writer *w);

/* A whole tape in memory (at most @max bytes unpacked), for playing. */
struct tape {
	unsigned char *data;
	size_t n; /* bytes unpacked */
	bool cut; /* the stream ended early */
};
/* From bytes (pure) and from a file. 0; -EBADMSG not a tape; -EFBIG. */
int tape_load(struct tape *t, struct bytes file, size_t max, struct err *err);
int tape_load_file(struct tape *t, const char *path, size_t max, struct err *err);
void tape_deinit(struct tape *t);

/* The record at *@pos, which moves on. False at the end or at a broken record. */
bool tape_next(const struct tape *t, size_t *pos, enum tape_type *type, struct bytes *body);

#endif
