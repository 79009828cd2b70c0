/* SPDX-License-Identifier: MIT
 *
 * elfcache_tables - what one ELF file says about its functions: sorted rows, and how they are
 * looked up.
 *
 * Tables are read by pread (a file that shrinks under a mapping would kill us). Every byte is
 * taken for hostile. One user thread.
 */
#ifndef ELFCACHE_TABLES_H
#define ELFCACHE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* Addresses in rows are file addresses (vaddr) less elfcache_tables.base. */
struct elfcache_sym {
	uint32_t start, size;
	uint32_t name; /* offset in elfcache_tables.names */
};

/* A function as .eh_frame knows it: no name. Rows do not overlap. */
struct elfcache_func {
	uint32_t start, size;
};

/* An executable PT_LOAD. */
struct elfcache_load {
	uint64_t offset, vaddr, size;
};

enum { ELFCACHE_MAX_LOADS = 8 };

struct elfcache_tables {
	uint64_t base; /* lowest vaddr of the file */
	struct elfcache_load load[ELFCACHE_MAX_LOADS];
	size_t n_loads;
	struct elfcache_sym *sym; /* functions, by start; may be nested */
	size_t n_syms;
	char *names; /* as the file has them: "read@@GLIBC_2.2.5", "f.cold" */
	struct elfcache_func *func;
	size_t n_funcs;
	/* What the symbol _PyEval_EvalFrameDefault covers, if exported; and in a stripped
	 * file the nameless part that the compiler split off. Size 0: none. */
	struct elfcache_func eval, eval_rest;
	bool stripped;	     /* no .symtab, here or in a debug file */
	bool exports_python; /* defines CPython's main or eval loop for others */
	size_t bytes;	     /* of memory held */
};

struct debugfile_origin;

/* elfread.c: read the tables of an open file, or (@fd < 0) of an image in memory; where that
 * has no .symtab, with the symbols of the debug file that @from leads to (NULL: none). 0;
 * -ENOEXEC when it is no ELF of this machine's kind; -EIO; -ENOMEM. A part that is damaged is
 * empty. */
int elfcache_tables_read(struct elfcache_tables *t, int fd, struct bytes image,
			 const struct debugfile_origin *from);
void elfcache_tables_deinit(struct elfcache_tables *t);

/* File offset of code to vaddr. False when no executable segment holds it. */
bool elfcache_vaddr(const struct elfcache_tables *t, uint64_t offset, uint64_t *ret);

/* The innermost symbol that covers @vaddr, or NULL. */
const char *elfcache_symbol(const struct elfcache_tables *t, uint64_t vaddr);

/* The row of @func that covers @x (relative to base), or NULL. */
const struct elfcache_func *elfcache_row(const struct elfcache_tables *t, uint64_t x);

/* Is @vaddr in the eval loop's nameless part? */
bool elfcache_is_eval_rest(const struct elfcache_tables *t, uint64_t vaddr);

/* The .eh_frame function that covers @vaddr; its start as vaddr in @start. */
bool elfcache_function(const struct elfcache_tables *t, uint64_t vaddr, uint64_t *start);

/* ehframe.c, pure: the functions in a .eh_frame_hdr window loaded at @hdr_at, sizes from the
 * .eh_frame window at @frame_at. Fills at most @cap rows, sorted, disjoint; how
 * many. */
size_t elfcache_eh_functions(struct bytes hdr, uint64_t hdr_at, struct bytes frame,
			     uint64_t frame_at, uint64_t base, struct elfcache_func *ret,
			     size_t cap);

/* ehframe.c: where a .eh_frame_hdr window says that .eh_frame and its own rows are. */
struct elfcache_eh_hdr {
	uint64_t frame_at;
	size_t rows_at, n_rows; /* offset of the table in the window, rows in it */
};
int elfcache_eh_hdr(struct elfcache_eh_hdr *ret, struct bytes hdr, uint64_t hdr_at);

/* elfread.c: a cache of struct elfcache_tables. */
struct elfcache_kind;
extern const struct elfcache_kind elfcache_symbols;

#endif
