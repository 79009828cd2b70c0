/* SPDX-License-Identifier: MIT */
#include "elf/rows.h"

#include <errno.h>

#include "elf/cfi.h"

enum { MAX_PADDING = 15 /* between functions: what the first says holds there too */ };

int rows_make(struct rows **ret, const struct arch *arch, struct unwind_source *s)
{
	struct rows *rows = calloc(1, sizeof(*rows));
	int r = rows ? cfi_functions(&rows->function, &rows->n, arch, s) : -ENOMEM;

	if (r < 0) {
		free(rows);
		return r;
	}
	rows->arch = arch;
	rows->refs = 1;
	rows->source = *s;
	rows->bytes =
		sizeof(*rows) + rows->n * sizeof(*rows->function) + s->eh.b.n + s->debug.b.n;
	*s = (struct unwind_source){ 0 };
	*ret = rows;
	return 0;
}

struct rows *rows_of_table(struct unwind_table *t)
{
	struct rows *rows = calloc(1, sizeof(*rows));

	if (rows)
		rows->function = malloc(sizeof(*rows->function));
	if (!rows || !rows->function) {
		free(rows);
		return NULL;
	}
	*rows->function = (struct rows_function){ .hi = UINT32_MAX, .tried = true, .made = t };
	rows->n = 1;
	rows->refs = 1;
	rows->bytes = sizeof(*rows) + sizeof(*rows->function) + t->bytes;
	return rows;
}

void rows_put(struct rows *rows)
{
	if (!rows || --rows->refs > 0)
		return;
	for (size_t i = 0; i < rows->n; i++)
		unwind_table_free(rows->function[i].made);
	unwind_source_deinit(&rows->source);
	free(rows->function);
	free(rows);
}

/* The function around @x, or the one whose padding it lies in; NULL: none. */
static struct rows_function *function_at(const struct rows *rows, uint64_t x)
{
	struct rows_function *f = rows->function;
	size_t n = rows->n;

	if (n == 0 || x < f->lo)
		return NULL;
	while (n > 1) { /* without a branch to mispredict */
		size_t half = n / 2;

		f = f[half].lo <= x ? f + half : f;
		n -= half;
	}
	if (x < f->hi)
		return f;
	return f + 1 < rows->function + rows->n && f[1].lo - f->hi <= MAX_PADDING ? f : NULL;
}

const struct unwind_table *rows_at(struct rows *rows, uint64_t vaddr)
{
	struct rows_function *f = function_at(rows, vaddr - rows->source.base);

	if (f && !f->tried) {
		f->tried = true;
		if (cfi_compile(&f->made, rows->arch, &rows->source, f) == 0)
			rows->bytes += f->made->bytes;
	}
	return f ? f->made : NULL;
}
