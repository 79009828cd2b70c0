/* SPDX-License-Identifier: MIT
 *
 * pairs - what two recordings tell of one function, line or file.
 *
 * Files may be called otherwise in the other recording: folded stacks call them as short as their own
 * others allow, and a program may lie in another folder by now (a release, a venv, another host).
 */
#ifndef PAIRS_H
#define PAIRS_H

#include <stddef.h>

enum { PAIRS_A = 1, PAIRS_B = 2 };

struct pair {
	const char *name, *file; /* equal texts have one address */
	double share[2];	 /* self, in parts of all samples */
	int line;		 /* 0 but of a line */
	char kind;		 /* the first letter of tally_row.kind */
	unsigned char sides;	 /* PAIRS_A, PAIRS_B: who has it */
};

/* Those of one name, file, kind and line become one. How many there are then. */
size_t pairs_join(struct pair *p, size_t n);

/* Say which of folded stacks may stand twice. */
void pairs_tell_twice(struct pair *p, size_t n);

/* Python's of a file that only A has become one with those of a file that only B has, and that is
 * called the same but for its folders, where there is one that fits best; and say so. *@n is how many
 * there are then. 0 or -ENOMEM. */
int pairs_join_moved(struct pair *p, size_t *n);

/* Only say that there are such. */
void pairs_tell_moved(struct pair *p, size_t n);

#endif
