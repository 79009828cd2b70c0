/* SPDX-License-Identifier: MIT
 *
 * codemap - names of the code that a JIT made, as it wrote them down, and the parsers of the
 * two files that JITs write and of the ELF images that they keep in memory (codemap_elf.c);
 * and of the rows that a process without rights made of those (file_helper.h). Bytes in, rows
 * out; every byte is taken for hostile.
 */
#ifndef CODEMAP_H
#define CODEMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct quota_share;

struct codemap {
	struct codemap_row *row; /* as they were added, until codemap_sort() */
	size_t n, cap;
	struct codemap_piece *laid; /* in order, and none reaches into the next */
	size_t n_laid, cap_laid;
	char *names;
	size_t n_names, cap_names;
	struct quota_share *share; /* of its process, borrowed; NULL: none */
	bool full;     /* no more is taken: this one, or all together, are too large */
	size_t lacked; /* with so much of @share it would not be full; 0: with none */
};

void codemap_deinit(struct codemap *m); /* but for @share */

/* Add a row that is written behind all others; one without a name or a size, and what has no
 * room, is left out. @n: bytes of @name. */
void codemap_add(struct codemap *m, uint64_t start, uint64_t size, const char *name, size_t n);

/* The name of the code at @ip, or NULL. Memory is used again: of all rows that cover it, the one
 * that was added last; it has none any more once a later one covers its beginning. */
const char *codemap_find(const struct codemap *m, uint64_t ip);

/* Where the row that was added first begins. False: there is none. */
bool codemap_first(const struct codemap *m, uint64_t *start);

/* After the last piece of the file that there is now: what was added until now is found. */
void codemap_sort(struct codemap *m);

/* Have what @young has, which is sorted, as if it had been added to @m later than all else. @young
 * is empty then, and full if @m is. Both have the same share. */
void codemap_join(struct codemap *m, struct codemap *young);

/* True: it is full, and would not be if it were made anew by now. */
bool codemap_has_room(const struct codemap *m);

/* Take what is whole of the next piece of a file (@at: its offset in it) and say how many
 * bytes that was, which can be more than @b has; 0: nothing, there must be more first. */
typedef size_t codemap_parse_fn(struct codemap *m, struct bytes b, uint64_t at);

/* /tmp/perf-PID.map: lines of "START SIZE NAME", numbers in hex (Linux,
 * tools/perf/Documentation/jit-interface.txt). */
codemap_parse_fn codemap_parse_perf;

/* jit-PID.dump: its JIT_CODE_LOAD records
 * (tools/perf/Documentation/jitdump-specification.txt). */
codemap_parse_fn codemap_parse_dump;

/* codemap_elf.c: ELF images, each behind its length (8 bytes, at most CODEMAP_MAX_OBJECT):
 * their functions, where the JIT says that they were loaded. */
codemap_parse_fn codemap_parse_objects;
enum { CODEMAP_MAX_OBJECT = (1 << 20) - 8 };

/* codemap_elf.c: of a mapped file, one row if it has the list in which GDB looks for the
 * images of JITs (CODEMAP_DESCRIPTOR): how far behind the beginning of the file's maps that
 * is. */
void codemap_descriptor(struct codemap *m, int fd);
#define CODEMAP_DESCRIPTOR "__jit_debug_descriptor"

/* What is in a file that codemap_read() is given. */
enum codemap_kind {
	CODEMAP_LINES,
	CODEMAP_DUMP,
	CODEMAP_OBJECTS,
	CODEMAP_MAPPED_FILE,
	CODEMAP_KINDS
};

/* How far a file was read. */
struct codemap_place {
	uint64_t at, tail_at;
	uint32_t n_tail; /* the last bytes read: if they change, the file was written anew */
	uint32_t more;	 /* it was not read to its end */
	unsigned char tail[64];
};

/* Go on at @p with what @fd has: so much at a time. */
void codemap_read(struct codemap *m, int fd, enum codemap_kind kind, struct codemap_place *p);

/* True: what was read last is still in @fd. */
bool codemap_same(int fd, const struct codemap_place *p);

/* A sealed file of the rows of an @m that was not sorted. Its descriptor, or -ENOMEM. */
int codemap_make(const struct codemap *m);

/* Add the rows in such a file, which is borrowed and not trusted. 0; -EPROTO: something in it
 * is not as it must be, and some rows may have been added; -ENOMEM. */
int codemap_take(struct codemap *m, int fd);
int codemap_check(struct codemap *m, struct bytes b); /* the same of its bytes */

#endif
