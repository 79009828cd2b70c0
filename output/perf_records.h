/* SPDX-License-Identifier: MIT
 *
 * perf_records - samples and side events to the bytes of perf.data's records.
 */
#ifndef PERF_RECORDS_H
#define PERF_RECORDS_H

#include "sample/sample.h"
#include "base/strtab.h"
#include "buf.h"
#include "buildid.h"
#include "comms.h"
#include "base/idmap.h"
#include "perf_kernel.h"
#include "pyelf.h"

struct perf_records {
	struct buf buf; /* whole records; the owner empties it */
	uint64_t sample_type;
	struct pyelf *pyelf;	/* the Python symbol file */
	struct buildid id;	/* its build-id */
	const char *pyelf_path; /* as it is mapped; borrowed */
	struct idmap pids;	/* processes that have it mapped */
	struct strtab *names;	/* of processes and main threads */
	struct comms comms;	/* who has which of @names */
	struct strtab *dsos;	/* files whose build-id is in the table */
	struct buf dso_ids;	/* a struct buildid for each of dsos: what the table has */
	struct buf build_ids;	/* entries of the build-id table */
	size_t shown;		/* frames that readers show of a stack; 0: all */
	uint64_t n_elided;	/* deeper stacks, without their middle */
	bool stream;		/* it has no table: build-ids are records */
};

/* 0 or -errno; deinit in any case. */
int perf_records_init(struct perf_records *r, const struct session *s, const char *pyelf_path,
		      bool stream);
void perf_records_deinit(struct perf_records *r);

/* Each appends to @r->buf, whole records or nothing. 0 or -ENOMEM. */
int perf_records_kernel(struct perf_records *r, const struct perf_kernel_map *map);
int perf_records_side(struct perf_records *r, const struct side *side);
int perf_records_sample(struct perf_records *r, const struct sample *smp,
			const struct stack *stk, bool *cut);
int perf_records_round(struct perf_records *r);

#endif
