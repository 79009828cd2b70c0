/* SPDX-License-Identifier: MIT
 *
 * perf_file - what stands around the records in a perf.data file: the header, the
 * attrs, and the feature sections. Pure, but for a few facts about this machine.
 */
#ifndef PERF_FILE_H
#define PERF_FILE_H

#include "sample/sample.h"
#include "buf.h"
#include "buildid.h"

enum {
	PERF_FILE_ID = 101, /* event i has the id PERF_FILE_ID + i */
	PERF_FILE_BITS = 256,
	PERF_FILE_TAIL = 24,
};

/* The bits of perf's features. */
enum perf_feature {
	FEAT_BUILD_ID = 2,
	FEAT_HOSTNAME = 3,
	FEAT_OSRELEASE = 4,
	FEAT_VERSION = 5,
	FEAT_ARCH = 6,
	FEAT_NRCPUS = 7,
	FEAT_CPUDESC = 8,
	FEAT_TOTAL_MEM = 10,
	FEAT_CMDLINE = 11,
	FEAT_EVENT_DESC = 12,
	FEAT_SAMPLE_TIME = 21,
	FEAT_COMPRESSED = 27,
	FEAT_CLOCK_DATA = 29,
	FEAT_END
};

/* The end of a file with a copy of the Python symbol file: where that is, how long, and this.
 * (As a feature that perf does not know it would make perf inject crash.) */
#define PERF_FILE_TAIL_MAGIC "PYFRAMES"

/* "wall": config2, which clocks have no use for, of the one event of --mode wall. Unlike
 * features it is there from the beginning, also if we are killed. */
#define PERF_FILE_WALL 0x6c6c6177u

/* The sample_type of all events of @s, as written. */
uint64_t perf_file_sample_type(const struct session *s);

/* The header, the ids and the attrs: everything before the records. Its size does
 * not depend on @data_size and @bits (PERF_FILE_BITS of them, features present). */
void perf_file_head(struct buf *b, const struct session *s, uint64_t data_size,
		    const uint64_t bits[PERF_FILE_BITS / 64]);

/* One entry of the build-id table: @misc is a cpumode. */
void perf_file_build_id(struct buf *b, const char *path, pid_t pid, unsigned misc,
			struct buildid id);

struct perf_file_facts {
	uint64_t first_ns, last_ns; /* times of samples; 0: there was none */
	const struct buf *build_ids;
	uint32_t ratio; /* how well the records were packed */
};

/* The table of the features and their contents, for offset @at of the file. Sets @bits. */
void perf_file_features(struct buf *b, uint64_t at, const struct session *s,
			const struct perf_file_facts *facts,
			uint64_t bits[PERF_FILE_BITS / 64]);

/* What stands behind a symbol file of @n bytes at @at. */
void perf_file_tail(struct buf *b, uint64_t at, uint64_t n);

/* What a stream begins with, instead of the header: records that tell of its events and of
 * this machine. */
void perf_file_stream(struct buf *b, const struct session *s);

/* For session.told of who reads it later: records of the features that tell where and how @s is
 * recorded. */
void perf_file_told(struct buf *b, const struct session *s);

/* A record that says how those behind it are packed. */
void perf_file_packed(struct buf *b, const struct session *s);

#endif
