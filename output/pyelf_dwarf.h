/* SPDX-License-Identifier: MIT
 *
 * pyelf_dwarf - the debug sections of a pyelf: one unit a file, DWARF 4.
 */
#ifndef PYELF_DWARF_H
#define PYELF_DWARF_H

#include "base/strtab.h"
#include "buf.h"

/* What has addresses: a function, or a marker (no file). Its slots are the lines
 * from @first, then one for "line unknown". */
struct pyelf_func {
	uint64_t addr;
	uint32_t name;	  /* offset in the symbols' strings */
	uint32_t file;	  /* in the files, or STRTAB_NONE */
	uint32_t first;	  /* >= 1 */
	uint32_t n_lines; /* 0: a marker */
	uint32_t decl;	  /* the line of the definition */
	uint32_t raw;	  /* the name as the program has it, in pyelf's own strings */
};

/* In the order in which they are written. */
enum pyelf_dwarf_section {
	DWARF_ABBREV,
	DWARF_INFO,
	DWARF_ARANGES,
	DWARF_LINE,
	DWARF_STR,
	DWARF_RANGES,
	DWARF_N,
};

extern const char *const pyelf_dwarf_names[DWARF_N];

/* Fill @sec, which are empty. @names are the symbols' strings: .debug_str starts
 * with them. The caller deinits; lack of memory is in @sec[].oom. 0 or -ENOMEM. */
int pyelf_dwarf_build(struct buf sec[DWARF_N], const struct pyelf_func *func, size_t n,
		      const struct strtab *files, const struct buf *names);

#endif
