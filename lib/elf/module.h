/* SPDX-License-Identifier: MIT
 *
 * module - what one ELF file says about its code: where it is loaded, functions and their
 * names, unwind rows.
 *
 * The file is opened by somebody else, read once, by pread (a file that shrinks under a
 * mapping would kill us), and not needed any more. Every byte is taken for hostile. A module
 * does not change once it was read, but for @rows, which files with equal ones share: one user
 * thread then.
 */
#ifndef MODULE_H
#define MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* Addresses in rows are file addresses (vaddr) less module.base. */
struct module_sym {
	uint32_t start, size;
	uint32_t name; /* offset in module.names */
};

/* A function as .eh_frame knows it: no name. Rows do not overlap. */
struct module_func {
	uint32_t start, size;
};

/* An executable PT_LOAD. */
struct module_load {
	uint64_t offset, vaddr, size;
};

enum { MODULE_MAX_LOADS = 8 };

struct module {
	uint64_t base; /* lowest vaddr of the file */
	struct module_load load[MODULE_MAX_LOADS];
	size_t n_loads;
	struct module_sym *sym; /* functions, by start; may be nested */
	size_t n_syms;
	char *names; /* as the file has them: "read@@GLIBC_2.2.5", "f.cold" */
	struct module_func *func;
	size_t n_funcs;
	/* What the symbol _PyEval_EvalFrameDefault covers, if exported; and in a stripped
	 * file the nameless part that the compiler split off. Size 0: none. */
	struct module_func eval, eval_rest;
	bool stripped;	     /* no .symtab, here or in a debug file */
	bool exports_python; /* defines CPython's main or eval loop for others */
	bool may_be_python;  /* not surely without an interpreter (elfpython.h) */
	struct rows *rows;   /* NULL: not wanted, for another processor, too many */
	bool memory;	     /* it is no file but trampolines in memory: @rows alone */
	size_t bytes;	     /* of memory held, but for @rows */
	struct bytes map;    /* memory that is read only, which the tables lie in, but for
				@rows; empty: they are malloc'ed */
};

struct debugfile_origin;
struct elfimage;

/* elfread.c: read an open file, or (@fd < 0) an image in memory, which are borrowed; where
 * that has no .symtab, with the symbols of the debug file that @from leads to (NULL: none).
 * @rows: unwind rows too. 0; -ENOEXEC when it is no 64-bit little-endian ELF; -EIO; -ENOMEM. A
 * part that is damaged is empty; one that was left out for want of memory or descriptors, too,
 * but then errno, 0 before, says so. Can take long, or for ever where a server does not answer.
 */
int module_read(struct module *t, int fd, struct bytes image,
		const struct debugfile_origin *from, bool rows);
void module_deinit(struct module *t);
size_t module_bytes(const struct module *t); /* of memory held by now */
void module_free(struct module *t);	     /* one that was malloc'ed; NULL does nothing */

/* elfread.c: @t->base and executable segments alone. */
void module_read_loads(struct module *t, const struct elfimage *im);

/* File offset of code to vaddr. False when no executable segment holds it. */
bool module_vaddr(const struct module *t, uint64_t offset, uint64_t *ret);

/* The innermost symbol that covers @vaddr, or NULL. */
const char *module_symbol(const struct module *t, uint64_t vaddr);

/* The row of @func that covers @x (relative to base), or NULL. */
const struct module_func *module_row(const struct module *t, uint64_t x);

/* How many bytes from @x (relative to base) on the next function of .eh_frame begins; UINT64_MAX:
 * there is none. */
uint64_t module_room(const struct module *t, uint64_t x);

/* True: @vaddr is in the eval loop's nameless part. */
bool module_is_eval_rest(const struct module *t, uint64_t vaddr);

/* The .eh_frame function that covers @vaddr; its start as vaddr in @start. */
bool module_function(const struct module *t, uint64_t vaddr, uint64_t *start);

/* ehframe.c, pure: the functions in a .eh_frame_hdr window loaded at @hdr_at, sizes from the
 * .eh_frame window at @frame_at. Fills at most @cap rows, sorted, disjoint; how
 * many. */
size_t ehframe_functions(struct bytes hdr, uint64_t hdr_at, struct bytes frame,
			 uint64_t frame_at, uint64_t base, struct module_func *ret,
			 size_t cap);

/* ehframe.c: where a .eh_frame_hdr window says that .eh_frame and its own rows are. */
struct ehframe_hdr {
	uint64_t frame_at;
	size_t rows_at, n_rows; /* offset of the table in the window, rows in it */
};
int ehframe_hdr(struct ehframe_hdr *ret, struct bytes hdr, uint64_t hdr_at);

#endif
