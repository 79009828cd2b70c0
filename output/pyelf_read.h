/* SPDX-License-Identifier: MIT
 *
 * pyelf_read - the functions of a Python symbol file that pyelf wrote, by address.
 *
 * The file may be anybody's: every byte is taken for hostile. One user thread.
 */
#ifndef PYELF_READ_H
#define PYELF_READ_H

#include "sample/sample.h"

struct pyelf_table {
	struct pyelf_place *place; /* sorted by address */
	size_t n;
	struct bytes strings;
};

/* A function, or a marker, in which case @func.file is NULL. */
struct pyelf_place {
	struct pyfunc func; /* index: its number in the table */
	uint64_t addr, n_lines;
	int first;
};

/* An open file, or (@fd < 0) an image in memory; borrowed. @id: the build-id that it must
 * have. 0; -ESTALE: it has another; -ENOEXEC: it is no symbol file, or damaged; -EIO; -ENOMEM.
 * To be emptied in any case. */
int pyelf_read(struct pyelf_table *t, int fd, struct bytes image, struct bytes id);
void pyelf_table_deinit(struct pyelf_table *t);

/* The frame at @addr, an address in the file. False: there is nothing. */
bool pyelf_frame(const struct pyelf_table *t, uint64_t addr, struct frame *ret);

#endif
