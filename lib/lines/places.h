/* SPDX-License-Identifier: MIT
 *
 * places - the native code that was seen, to be given its source lines and inlined functions
 * at the end, all of a file at once.
 *
 * Keeps each file open, so that it can be read when its process, or its name, is gone. One
 * thread at a time.
 */
#ifndef PLACES_H
#define PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct places;
struct space;
struct space_map;
struct srcline;
struct stats;

enum { PLACES_MAX_FILES = 128, PLACES_FDS = 2 * PLACES_MAX_FILES /* descriptors, at most */ };

/* @lines: whom to ask; NULL: nobody, all are without lines. @debuginfod: as for srcline_ask().
 * @stats: where what has no line is counted. Both are borrowed. NULL: no memory. */
struct places *places_create(struct srcline *lines, bool debuginfod, struct stats *stats);
void places_destroy(struct places *p);

/* CPU time in ns that the processes have used that look for lines. 0 of NULL. */
uint64_t places_cpu_ns(const struct places *p);

/* From now on they take at most @bytes, with what is found of them. Native frames beyond, as
 * those in more than PLACES_MAX_FILES files, have names without lines, and are counted (unplaced).
 */
void places_limit(struct places *p, size_t bytes);

/* Code at @vaddr of the file that is mapped at @m of @sp, whose symbol is @name (copied), or
 * which has none and is called so. @plain: leave the interpreter's internals out of what is
 * inlined there. Its number; 0: it has no file, that can't be opened, or
 * there are too many. The number stays good when others are added; after places_resolve() none
 * are.
 */
uint32_t places_add(struct places *p, const struct space *sp, const struct space_map *m,
		    uint64_t vaddr, const char *name, bool is_symbol, bool plain);

/* What the place was called when it was added. */
const char *places_symbol(const struct places *p, uint32_t place);

/* Have all lines found, which can take a minute, with @debuginfod five. The first call does
 * it.
 */
void places_resolve(struct places *p);

struct places_frame {
	const char
		*function; /* as people read it; for the last, if there is one, the symbol */
	const char *file;  /* NULL: not known */
	unsigned line;	   /* 0: not known */
	bool inlined;	   /* into the next one */
};

/* The functions at a place, innermost first; after places_resolve(). At least one. Valid until
 * the next call. */
const struct places_frame *places_frames(struct places *p, uint32_t place, size_t *n);

/* One frame as text, "symbol (file.c:123)", at most @cap - 1 bytes; @lines: with its line. */
void places_text(const struct places_frame *f, bool lines, char *buf, size_t cap);

#endif
