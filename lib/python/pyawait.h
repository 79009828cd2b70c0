/* SPDX-License-Identifier: MIT
 *
 * pyawait - what a coroutine waits for: from one coroutine to the next that it awaits.
 *
 * Of a process that runs meanwhile. What is found counts if it is found twice: then all of it
 * was so at the moment between (but for what left and came back to the very same place).
 */
#ifndef PYAWAIT_H
#define PYAWAIT_H

#include "pyframe_walk.h"

enum { PYAWAIT_MAX = 1024 }; /* frames of a chain */

enum pyawait_state {
	PYAWAIT_WAITS, /* it is suspended, or has not begun */
	PYAWAIT_RUNS,
	PYAWAIT_ENDED,
};

struct pyawait {
	enum pyawait_state state; /* of the first coroutine */
	raddr runs;		  /* its frame, while it runs */
	uint32_t n;
	struct pyframe frame[PYAWAIT_MAX]; /* while it waits: outermost first */
};

/* True: chains can be read in this build. */
bool pyawait_known(const struct pylayout *l);

/* The chain from the coroutine (or generator) at @coro on. 0; -EBADMSG: that is none, or it is
 * in change, or goes in a circle, or is longer than PYAWAIT_MAX; or a read error. @walk is of
 * @l. */
int pyawait_read(struct rmem *m, const struct pylayout *l, const struct pywalk_layout *walk,
		 raddr coro, struct pyawait *ret);

/* True: it is so still. */
bool pyawait_same(const struct pyawait *a, const struct pyawait *b);

/* Of a frame of a stack, up to 3.10. True: throw() has linked it, and goes on in what it awaits.
 * It does not run then, and no evaluation loop is its own. 3.9 and 3.10.0 to 3.10.5 link it to
 * no other frame, although the stack goes on with who called throw(). */
bool pyawait_throws(struct rmem *m, const struct pylayout *l, const struct pyframe *f);

/* The __qualname__ of the coroutine at @coro. 0, -EBADMSG or a read error. */
int pyawait_qualname(struct rmem *m, const struct pylayout *l, raddr coro, char *buf,
		     size_t cap);

#endif
