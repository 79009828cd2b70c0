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

enum {
	RMEM_PAGE = 4096,
	RMEM_PAGES = 64,
	RMEM_PAGE_COST = 16, /* of a page that is asked for; of one that is kept: 1 */
};

struct rmem_pages {
	struct rmem base;
	struct rmem *below;		  /* borrowed */
	raddr at[RMEM_PAGES];		  /* of each page that is kept; 1: none */
	uint32_t n, next;		  /* kept at most; to be replaced */
	uint64_t left;			  /* rmem_pages_limit() */
	unsigned char (*page)[RMEM_PAGE]; /* borrowed */
};

/* No page is kept yet. @page: room for @n, at most RMEM_PAGES. */
void rmem_pages_init(struct rmem_pages *p, struct rmem *below,
		     unsigned char (*page)[RMEM_PAGE], uint32_t n);

/* From now on all is read anew. */
void rmem_pages_forget(struct rmem_pages *p);

/* Reads that would cost more than @cost from now on, all together, fail with -E2BIG, and so do
 * all that follow; @p->left is 0 then. Without this call there is no limit. */
void rmem_pages_limit(struct rmem_pages *p, uint64_t cost);

#endif
