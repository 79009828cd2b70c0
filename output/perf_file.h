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
	PERF_FILE_ID = 101,    /* event i has the id PERF_FILE_ID + i */
	PERF_FILE_PYELF = 230, /* the feature that holds the Python symbol file */
	PERF_FILE_BITS = 256,
};

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
	uint64_t pyelf_n; /* size of the symbol file, 0: none */
};

/* The table of the features and their contents, for offset @at of the file, but for
 * the symbol file itself, which must follow. Sets @bits. */
void perf_file_features(struct buf *b, uint64_t at, const struct session *s,
			const struct perf_file_facts *facts,
			uint64_t bits[PERF_FILE_BITS / 64]);

#endif
