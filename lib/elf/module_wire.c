/* SPDX-License-Identifier: MIT
 *
 * module_wire - lays a module's tables out in one memory file, and believes nothing of one.
 */
#include "elf/module_wire.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "elf/rows.h"
#include "elf/sealed.h"

enum {
	MAGIC = 0x6d707973,
	ZEROS = 4096,
	MAX_PAGE = 64 << 10,
	MAX_NAME = 4096 + 16, /* and what is put behind it */
};

enum wire_flags {
	WIRE_STRIPPED = 1,
	WIRE_PYTHON = 2,
	WIRE_ROWS = 4,
	WIRE_MAY_BE_PYTHON = 8,
	WIRE_ALL = 15
};

/* The beginning. The tables follow in the order of their numbers, those of rows from the next
 * page on. */
struct head {
	uint32_t magic, flags;
	uint64_t base;
	struct module_load load[MODULE_MAX_LOADS];
	struct module_func eval, eval_rest;
	uint64_t n_loads, n_syms, n_funcs, n_names;
	uint64_t n_functions, n_eh, n_debug;
	uint64_t eh_at, debug_at;
	unsigned char id[ROWS_ID];
};

_Static_assert(sizeof(struct head) % 8 == 0 && sizeof(struct rows_function) == 16,
	       "tables are aligned, and have no holes");

/* Where things are in it. */
struct places {
	uint64_t syms, funcs, names, names_end, functions, eh, debug, end;
};

static bool counts_sane(const struct head *h)
{
	uint64_t most = MODULE_WIRE_MAX / 4; /* no sum of them overflows */

	return h->n_loads <= MODULE_MAX_LOADS && h->n_syms <= most && h->n_funcs <= most &&
	       h->n_names <= most && h->n_functions <= most && h->n_eh <= most &&
	       h->n_debug <= most;
}

/* False: more than is sane. */
static bool find_places(const struct head *h, size_t page, struct places *p)
{
	if (!counts_sane(h))
		return false;
	p->syms = sizeof(*h);
	p->funcs = p->syms + h->n_syms * sizeof(struct module_sym);
	p->names = p->funcs + h->n_funcs * sizeof(struct module_func);
	p->names_end = p->names + h->n_names;
	p->functions = (p->names_end + page - 1) / page * page;
	p->eh = p->functions + h->n_functions * sizeof(struct rows_function);
	p->debug = p->eh + h->n_eh;
	p->end = h->flags & WIRE_ROWS ? p->debug + h->n_debug : p->names_end;
	return p->end <= MODULE_WIRE_MAX;
}

/* ---- Making ---- */

static size_t names_bytes(const struct module *m)
{
	const struct module_sym *last = m->n_syms ? &m->sym[m->n_syms - 1] : NULL;

	return last ? last->name + strlen(m->names + last->name) + 1 : 0;
}

static struct head head_of(const struct module *m)
{
	/* Without a function there are no rows. */
	const struct unwind_source *s = m->rows && m->rows->n ? &m->rows->source : NULL;
	struct head h = { .magic = MAGIC,
			  .flags = (m->stripped ? WIRE_STRIPPED : 0u) |
				   (m->exports_python ? WIRE_PYTHON : 0u) |
				   (m->may_be_python ? WIRE_MAY_BE_PYTHON : 0u) |
				   (s ? WIRE_ROWS : 0u),
			  .base = m->base,
			  .eval = m->eval,
			  .eval_rest = m->eval_rest,
			  .n_loads = m->n_loads,
			  .n_syms = m->n_syms,
			  .n_funcs = m->n_funcs,
			  .n_names = names_bytes(m) };

	memcpy(h.load, m->load, sizeof(h.load));
	if (!s)
		return h;
	h.n_functions = m->rows->n;
	h.n_eh = s->eh.b.n;
	h.n_debug = s->debug.b.n;
	h.eh_at = s->eh.at;
	h.debug_at = s->debug.at;
	memcpy(h.id, s->id, sizeof(h.id));
	return h;
}

/* What is written at a time. */
struct parts {
	struct iovec at[8 + MAX_PAGE / ZEROS];
	size_t n;
};

static void add(struct parts *parts, const void *at, uint64_t n)
{
	if (n)
		parts->at[parts->n++] = (struct iovec){ (void *)(uintptr_t)at, n };
}

static void add_rows(struct parts *parts, const struct module *m, const struct places *p)
{
	static const char zeros[ZEROS];
	const struct unwind_source *s = &m->rows->source;

	for (uint64_t gap = p->functions - p->names_end; gap; gap -= MIN(gap, (uint64_t)ZEROS))
		add(parts, zeros, MIN(gap, (uint64_t)ZEROS));
	add(parts, m->rows->function, p->eh - p->functions);
	add(parts, s->eh.b.at, s->eh.b.n);
	add(parts, s->debug.b.at, s->debug.b.n);
}

static int make(const struct module *m, const struct head *h, const struct places *p)
{
	struct parts parts = { .n = 0 };

	add(&parts, h, sizeof(*h));
	add(&parts, m->sym, p->funcs - p->syms);
	add(&parts, m->func, p->names - p->funcs);
	add(&parts, m->names, h->n_names);
	if (h->flags & WIRE_ROWS)
		add_rows(&parts, m, p);
	return sealed_make(parts.at, parts.n);
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int module_wire_make(const struct module *m)
{
	struct head h = head_of(m);
	struct places p;

	if (page_bytes() > MAX_PAGE || !find_places(&h, page_bytes(), &p))
		return -EFBIG;
	return make(m, &h, &p);
}

/* ---- Taking ---- */

/* Each name ends, and soon. */
static bool names_good(const char *names, uint64_t n)
{
	uint64_t at = 0, len;

	for (; at < n; at += len + 1) {
		len = strnlen(names + at, MIN(n - at, (uint64_t)MAX_NAME));
		if (len == MIN(n - at, (uint64_t)MAX_NAME))
			return false;
	}
	return true;
}

static bool syms_good(const struct module_sym *s, uint64_t n, uint64_t n_names)
{
	for (uint64_t i = 0; i < n; i++)
		if (s[i].name >= n_names || (i > 0 && s[i].start <= s[i - 1].start))
			return false;
	return true;
}

static bool funcs_good(const struct module_func *f, uint64_t n)
{
	for (uint64_t i = 1; i < n; i++)
		if (f[i].start < (uint64_t)f[i - 1].start + f[i - 1].size)
			return false;
	return true;
}

static bool functions_good(const struct rows_function *f, const struct head *h)
{
	const uint64_t room[ROWS_N_FROM] = { [ROWS_EH] = h->n_eh,
					     [ROWS_DEBUG] = h->n_debug,
					     [ROWS_PLT] = UINT64_MAX,
					     [ROWS_SIGRETURN] = UINT64_MAX };

	for (uint64_t i = 0; i < h->n_functions; i++)
		if (f[i].lo >= f[i].hi || (i > 0 && f[i].lo < f[i - 1].hi) ||
		    f[i].from >= ROWS_N_FROM || f[i].record >= room[f[i].from])
			return false;
	return true;
}

/* @t has its loads, and what is in the first part. */
static bool fill(struct module *t, struct bytes whole, const struct head *h,
		 const struct places *p)
{
	unsigned char *at = (unsigned char *)(uintptr_t)whole.at;

	*t = (struct module){ .base = h->base,
			      .n_loads = h->n_loads,
			      .sym = (struct module_sym *)(void *)(at + p->syms),
			      .n_syms = h->n_syms,
			      .names = (char *)at + p->names,
			      .func = (struct module_func *)(void *)(at + p->funcs),
			      .n_funcs = h->n_funcs,
			      .eval = h->eval,
			      .eval_rest = h->eval_rest,
			      .stripped = h->flags & WIRE_STRIPPED,
			      .exports_python = h->flags & WIRE_PYTHON,
			      .may_be_python = h->flags & WIRE_MAY_BE_PYTHON,
			      .bytes = p->names_end };
	memcpy(t->load, h->load, sizeof(t->load));
	return names_good(t->names, h->n_names) && syms_good(t->sym, t->n_syms, h->n_names) &&
	       funcs_good(t->func, t->n_funcs);
}

static int fill_rows(struct module *t, struct bytes whole, const struct head *h,
		     const struct places *p, const struct arch *arch)
{
	const unsigned char *at = whole.at;
	void *function = (void *)(uintptr_t)(at + p->functions);
	struct unwind_source s = { .eh = { .b = { at + p->eh, h->n_eh }, .at = h->eh_at },
				   .debug = { .b = { at + p->debug, h->n_debug },
					      .at = h->debug_at,
					      .debug = true },
				   .base = h->base };

	if (h->n_functions == 0 || !functions_good(function, h))
		return -EPROTO;
	memcpy(s.id, h->id, sizeof(s.id));
	t->rows = rows_of_map(arch, &s, function, h->n_functions,
			      (struct bytes){ at + p->functions, p->end - p->functions });
	return t->rows ? 0 : -ENOMEM;
}

int module_wire_check(struct module *ret, struct bytes whole, size_t page,
		      const struct arch *arch)
{
	struct places p;
	struct head h;

	if (whole.n < sizeof(h))
		return -EPROTO;
	memcpy(&h, whole.at, sizeof(h));
	if (h.magic != MAGIC || h.flags & ~(uint32_t)WIRE_ALL || !find_places(&h, page, &p) ||
	    p.end != whole.n || !fill(ret, whole, &h, &p))
		return -EPROTO;
	ret->map = (struct bytes){ whole.at, h.flags & WIRE_ROWS ? p.functions : p.end };
	return h.flags & WIRE_ROWS ? fill_rows(ret, whole, &h, &p, arch) : 0;
}

int module_wire_take(struct module *ret, int fd, const struct arch *arch)
{
	struct bytes whole;
	int r = sealed_map(&whole, fd, MODULE_WIRE_MAX);

	*ret = (struct module){ 0 };
	if (r < 0)
		return r;
	r = module_wire_check(ret, whole, page_bytes(), arch);
	if (r < 0) {
		munmap((void *)(uintptr_t)whole.at, whole.n);
		*ret = (struct module){ 0 };
	}
	return r;
}
