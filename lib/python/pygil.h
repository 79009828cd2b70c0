/* SPDX-License-Identifier: MIT
 *
 * pygil - who holds the GIL, and where those sleep that wait for it.
 *
 * Each look proves what it says: the holder is a thread state of an interpreter with this GIL,
 * and the interpreter says, elsewhere, that this state is the one that runs. What can't be
 * proven is not known.
 */
#ifndef PYGIL_H
#define PYGIL_H

#include "pyframe_walk.h"

enum { PYGIL_MAX = 16 }; /* GILs of a process that are looked at */

/* Where a process keeps them. */
struct pygil {
	const struct pylayout *l; /* borrowed */
	const struct pywalk_layout *walk;
	raddr current; /* 3.7 to 3.11: where the runtime says which state runs; else 0 */
	struct pygil_lock {
		raddr at, interp;
	} lock[PYGIL_MAX];
	uint32_t n;
};

/* One GIL as it was found. */
struct pygil_look {
	bool known;
	uint64_t holder;   /* number of the thread, for the process itself; 0: nobody has it */
	uint64_t switches; /* grows when another thread takes it; UINT64_MAX: not known */
};

/* The GILs of the process with the runtime at @runtime. *@ret borrows @l and @walk. 0;
 * -ENOTSUP this build has none, or its layout does not tell; -ELOOP more than PYGIL_MAX; or a
 * read error. */
int pygil_find(struct rmem *m, const struct pylayout *l, const struct pywalk_layout *walk,
	       raddr runtime, struct pygil *ret);

/* Look at GIL @i. It changes while one looks, so one look may find nothing that is known:
 * -EAGAIN. 0; -EBADMSG it is not what the layout says; or a read error. */
int pygil_read(struct rmem *m, const struct pygil *p, uint32_t i, struct pygil_look *ret);

/* Does who sleeps in a futex at @at wait for a GIL? */
bool pygil_waits(const struct pygil *p, raddr at);

#endif
