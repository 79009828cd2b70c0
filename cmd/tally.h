/* SPDX-License-Identifier: MIT
 *
 * tally - self and total of functions, lines, files, threads, processes or events.
 */
#ifndef TALLY_H
#define TALLY_H

#include "../output/tree.h"
#include "recording.h"

enum tally_by {
	TALLY_FUNCTION,
	TALLY_LINE,
	TALLY_FILE,
	TALLY_THREAD,
	TALLY_PROCESS,
	TALLY_EVENT,
	TALLY_N
};
extern const char *const tally_names[TALLY_N];

struct tally_row {
	const char *name; /* function, thread, process or event; of a file: its kind of code */
	const char *file; /* "" where there is none */
	const char *kind;
	int first; /* line of its function; 0: not known */
	int line; /* that a function begins at, or the line; 0: not known */
	double self, total; /* samples: where they have weights no whole number */
	uint64_t last; /* the row of the tree that it was last counted for */
};

struct tally {
	struct tree tree;
	struct strtab *texts; /* that rows point to; borrowed */
	struct tally_row *rows;
	size_t n, cap;
	uint64_t samples; /* of the event */
	bool python;	  /* rows are of Python frames only */
};

/* Read all of @r and count what @event (an index; -1: all events) says; with @python as if there
 * were Python frames only. All texts are in @texts (NULL: there was no memory for it), so of two
 * recordings equal ones are one. An exit code, not EXIT_DONE after a sentence. To be emptied in any
 * case. */
int tally_read(struct tally *t, struct recording *r, struct strtab *texts, enum tally_by by,
	       bool python, int event);
/* The same of another event of what was @read, whose texts it has. */
int tally_other(struct tally *t, const struct tally *read, const struct session *session,
		enum tally_by by, int event);
void tally_deinit(struct tally *t);

/* @text in @t's texts. NULL: no memory. */
const char *tally_keep(const struct tally *t, const char *text);

/* The @first ones in order: most first, equal ones by name. Others stand behind, in any order. */
void tally_sort(struct tally *t, bool by_total, size_t first);
/* The same of @n @rows of @size bytes, a multiple of 8, in any @order. */
void tally_sort_by(void *rows, size_t n, size_t size, size_t first,
		   int (*order)(const void *, const void *));

#endif
