/* SPDX-License-Identifier: MIT
 *
 * rows - the functions that one file's unwind information knows, and the rows of those that
 * somebody asked for.
 *
 * Of a program's functions few are ever on a stack: finding them all takes a tenth of what
 * compiling them all does. The file's sections are kept for that.
 */
#ifndef ROWS_H
#define ROWS_H

#include "elf/frames.h"
#include "elf/table.h"

enum { ROWS_ID = 32 };

/* What a file says. */
struct unwind_source {
	struct frames_section eh, debug; /* owned */
	uint64_t sigreturn;		 /* where arch->sigreturn is; 0: nowhere */
	uint64_t plt_lo, plt_hi;	 /* the stubs of .plt */
	bool plt_plain;			 /* they push nothing: arch->plt_plain */
	uint64_t base;			 /* lowest address of the file */
	/* Equal in files with the same unwind information: build-id and a sum of it. */
	unsigned char id[ROWS_ID];
};

struct elfimage;
struct module;

/* tableread.c: of an ELF of @arch, whose loads are in @m. What is not there, or damaged, is
 * empty. */
void unwind_source_read(struct unwind_source *s, const struct arch *arch,
			const struct elfimage *im, const struct module *m);
void unwind_source_deinit(struct unwind_source *s);

/* Addresses are less unwind_source.base. None reaches into the next. */
struct rows_function {
	uint32_t lo, hi;
	uint32_t record; /* offset in its section; ROWS_PLT: unwind_source.plt_plain */
	/* The first of several at one address counts. */
	uint32_t from; /* enum rows_from */
};
enum rows_from { ROWS_EH, ROWS_DEBUG, ROWS_PLT, ROWS_SIGRETURN, ROWS_N_FROM };

struct rows {
	const struct arch *arch;
	struct unwind_source source;
	struct rows_function *function; /* by address */
	struct unwind_table **made;	/* of each; NULL: not tried yet, &none: in vain */
	struct unwind_table none;
	size_t n;
	size_t left; /* bytes that may be looked at for all tables still to be made */
	struct bytes map; /* memory of another process's making that @source and @function lie
			     in, and which is read only; empty: they are malloc'ed */
	size_t bytes;	  /* of memory held: grows */
	unsigned refs;
};

/* Finds the functions, and takes over what @s owns. *@ret has one reference. 0, -ENOMEM, or
 * -E2BIG: more than is sane. */
int rows_make(struct rows **ret, const struct arch *arch, struct unwind_source *s);

/* Takes over @map, which @s and the @n functions lie in, on success. NULL: no memory. */
struct rows *rows_of_map(const struct arch *arch, const struct unwind_source *s,
			 struct rows_function *function, size_t n, struct bytes map);

/* True: both have the same functions, and the same bytes that tell their rows. */
bool rows_equal(const struct rows *a, const struct rows *b);

/* Of code in memory whose rows are known, all in @t, which is taken over. NULL: no memory. */
struct rows *rows_of_table(struct unwind_table *t);

/* Take a reference away; the last frees. NULL is fine. */
void rows_put(struct rows *rows);

/* The rows around @vaddr, NULL where there are none. They stay as long as @rows. */
const struct unwind_table *rows_at(struct rows *rows, uint64_t vaddr);

#endif
