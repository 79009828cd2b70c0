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
	struct pygil_lock {
		const struct pylayout *l; /* borrowed */
		const struct pywalk_layout *walk;
		raddr at, interp;
		raddr current; /* 3.7 to 3.11: where the runtime says which state runs; else 0
				*/
	} lock[PYGIL_MAX];
	uint32_t n;
};

/* One GIL as it was found. */
struct pygil_look {
	bool known;
	uint64_t holder;   /* number of the thread, for the process itself; 0: nobody has it */
	uint64_t switches; /* grows when another thread takes it; UINT64_MAX: not known */
};

/* Add the GILs of the runtime at @runtime to *@ret, which is empty or has those of other
 * runtimes, and borrows @l and @walk. 0; -ENOTSUP this build has none, or its layout does not
 * tell; -ELOOP more than PYGIL_MAX; or a read error. */
int pygil_add(struct rmem *m, const struct pylayout *l, const struct pywalk_layout *walk,
	      raddr runtime, struct pygil *ret);

/* Look at GIL @i. It changes while one looks, so one look may find nothing that is known:
 * -EAGAIN. 0; -EBADMSG it is not what the layout says; or a read error. */
int pygil_read(struct rmem *m, const struct pygil *gils, uint32_t i, struct pygil_look *ret);

/* Can it be told who has the GIL? False: this build has none, or its layout does not tell. */
bool pygil_tells(const struct pylayout *l);

/* Whether a thread has the GIL. */
enum pygil_has {
	PYGIL_UNKNOWN, /* no layout tells, or it is just being taken or given away */
	PYGIL_HAS,
	PYGIL_HAS_NOT,
};

/* Does the thread state @tstate have its interpreter's GIL? For a reader, while the state's
 * thread is held: then the answer is true of the whole hold, for nobody else takes or drops
 * the GIL in a thread's place. A few small reads, no state of ours. @runtime:
 * pygil_runtime(). */
enum pygil_has pygil_has(struct rmem *m, const struct pylayout *l, raddr runtime,
			 raddr tstate);

/* Is the futex at @at, in which its thread sleeps, one of the GIL that @tstate takes? For a
 * reader, as above. False also where nothing is known. */
bool pygil_sleeps(struct rmem *m, const struct pylayout *l, raddr runtime, raddr tstate,
		  raddr at);

/* Where the runtime is whose interpreters @walk begins with. */
raddr pygil_runtime(const struct pylayout *l, const struct pywalk_layout *walk);

/* True: who sleeps in a futex at @at waits for a GIL. */
bool pygil_waits(const struct pygil *p, raddr at);

#endif
