/* SPDX-License-Identifier: MIT
 *
 * nobody_opens - nobody can be had for a while who opens files. The test is also who reads them:
 * its main() runs file_serve_main() for FILE_HELPER_COMMAND.
 */
#ifndef NOBODY_OPENS_H
#define NOBODY_OPENS_H

#include <sys/socket.h>
#include <unistd.h>

#include "elf/file_helper.h"
#include "elf/pool.h"

/* As many as may be left hang. Closing the descriptor ends them all. */
static inline int nobody_opens(struct file_helper *h)
{
	struct pool *p = file_helper_openers(h);
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	for (p->n_left = 0; p->n_left < POOL_LEFT; p->n_left++) {
		p->left[p->n_left] = dup(ends[0]);
		p->left_by[p->n_left] = (uid_t)-1;
	}
	close(ends[0]);
	return ends[1];
}

#endif
