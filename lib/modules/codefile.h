/* SPDX-License-Identifier: MIT
 *
 * codefile - a few bytes of a process's code, from the file that is mapped there.
 *
 * Keeps the blocks that were asked for last, at most 4 MiB; they are read in a thread of its
 * own (space_read()). One user thread.
 */
#ifndef CODEFILE_H
#define CODEFILE_H

#include "modules/space.h"

enum { CODEFILE_BLOCKS = 256 };

struct codefile {
	struct codefile_block {
		uint64_t file;	   /* whose: elfcache_version(); 0: not used yet */
		uint64_t at;	   /* in the file */
		uint64_t retry_ns; /* if there is nothing in it */
		size_t n;
		unsigned char *bytes;
	} block[CODEFILE_BLOCKS];
};

void codefile_deinit(struct codefile *c); /* zeroed is initialised */

/* @n bytes at @at of @sp into @buf. 0, or -EFAULT where there is no file or not so much of it,
 * or it can't be read now. */
int codefile_read(struct codefile *c, const struct space *sp, uint64_t at, void *buf,
		  size_t n);

/* The same at @offset of the file behind @m, a map of @sp (elf is not NULL). */
int codefile_at(struct codefile *c, const struct space *sp, const struct space_map *m,
		uint64_t offset, void *buf, size_t n);

#endif
