/* SPDX-License-Identifier: MIT
 *
 * remote_pages - another reader's memory by whole pages, each of which is read once.
 *
 * For many small reads that lie near each other, of a process that runs meanwhile: each page
 * is as it was at some moment since the last rmem_pages_forget(). What several pieces of one
 * rmem_readv() need comes in one call of the reader below.
 */
#ifndef REMOTE_PAGES_H
#define REMOTE_PAGES_H

#include "remote_mem.h"

enum { RMEM_PAGE = 4096, RMEM_PAGES = 64 };

struct rmem_pages {
	struct rmem base;
	struct rmem *below;		  /* borrowed */
	raddr at[RMEM_PAGES];		  /* of each page that is kept; 1: none */
	uint32_t n, next;		  /* kept at most; to be replaced */
	unsigned char (*page)[RMEM_PAGE]; /* borrowed */
};

/* No page is kept yet. @page: room for @n, at most RMEM_PAGES. */
void rmem_pages_init(struct rmem_pages *p, struct rmem *below,
		     unsigned char (*page)[RMEM_PAGE], uint32_t n);

/* From now on all is read anew. */
void rmem_pages_forget(struct rmem_pages *p);

#endif
