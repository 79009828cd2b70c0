/* SPDX-License-Identifier: MIT
 *
 * dump_greenlets - the greenlets that no thread runs, as text or as JSON.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cmd.h"
#include "dump_int.h"
#include "python/pygreenlets.h"
#include "remote/remote_pages.h"
#include "sys/proc_maps.h"

enum { TRIES = 20, SECONDS_MAX = 20 };

/* Greenlets being printed: on a page of their own, for the process may end meanwhile. */
struct printing {
	struct dump *d;
	struct page page;
	struct rmem_pages pages; /* of one look */
	unsigned char kept[RMEM_PAGES][RMEM_PAGE];
	struct pyframe now[PYGREENLET_FRAMES], again[PYGREENLET_FRAMES];
	uint64_t until_ns;
	size_t strange; /* that could not be read */
	bool any, late; /* late: there was no time for all */
};

static void put(struct printing *p, const struct pystack_result *r)
{
	FILE *to = p->page.to;
	struct assemble_input in = {
		.prov = PROV_EXACT,
		.truncated = r->truncated,
		.python = r->frames,
		.native = { .pid = p->d->target.pid, .time = now_ns(), .n_python = r->n },
	};
	struct stack stack;

	assemble(p->d->assembler, &in, &stack);
	if (p->page.form.json)
		fputs(p->any ? ",\n{\"frames\":[" : "\n{\"frames\":[", to);
	else
		cmd_line(to, "Greenlet (parked)");
	page_list(&p->page);
	page_stack(&p->page, &stack);
	if (p->page.form.json)
		fputs("]}", to);
	p->any = true;
}

/* The same twice, codes named in between: then it was so at one moment. 0: told, or there is
 * nothing to tell. */
static int look_at(struct printing *p, raddr at)
{
	const struct pystack_target *t = &p->d->target;
	struct pystack_result r;
	int n, again;

	rmem_pages_forget(&p->pages);
	n = pygreenlets_read(&p->pages.base, &t->layout, &t->walk, at, p->now);
	if (n <= 0)
		return n;
	r = pystack_read_parked(p->d->stacks, t, &p->pages.base, p->now, (uint32_t)n);
	rmem_pages_forget(&p->pages);
	again = pygreenlets_read(&p->pages.base, &t->layout, &t->walk, at, p->again);
	if (r.end != PYSTACK_OK || again != n ||
	    memcmp(p->now, p->again, (size_t)n * sizeof(*p->now)) != 0)
		return -EAGAIN;
	put(p, &r);
	return 0;
}

static void look_at_all(struct printing *p, const struct pygreenlets *g)
{
	for (size_t i = 0; i < g->n; i++) {
		int r = -EAGAIN;

		if (now_ns() > p->until_ns) {
			p->late = true;
			return;
		}
		for (int k = 0; k < TRIES && r < 0; k++)
			r = look_at(p, g->at[i]);
		p->strange += r < 0;
	}
}

/* True: the module is mapped from which they are. */
static bool has_module(pid_t pid)
{
	struct proc_maps maps;
	bool has = false;

	if (proc_maps_read(&maps, pid) < 0)
		return false;
	for (size_t i = 0; i < maps.n && !has; i++)
		has = maps.map[i].path && strstr(maps.map[i].path, "/_greenlet.");
	proc_maps_deinit(&maps);
	return has;
}

/* False: they can't be had. */
static bool print(struct printing *p, const struct pyproc *proc)
{
	const struct pylayout *l = &p->d->target.layout;
	struct pygreenlets g;
	char text[100];
	int r;

	if (!pygreenlets_known(l)) {
		if (has_module(proc->pid))
			page_say(&p->page, proc->pid, "greenlets of this CPython can't be read");
		return false;
	}
	p->until_ns = now_ns() + SECONDS_MAX * 1000000000ull;
	rmem_pages_init(&p->pages, &p->d->live.base, p->kept, RMEM_PAGES);
	r = pygreenlets_find(&p->pages.base, l, proc->runtime, p->until_ns, &g);
	if (r == 0)
		look_at_all(p, &g);
	if (r == -ENODATA)
		page_say(&p->page, proc->pid, "greenlets of this CPython can't be read");
	if (r == -ENOTSUP)
		page_say(&p->page, proc->pid, "greenlets of this version of greenlet can't be read");
	if (r == 0 && (g.cut || p->late || p->strange)) {
		snprintf(text, sizeof(text), "%zu greenlets could not be read%s", p->strange,
			 g.cut || p->late ? "; some may be missing" : "");
		page_say(&p->page, proc->pid, text);
	}
	pygreenlets_deinit(&g);
	return r == 0;
}

void dump_print_greenlets(struct dump *d, const struct pyproc *proc)
{
	struct printing *p = calloc(1, sizeof(*p));
	bool json = d->page.form.json, known = false, made = false;

	if (p) {
		p->d = d;
		made = page_init(&p->page, &d->page.form) == 0;
		known = made && print(p, proc) && !proc_has_ended(d->pidfd);
	}
	if (json)
		fputs(known ? ",\"greenlets\":[" : ",\"greenlets\":null", d->page.to);
	page_list(&d->page);
	if (made && !proc_has_ended(d->pidfd) && (known || !json))
		page_add(&d->page, &p->page);
	if (json && known)
		putc(']', d->page.to);
	if (p)
		page_deinit(&p->page);
	free(p);
}
