/* SPDX-License-Identifier: MIT
 *
 * pyfields - what each field of a layout is called in CPython's debug info, and a layout made
 * of what that says.
 *
 * Pure. The rows are those of tools/mklayout.py, which prints tables from them.
 */
#ifndef PYFIELDS_H
#define PYFIELDS_H

#include "offsets/pylayout.h"

enum pyfield_kind {
	PYFIELD_OFFSET,	  /* of the member, in bytes, and @add more */
	PYFIELD_SIZE,	  /* of the type */
	PYFIELD_BIT,	  /* where the member begins in the member @word */
	PYFIELD_CONSTANT, /* what the enumerator @member is */
};

struct pyfield {
	const char *name;	    /* "frame.code" */
	const char *type;	    /* a typedef, or a struct's own name */
	const char *member, *word;  /* "interpreters.head" */
	uint8_t first, last;	    /* minor versions of 3 that have it so; 0: 2.7 */
	uint8_t builds;		    /* which builds have it so: enum pyfield_builds */
	uint8_t kind, add;	    /* enum pyfield_kind */
	uint16_t at, size;	    /* of the field in struct pylayout */
	bool offset;		    /* that is a pyoff, else a number */
};

enum pyfield_builds { PYFIELD_ANY, PYFIELD_WITH_GIL, PYFIELD_WITHOUT_GIL };

enum { PYFIELD_MAX = 192 };

/* What the debug info says of each row, plus one; 0: nothing, or it was not asked. */
struct pyfield_values {
	uint32_t plus1[PYFIELD_MAX];
};

/* All rows; *@n is their number, PYFIELD_MAX at most. */
const struct pyfield *pyfield_all(size_t *n);

/* True: a build of @version (0x030c for 3.12) has this row. */
bool pyfield_is_of(const struct pyfield *f, uint16_t version, bool free_threaded);

/* @ret = what @values say of @version; what debug info does not tell is as in @meanings. Of a
 * version without a table those are another's, so what only they know is absent. 0; -EBADMSG
 * with a sentence: a number is missing, or pylayout_check() refuses it. */
int pyfield_layout(const struct pyfield_values *values, uint16_t version,
		   const struct pylayout *meanings, struct pylayout *ret, struct err *err);

#endif
