/* SPDX-License-Identifier: MIT
 *
 * folded_names - what frames of folded stacks are called.
 *
 * A name is a number, and equal names are one. Names of Python functions hold whole paths
 * until the end, when all files are known: then these become short, unless the session has
 * SESSION_FULL_PATHS. Not for two threads.
 */
#ifndef OUTPUT_FOLDED_NAMES_H
#define OUTPUT_FOLDED_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "base/strtab.h"
#include "buf.h"
#include "sink.h"

/* What there is no room for is called. */
#define FOLDED_UNNAMED "[unnamed]"

struct folded_names {
	struct strtab *text;
	unsigned flags;	      /* enum session_flags */
	struct idmap lines;   /* function and line to name */
	struct idmap kept;    /* where a frame's name is to name */
	struct buf with_file; /* the names that end with a file's */
	/* From folded_names_shorten() on: the distinct files of those names, their short
	 * names, and by a name's number which of @with_file it is, + 1; 0: none. */
	const char **files, **short_files;
	uint32_t *ends_with;
	bool full; /* set by the owner: new names are "[unnamed]" */
};

/* Copy @text into the @size bytes at @buf, fit for the format, which holds neither ';' nor control
 * characters. How many bytes stand before the NUL. */
size_t folded_names_fit(char *buf, size_t size, const char *text);

/* @f is zeroed. 0 or -ENOMEM. */
int folded_names_init(struct folded_names *f, unsigned flags);
void folded_names_deinit(struct folded_names *f);

/* Memory that the names take. */
size_t folded_names_bytes(const struct folded_names *f);

/* Each returns a name's number, or STRTAB_NONE without memory. The text is made fit for the
 * format. */
uint32_t folded_names_add(struct folded_names *f, const char *text);
uint32_t folded_names_format(struct folded_names *f, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

/* The name of a function at @line (0: not known). */
uint32_t folded_names_python(struct folded_names *f, const struct pyfunc *func, int line);
/* As folded_names_add(), of text that stays where it is while @f lives. */
uint32_t folded_names_kept(struct folded_names *f, const char *name);

/* Find the short names of files, for the names that there are. Call before
 * folded_names_write(), again when there are more. 0 or -ENOMEM. */
int folded_names_shorten(struct folded_names *f);

/* Write a name, with its file short. */
void folded_names_write(const struct folded_names *f, uint32_t id, FILE *out);

#endif
