/* SPDX-License-Identifier: MIT */
#include "elf/rows.h"

#include <errno.h>
#include <sys/mman.h>

#include "elf/cfi.h"

enum {
	MAX_PADDING = 15, /* between functions: what the first says holds there too */
	/* What all functions of a file may take: 1.5 times what those of libLLVM do, 0.2 s. */
	MAX_WORK = 64 << 20,
	MIN_WORK = 4 << 20,
	WORK_OF_BYTE = 32, /* of its sections: what compilers write takes 15 at most */
};

struct rows *rows_of_map(const struct arch *arch, const struct unwind_source *s,
			 struct rows_function *function, size_t n, struct bytes map)
{
	struct rows *rows = calloc(1, sizeof(*rows));

	if (rows)
		rows->made = calloc(MAX(n, 1), sizeof(struct unwind_table *));
	if (!rows || !rows->made) {
		free(rows);
		return NULL;
	}
	rows->arch = arch;
	rows->refs = 1;
	rows->source = *s;
	rows->function = function;
	rows->n = n;
	rows->map = map;
	rows->left = MIN(MIN_WORK + WORK_OF_BYTE * (s->eh.b.n + s->debug.b.n), MAX_WORK);
	rows->bytes = sizeof(*rows) + n * (sizeof(*function) + sizeof(struct unwind_table *)) +
		      s->eh.b.n + s->debug.b.n;
	return rows;
}

int rows_make(struct rows **ret, const struct arch *arch, struct unwind_source *s)
{
	struct rows_function *function;
	size_t n;
	int r = cfi_functions(&function, &n, arch, s);

	if (r < 0)
		return r;
	*ret = rows_of_map(arch, s, function, n, (struct bytes){ 0 });
	if (!*ret) {
		free(function);
		return -ENOMEM;
	}
	*s = (struct unwind_source){ 0 };
	return 0;
}

static bool section_equal(const struct frames_section *a, const struct frames_section *b)
{
	return a->at == b->at && a->b.n == b->b.n &&
	       (!a->b.n || memcmp(a->b.at, b->b.at, a->b.n) == 0);
}

bool rows_equal(const struct rows *a, const struct rows *b)
{
	return a->n == b->n && a->source.base == b->source.base &&
	       memcmp(a->source.id, b->source.id, ROWS_ID) == 0 &&
	       (!a->n || memcmp(a->function, b->function, a->n * sizeof(*a->function)) == 0) &&
	       section_equal(&a->source.eh, &b->source.eh) &&
	       section_equal(&a->source.debug, &b->source.debug);
}

struct rows *rows_of_table(struct unwind_table *t)
{
	struct rows_function *function = malloc(sizeof(*function));
	struct unwind_source none = { 0 };
	struct rows *rows =
		function ? rows_of_map(NULL, &none, function, 1, (struct bytes){ 0 }) : NULL;

	if (!rows) {
		free(function);
		return NULL;
	}
	*function = (struct rows_function){ .hi = UINT32_MAX };
	rows->made[0] = t;
	rows->bytes += t->bytes;
	return rows;
}

void rows_put(struct rows *rows)
{
	if (!rows || --rows->refs > 0)
		return;
	for (size_t i = 0; i < rows->n; i++)
		if (rows->made[i] != &rows->none)
			unwind_table_free(rows->made[i]);
	if (rows->map.at) {
		munmap((void *)(uintptr_t)rows->map.at, rows->map.n);
	} else {
		unwind_source_deinit(&rows->source);
		free(rows->function);
	}
	free(rows->made);
	free(rows);
}

/* The function around @x, or the one whose padding it lies in; NULL: none. */
static const struct rows_function *function_at(const struct rows *rows, uint64_t x)
{
	const struct rows_function *f = rows->function;
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
	const struct rows_function *f = function_at(rows, vaddr - rows->source.base);
	struct unwind_table **made = f ? &rows->made[f - rows->function] : NULL;

	if (made && !*made) {
		if (cfi_compile(made, rows->arch, &rows->source, f, &rows->left) == 0)
			rows->bytes += (*made)->bytes;
		else
			*made = &rows->none;
	}
	return !made || *made == &rows->none ? NULL : *made;
}
