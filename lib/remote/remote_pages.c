/* SPDX-License-Identifier: MIT
 *
 * remote_pages - a few pages, replaced in turn.
 */
#include "remote/remote_pages.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

enum { NO_PAGE = 1 };

/* NULL: it can't be read. */
static const unsigned char *page_at(struct rmem_pages *p, raddr at)
{
	uint32_t i;

	for (i = 0; i < RMEM_PAGES; i++)
		if (p->at[i] == at)
			return p->page[i];
	i = p->next;
	p->next = (i + 1) % RMEM_PAGES;
	p->at[i] = rmem_read(p->below, at, p->page[i], RMEM_PAGE) < 0 ? NO_PAGE : at;
	return p->at[i] == at ? p->page[i] : NULL;
}

static int read_pages(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct rmem_pages *p = container_of(m, struct rmem_pages, base);
	unsigned char *to = buf;

	while (n) {
		size_t from = at % RMEM_PAGE, piece = MIN(n, RMEM_PAGE - from);
		const unsigned char *page = page_at(p, at - from);

		if (!page)
			return -EFAULT;
		memcpy(to, page + from, piece);
		to += piece;
		at += piece;
		n -= piece;
	}
	return 0;
}

static const struct rmem_ops ops = { .name = "pages", .read = read_pages };

void rmem_pages_init(struct rmem_pages *p, struct rmem *below)
{
	p->base.ops = &ops;
	p->below = below;
	p->next = 0;
	rmem_pages_forget(p);
}

void rmem_pages_forget(struct rmem_pages *p)
{
	for (uint32_t i = 0; i < RMEM_PAGES; i++)
		p->at[i] = NO_PAGE;
}
