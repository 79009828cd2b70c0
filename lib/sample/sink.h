/* SPDX-License-Identifier: MIT
 *
 * sink - where stacks go: what an output is for those who feed it.
 *
 * Everything passed in is borrowed for the call. All sinks are used by one thread (the
 * resolver); a sink never prints.
 */
#ifndef SINK_H
#define SINK_H

#include <stdio.h>

#include "base/base.h"
#include "base/err.h"
#include "sample/sample.h"

struct sink;

enum { SINK_BUFFER = 256 * 1024 };

enum sink_needs {
	SINK_NEEDS_NAMES = 1 << 0,  /* native and kernel frames come with names */
	SINK_KEEPS_OLD = 1 << 1,    /* an old file becomes PATH.old, as with perf */
	SINK_NEEDS_READS = 1 << 2,  /* wants the raw remote reads (tape) */
	SINK_NEEDS_IDS = 1 << 3,    /* mapped files come with their build-ids */
	SINK_KNOWS_STACKS = 1 << 4, /* remembers stacks by stack.same */
	SINK_IS_RESULT = 1 << 5,    /* what people read: mode 0666 */
	SINK_IS_BINARY = 1 << 6,    /* no terminal is to get it */
	SINK_IS_LINES = 1 << 7,	    /* a part of it is readable */
};

struct sink_ops {
	const char *name;	       /* --format NAME */
	const char *const *extensions; /* ".folded", NULL-terminated */
	const char *help;
	const char *beside; /* ".FOLDER/FILE": PATH.FOLDER/FILE is written, too; or NULL */
	const char *next;   /* the command that takes PATH next, up to it; or NULL */
	const char *lines;  /* the one that tells its samples by source line; or NULL */
	const char *moved;  /* what comes first on another machine; or NULL */
	unsigned needs;
	size_t priv_size; /* allocated and zeroed by sink_open() */

	/* Called once, before anything else. */
	int (*begin)(struct sink *s, struct err *err);
	/* May be NULL: not interested. 0 or -errno (the output failed). */
	int (*side)(struct sink *s, const struct side *side);
	int (*sample)(struct sink *s, const struct sample *smp, const struct stack *stk);
	/* Everything up to here is in time order and complete. May be NULL. */
	int (*round)(struct sink *s);
	/* Raw material for a tape: @type is enum tape_type. NULL for others. */
	int (*raw)(struct sink *s, unsigned type, struct bytes head, struct bytes body);
	/* Formats that are written whole have these two, or NULL. copy(): write all that is
	 * known so far into @s->out, which may be another file each time, and keep it.
	 * finish(): what is done once before the last copy; may be NULL all the same. */
	int (*copy)(struct sink *s);
	int (*finish)(struct sink *s);
	/* Write what is left; @s->out stays open. Also called after an error, so
	 * that a recording cut short is readable. After the last copy(): free what there is.
	 */
	int (*end)(struct sink *s, struct err *err);
};

struct sink {
	const struct sink_ops *ops;
	const struct session *session; /* borrowed */
	const char *path;	       /* "-" is stdout; NULL: it is no output */
	int folder;		       /* where @path's file is; O_PATH, owned; -1: it has no name */
	FILE *out;		       /* owned */
	char *buffer;		       /* of @out, SINK_BUFFER bytes */
	int fd;			       /* what @out writes to */
	off_t begin;		       /* where our part of that file begins; 0: no file */
	int back;		       /* reads the file that is stdout; owned; -1: none */
	void *priv;
	uint64_t given;	  /* samples of a recording, also after it failed; 0: of a file */
	uint64_t samples; /* written so far; kept by the format */
	uint64_t cut;	  /* samples whose root side the format had no room for */
	int failed;	  /* first -errno of a write, 0 while all is well */
	bool deserted;	  /* who reads the output has stopped: nobody waits again */
	bool is_whole;	  /* the file is a copy, of the first @copied samples */
	uint64_t lacking; /* of sink_taken(), that are not in the file for it has failed */
	uint64_t copied, copy_due, copy_step; /* the latter in ns */
};

/* What one or another of them needs. */
static inline unsigned sinks_need(struct sink *const *s, size_t n)
{
	unsigned needs = 0;

	for (size_t i = 0; i < n; i++)
		needs |= s[i]->ops->needs;
	return needs;
}

/* Where what was written can be read back, if it is a file. */
static inline int sink_readable(const struct sink *s)
{
	return s->back < 0 ? s->fd : s->back;
}

/* How many there were to write. */
static inline uint64_t sink_taken(const struct sink *s)
{
	return MAX(s->given, s->samples);
}

#endif
