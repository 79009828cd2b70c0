/* SPDX-License-Identifier: MIT
 *
 * remote_pages - a few pages, replaced in turn.
 */
#include "remote/remote_pages.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

enum { NO_PAGE = 1, AT_ONCE = 16 };

/* False: it costs more than is left, and now nothing is. */
static bool spend(struct rmem_pages *p, uint32_t cost)
{
	bool may = cost <= p->left;

	p->left = may ? p->left - cost : 0;
	return may;
}

/* Which of those that are kept; @p->n: none. */
static uint32_t find(const struct rmem_pages *p, raddr at)
{
	uint32_t i = 0;

	while (i < p->n && p->at[i] != at)
		i++;
	return i;
}

static uint32_t give_room(struct rmem_pages *p)
{
	uint32_t i = p->next;

	p->next = (i + 1) % p->n;
	p->at[i] = NO_PAGE;
	return i;
}

/* Pages that are to be read together. */
struct batch {
	struct rmem_vec v[AT_ONCE];
	uint32_t room[AT_ONCE];
	size_t n;
};

static void add(struct rmem_pages *p, struct batch *b, raddr at)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->v[i].at == at)
			return;
	if (b->n == MIN((uint32_t)AT_ONCE, p->n) || find(p, at) < p->n)
		return;
	b->room[b->n] = give_room(p);
	b->v[b->n] = (struct rmem_vec){ at, p->page[b->room[b->n]], RMEM_PAGE };
	b->n++;
}

/* Those of @v that are not kept. What does not come, if any, is asked for alone later. */
static void fetch(struct rmem_pages *p, const struct rmem_vec *v, size_t n)
{
	struct batch b = { .n = 0 };

	for (size_t i = 0; i < n; i++)
		for (size_t from = v[i].at % RMEM_PAGE, at = 0; at < from + v[i].n;
		     at += RMEM_PAGE)
			add(p, &b, v[i].at - from + at);
	if (b.n < 2 || !spend(p, RMEM_PAGE_COST * (uint32_t)b.n))
		return;
	n = rmem_readv(p->below, b.v, b.n);
	for (size_t i = 0; i < n; i++)
		p->at[b.room[i]] = b.v[i].at;
}

static int page_at(struct rmem_pages *p, raddr at, const unsigned char **ret)
{
	uint32_t i = find(p, at);
	int r = 0;

	if (!spend(p, i == p->n ? RMEM_PAGE_COST : 1))
		return -E2BIG;
	if (i == p->n) {
		i = give_room(p);
		r = rmem_read(p->below, at, p->page[i], RMEM_PAGE);
		p->at[i] = r < 0 ? NO_PAGE : at;
	}
	*ret = p->page[i];
	return r;
}

/* The pages are there, mostly. */
static int copy(struct rmem_pages *p, raddr at, void *buf, size_t n)
{
	unsigned char *to = buf;

	while (n) {
		size_t from = at % RMEM_PAGE, piece = MIN(n, RMEM_PAGE - from);
		const unsigned char *page;
		int r = page_at(p, at - from, &page);

		if (r < 0)
			return r;
		memcpy(to, page + from, piece);
		to += piece;
		at += piece;
		n -= piece;
	}
	return 0;
}

static size_t readv_pages(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct rmem_pages *p = container_of(m, struct rmem_pages, base);
	size_t i = 0;

	fetch(p, v, n);
	while (i < n && copy(p, v[i].at, v[i].buf, v[i].n) == 0)
		i++;
	return i;
}

static int read_pages(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct rmem_pages *p = container_of(m, struct rmem_pages, base);
	const struct rmem_vec v = { at, buf, n };

	fetch(p, &v, 1);
	return copy(p, at, buf, n);
}

static const struct rmem_ops ops = { .name = "pages",
				     .read = read_pages,
				     .readv = readv_pages };

void rmem_pages_init(struct rmem_pages *p, struct rmem *below,
		     unsigned char (*page)[RMEM_PAGE], uint32_t n)
{
	p->base.ops = &ops;
	p->below = below;
	p->page = page;
	p->n = MIN(n, (uint32_t)RMEM_PAGES);
	p->next = 0;
	p->left = UINT64_MAX;
	rmem_pages_forget(p);
}

void rmem_pages_limit(struct rmem_pages *p, uint64_t cost)
{
	p->left = cost;
}

void rmem_pages_forget(struct rmem_pages *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		p->at[i] = NO_PAGE;
}
