/* SPDX-License-Identifier: MIT
 *
 * elffunc - the functions of an ELF file as a user names them: with the versions that a name
 * has.
 */
#ifndef ELFFUNC_H
#define ELFFUNC_H

#include <stdbool.h>

#include "elf/elfimage.h"

struct elffunc {
	char name[512]; /* without what is behind '@' */
	uint64_t vaddr;
	bool old;    /* a version that programs linked today don't get */
	bool chosen; /* not the function but what chooses it (IFUNC) */
};

/* Call @each for all in .symtab and .dynsym, so for many of them twice. */
void elffunc_each(const struct elfimage *im,
		  void (*each)(void *arg, const struct elffunc *function), void *arg);

#endif
