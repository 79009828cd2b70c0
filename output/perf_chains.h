/* SPDX-License-Identifier: MIT
 *
 * perf_chains - stacks that a recording had before, by their bytes: each is named once.
 *
 * Memory is bounded: beyond that, stacks that are new stay unknown.
 */
#ifndef PERF_CHAINS_H
#define PERF_CHAINS_H

#include "base/idmap.h"
#include "sample/sample.h"
#include "buf.h"

/* What is known of one. */
struct perf_chain {
	uint32_t same; /* its number, from 1 on; struct stack */
	bool fresh;    /* it was not known before, and is to be filled in */
	enum provenance prov;
	uint32_t unnamed; /* frames of Python that have no names */
};

struct perf_chains {
	struct buf bytes; /* u64 each: how many follow, and those */
	struct buf known; /* struct known each */
	struct idmap at;  /* hash to a number in @known */
};

void perf_chains_deinit(struct perf_chains *c);

/* The stack of @n addresses at @chain, which mean what they mean under @key (two words: the
 * process, and a number that is another whenever its memory is). Valid until the next call;
 * NULL: there is no room for a new one. */
struct perf_chain *perf_chains_find(struct perf_chains *c, const uint64_t key[2],
				    const unsigned char *chain, size_t n);

#endif
