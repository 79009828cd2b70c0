/* SPDX-License-Identifier: MIT
 *
 * packed - lines of folded stacks that no sample will be counted in any more, in few bytes
 * each: those of a process are much alike.
 */
#ifndef OUTPUT_PACKED_H
#define OUTPUT_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "buf.h"

/* Samples that count together; the bytes before @count tell it from others. */
struct folded_line {
	uint32_t comm, title; /* names of process and thread; STRTAB_NONE: "[unnamed]" */
	pid_t pid, tid;	      /* @title and @tid are 0 where threads are not kept apart */
	uint32_t body, event;
	uint64_t count;
};

/* Zeroed, it is empty. */
struct packed {
	struct buf bytes;
	struct folded_line last;
	size_t n; /* lines */
};

void packed_deinit(struct packed *p);

/* Put @line behind the others. 0 or -ENOMEM: it is not there. */
int packed_add(struct packed *p, const struct folded_line *line);

/* Where one reads; zeroed, at the first. */
struct packed_at {
	size_t at;
	struct folded_line line; /* what was read */
};

/* Read the next line. False: there is none. */
bool packed_next(const struct packed *p, struct packed_at *a);

#endif
