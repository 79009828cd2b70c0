/* SPDX-License-Identifier: MIT
 *
 * codemap - names of the code that a JIT made, as it wrote them down, and the parsers of the
 * two files that JITs write; and of the rows that a process without rights made of those
 * (file_helper.h). Bytes in, rows out; every byte is taken for hostile.
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

/* How far a file was read. */
struct codemap_place {
	uint64_t at, tail_at;
	uint32_t n_tail; /* the last bytes read: if they change, the file was written anew */
	uint32_t more;	 /* it was not read to its end */
	unsigned char tail[64];
};

/* Go on at @p with what @fd has of lines, or of a dump: so much at a time. */
void codemap_read(struct codemap *m, int fd, bool dump, struct codemap_place *p);

/* Is what was read last still in @fd? */
bool codemap_same(int fd, const struct codemap_place *p);

/* A sealed file of the rows of an @m that was not sorted. Its descriptor, or -ENOMEM. */
int codemap_make(const struct codemap *m);

/* Add the rows in such a file, which is borrowed and not trusted. 0; -EPROTO: something in it
 * is not as it must be, and some rows may have been added; -ENOMEM. */
int codemap_take(struct codemap *m, int fd);
int codemap_check(struct codemap *m, struct bytes b); /* the same of its bytes */

#endif
