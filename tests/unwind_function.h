/* SPDX-License-Identifier: MIT
 *
 * unwind_function - the function around an address as unwind rows have it, and the source of
 * an ELF file's, for tests.
 */
#ifndef UNWIND_FUNCTION_H
#define UNWIND_FUNCTION_H

#include <errno.h>

#include "elf/elfimage.h"
#include "elf/module.h"
#include "elf/rows.h"

/* The row that holds at @vaddr, NULL where there is none; *@t: its table. */
static inline const struct unwind_row *row_at(struct rows *rows, uint64_t vaddr,
					      const struct unwind_table **t)
{
	*t = rows_at(rows, vaddr);
	return *t ? unwind_table_row(*t, vaddr) : NULL;
}

static inline bool rows_function(struct rows *rows, uint64_t vaddr, uint64_t *start,
				 uint64_t *end)
{
	const struct unwind_table *t;
	const struct unwind_row *row = row_at(rows, vaddr, &t);

	if (!row || unwind_row_rule(t, row)->flags & RULE_NONE)
		return false;
	for (const struct rows_function *f = rows->function; f < rows->function + rows->n;
	     f++) {
		*start = rows->source.base + f->lo;
		*end = rows->source.base + f->hi;
		if (rows->made[f - rows->function] == t)
			return true;
	}
	return false;
}

/* From a descriptor, or (-1) an image. 0; -errno: no ELF of @arch. */
static inline int source_of_elf(struct unwind_source *s, const struct arch *arch, int fd,
				struct bytes image)
{
	struct module m = { 0 };
	struct elfimage im;
	int r = elfimage_init(&im, fd, image);

	if (r == 0 && (im.n_ph == 0 || im.machine != arch->elf_machine))
		r = -ENOEXEC;
	if (r == 0) {
		module_read_loads(&m, &im);
		unwind_source_read(s, arch, &im, &m);
	}
	elfimage_deinit(&im);
	return r;
}

#endif
