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
#include "elf/table.h"

static inline bool row_is_gap(const struct unwind_row *row)
{
	return (row->rule & ROW_RULE) == 0;
}

static inline bool unwind_table_function(const struct unwind_table *t, uint64_t vaddr,
					 uint64_t *start, uint64_t *end)
{
	const struct unwind_row *row = unwind_table_row(t, vaddr), *past;

	if (!row || row_is_gap(row))
		return false;
	for (past = row + 1; past < t->row + t->n_rows; past++)
		if (row_is_gap(past) || (past->rule & ROW_START))
			break;
	while (!(row->rule & ROW_START) && row > t->row)
		row--;
	*start = t->base + row->pc;
	*end = past < t->row + t->n_rows ? t->base + past->pc : vaddr + 1;
	return true;
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
