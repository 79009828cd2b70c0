/* SPDX-License-Identifier: MIT
 *
 * pymapped - what a process's memory says about an interpreter in one of its files: the part
 * of elfpython that the dynamic linker needs, too, so that nobody has to read the file.
 */
#ifndef PYMAPPED_H
#define PYMAPPED_H

#include "elf/elfpython.h"
#include "remote_mem.h"

/* The file is mapped from its first byte on at @at. 0: it exports _PyRuntime; @ret->stripped
 * is not known. -ENOENT: ask the file. The memory is the target's and hostile: an answer is
 * worth what is proven of it. */
int pymapped_read(struct rmem *m, raddr at, struct elfpython *ret);

#endif
