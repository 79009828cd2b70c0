/* SPDX-License-Identifier: MIT
 *
 * symnames - symbols' names as people see them: cleaned, without the compiler's suffixes,
 * one copy of each.
 */
#ifndef SYMNAMES_H
#define SYMNAMES_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/base.h"

enum {
	SYMNAMES_MAX = 512,  /* bytes of a name, with its NUL */
	SYMNAMES_RAW = 4096, /* bytes of a name as a symbol table has it */
};

#define SYMNAMES_STUB "@plt" /* behind the name of what a stub calls */

struct stats;

/* demangle(), with its arguments: how many bytes @buf got; 0: it means nothing more; -errno. */
typedef ssize_t symnames_ask_fn(void *arg, const char *raw, char *buf, size_t cap);

struct symnames {
	struct strtab *tab;
	size_t bytes, max_bytes; /* of all names; symnames_limit() */
	struct stats *stats;	 /* or NULL */
	/* Names that were demangled once: plain[id in mangled]. */
	struct strtab *mangled;
	const char **plain;
	size_t cap_plain;
	symnames_ask_fn *ask; /* or NULL; symnames_ask() */
	void *ask_arg;
	int64_t ask_again_ns; /* now_ns() */
	uint64_t n_mangled;   /* long names that were told as they are */
};

int symnames_init(struct symnames *t); /* 0 or -ENOMEM */
void symnames_deinit(struct symnames *t);

/* New names beyond @bytes are symnames_unknown, and counted in @stats (nameless), which is
 * borrowed. */
void symnames_limit(struct symnames *t, size_t bytes, struct stats *stats);

/* Long names are demangled by @ask, since some would take for ever. One that it could not do stays
 * as it is; after three of them (but for -EAGAIN) others do for five minutes, and are asked for
 * then. All those are counted (mangled). */
void symnames_ask(struct symnames *t, symnames_ask_fn *ask, void *arg);

extern const char symnames_unknown[]; /* "[unknown]" */

/* The one copy of @name; symnames_unknown when there is no room for more names. It stays
 * as long as the strtab. */
const char *symnames_intern(struct symnames *t, const char *name);

/* As symnames_intern(), of the file that something named is in: NULL where there is no room,
 * which is not counted. */
const char *symnames_file(struct symnames *t, const char *name);

/* The name that people know a symbol by: demangled (once), clean. @raw was cut. Interned. */
const char *symnames_symbol(struct symnames *t, const char *raw);

/* Copy what may stand in an output: at most @cap - 1 bytes, whole UTF-8 characters; ';'
 * becomes ':', and what printable() takes out '?'. */
void symnames_clean(char *buf, size_t cap, const char *s);

/* Cut what compilers and linkers append: "@@VERSION", ".cold", ".isra.0.part.1"; not
 * SYMNAMES_STUB. */
void symnames_cut(char *name);

/* Is a function of CPython the eval loop, or on the way from a caller, Python or C, into it?
 */
bool symnames_is_eval(const char *name);
bool symnames_is_call(const char *name);

/* Is a function of CPython one that collects garbage: called for each collection, and left when
 * it is over? */
bool symnames_is_gc(const char *name);

#endif
