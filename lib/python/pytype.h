/* SPDX-License-Identifier: MIT
 *
 * pytype - what types are called. Of a process that may run: nothing of it is believed.
 */
#ifndef PYTYPE_H
#define PYTYPE_H

#include "offsets/pylayout.h"
#include "remote_mem.h"

enum {
	/* Behind a type's head: tp_basicsize, in 2.7 to 3.15 the same, and tp_base, in 3.7 to
	 * 3.15. */
	PYTYPE_BASICSIZE = 16,
	PYTYPE_BASE = 240,
	PYTYPE_BASES = 16, /* that are followed, each from the one before */
};

/* True: the type at @type is called @name, which has up to 31 bytes. */
bool pytype_is_called(struct rmem *m, const struct pylayout *l, raddr type, const char *name);

/* True: so is the type of the object at @object. */
bool pytype_is_a(struct rmem *m, const struct pylayout *l, raddr object, const char *name);

#endif
