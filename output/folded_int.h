/* SPDX-License-Identifier: MIT
 *
 * folded_int - what folded.c, which adds stacks up, and folded_write.c share, and nobody else sees.
 */
#ifndef FOLDED_INT_H
#define FOLDED_INT_H

#include "base/idmap.h"
#include "buf.h"
#include "comms.h"
#include "folded_names.h"
#include "packed.h"
#include "sink.h"

#define FOLDED_IS_PLACE (1u << 31) /* in an id; ids of names are below */

struct folded {
	/* full: no room for new names and stacks any more (session.memory) */
	struct folded_names names;
	struct strtab *bodies; /* u32 each: names of a stack's frames, root first */
	struct comms comms;
	size_t comm_bytes; /* that names of theirs took */
	struct buf ids;	   /* u32 each: the body that is being made */
	struct buf stacks; /* struct folded_line each, in the order of first sight */
	struct packed packed; /* those of processes that have ended */
	size_t pack_at;	      /* how many lines there are when some are packed next */
	struct buf same;   /* u32 each: a body + 1, by stack.same; 0 is none */
	uint64_t samples[SESSION_MAX_EVENTS];
	uint64_t *share[SESSION_MAX_EVENTS]; /* in copy(): what its lines count, in order */
	uint32_t unknown; /* the name "?" */
	uint32_t *slot;	  /* line + 1, 0 is free */
	size_t n_slots;	  /* a power of two */
	size_t n_renamed; /* lines that have two slots */
	struct idmap untitled; /* thread to its first line, under the kernel's name for it */
};

/* The lines that are not packed, in the order of first sight. */
static inline struct folded_line *folded_line_at(const struct folded *f, size_t i)
{
	return (struct folded_line *)(void *)f->stacks.at + i;
}

static inline size_t folded_n_lines(const struct folded *f)
{
	return f->stacks.n / sizeof(struct folded_line);
}

/* Writes all lines to the sink's file. 0, or -errno. */
int folded_write(struct sink *s);

/* How many of the samples taken no line that is in the file tells of. */
uint64_t folded_lacking(const struct sink *s);

#endif
