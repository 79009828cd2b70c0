/* SPDX-License-Identifier: MIT
 *
 * module - lookups in what was read of one ELF file.
 */
#include "elf/module.h"

#include <sys/mman.h>

#include "elf/rows.h"

enum { MAX_NESTING = 64 /* rows looked back for an enclosing symbol */ };

void module_deinit(struct module *t)
{
	if (t->map.at) {
		munmap((void *)(uintptr_t)t->map.at, t->map.n);
	} else {
		free(t->sym);
		free(t->names);
		free(t->func);
	}
	rows_put(t->rows);
	*t = (struct module){ 0 };
}

size_t module_bytes(const struct module *t)
{
	return t->bytes + (t->rows ? t->rows->bytes : 0);
}

void module_free(struct module *t)
{
	if (t)
		module_deinit(t);
	free(t);
}

bool module_vaddr(const struct module *t, uint64_t offset, uint64_t *ret)
{
	for (size_t i = 0; i < t->n_loads; i++) {
		if (offset - t->load[i].offset < t->load[i].size) {
			*ret = offset - t->load[i].offset + t->load[i].vaddr;
			return true;
		}
	}
	return false;
}

/* How many of @n rows of @each bytes, beginning with a start, start at or below @x. */
static size_t rows_below(const void *rows, size_t n, size_t each, uint64_t x)
{
	size_t lo = 0;

	while (n > 0) {
		size_t half = n / 2;

		if (load_u32((const char *)rows + (lo + half) * each) <= x) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

const char *module_symbol(const struct module *t, uint64_t vaddr)
{
	uint64_t x = vaddr - t->base;
	size_t i = rows_below(t->sym, t->n_syms, sizeof(*t->sym), x);

	for (size_t k = 0; k < MAX_NESTING && k < i; k++) {
		const struct module_sym *s = &t->sym[i - 1 - k];

		if (x - s->start < s->size)
			return t->names + s->name;
	}
	return NULL;
}

const struct module_func *module_row(const struct module *t, uint64_t x)
{
	size_t i = rows_below(t->func, t->n_funcs, sizeof(*t->func), x);

	if (i == 0 || x - t->func[i - 1].start >= t->func[i - 1].size)
		return NULL;
	return &t->func[i - 1];
}

uint64_t module_room(const struct module *t, uint64_t x)
{
	size_t i = rows_below(t->func, t->n_funcs, sizeof(*t->func), x);

	return i < t->n_funcs ? t->func[i].start - x : UINT64_MAX;
}

bool module_function(const struct module *t, uint64_t vaddr, uint64_t *start)
{
	const struct module_func *f = module_row(t, vaddr - t->base);

	if (f)
		*start = t->base + f->start;
	return f;
}

bool module_is_eval_rest(const struct module *t, uint64_t vaddr)
{
	return vaddr - t->base - t->eval_rest.start < t->eval_rest.size;
}
