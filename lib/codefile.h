/* SPDX-License-Identifier: MIT
 *
 * codefile - a few bytes of a process's code, from the file that is mapped there.
 *
 * Keeps the files that were asked for last open. One user thread.
 */
#ifndef CODEFILE_H
#define CODEFILE_H

#include "space.h"

enum { CODEFILE_OPEN = 4 };

struct codefile {
	struct codefile_open {
		pid_t pid;
		uint64_t lo, ino; /* of the map */
		int fd;		  /* -1: could not be opened */
		bool used;
	} open[CODEFILE_OPEN];
	size_t next; /* to be replaced */
};

void codefile_deinit(struct codefile *c); /* zeroed is initialised */

/* @n bytes at @at of @sp into @buf. 0, or -EFAULT where there is no file or not so much of it.
 */
int codefile_read(struct codefile *c, const struct space *sp, uint64_t at, void *buf,
		  size_t n);

#endif
