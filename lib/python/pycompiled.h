/* SPDX-License-Identifier: MIT
 *
 * pycompiled - frames of functions that Nuitka compiled to C.
 *
 * Such a function links a frame into the thread's own, which belongs to a frame object of a
 * type of Nuitka's, so its owner is a generator's. No evaluation loop runs it: nothing of it
 * lies on the C stack, no entry frame or shim is below it, and its instruction stands still.
 */
#ifndef PYCOMPILED_H
#define PYCOMPILED_H

#include "pyframe_walk.h"

/* What is remembered of a program that was walked: where that type is; 0: not met. */
struct pycompiled {
	int program;
	raddr type;
};

/* Is the frame @f, as it was walked, one of those? @linked: and has the thread linked it, so
 * that its predecessor is right? That is counted last. @known: of @program, or changed. */
bool pycompiled_is(struct rmem *m, const struct pylayout *l, const struct pyframe *f,
		   bool linked, int program, struct pycompiled *known);

#endif
