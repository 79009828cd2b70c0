/* SPDX-License-Identifier: MIT
 *
 * codemap - names of the code that a JIT made, as it wrote them down, and the parsers of the
 * two files that JITs write. Pure: bytes in, rows out; every byte is taken for hostile.
 */
#ifndef CODEMAP_H
#define CODEMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct quota;

struct codemap {
	struct codemap_row *row; /* sorted by codemap_sort() */
	size_t n, cap, n_sorted;
	char *names;
	size_t n_names, cap_names;
	struct quota *quota; /* of all together, borrowed; NULL: none */
	bool full;	     /* no more is taken: this one, or all together, are too large */
};

void codemap_deinit(struct codemap *m); /* but for @quota */

/* The name of the code at @ip, or NULL; where the file names an address more than once, the
 * last that it says. */
const char *codemap_find(const struct codemap *m, uint64_t ip);

/* After the last piece of the file that there is now. */
void codemap_sort(struct codemap *m);

/* Take what is whole of the next piece of a file (@at: its offset in it) and say how many
 * bytes that was, which can be more than @b has; 0: nothing, there must be more first. */
typedef size_t codemap_parse_fn(struct codemap *m, struct bytes b, uint64_t at);

/* /tmp/perf-PID.map: lines of "START SIZE NAME", numbers in hex (Linux,
 * tools/perf/Documentation/jit-interface.txt). */
codemap_parse_fn codemap_parse_perf;

/* jit-PID.dump: its JIT_CODE_LOAD records
 * (tools/perf/Documentation/jitdump-specification.txt). */
codemap_parse_fn codemap_parse_dump;

#endif
