/* SPDX-License-Identifier: MIT
 *
 * pyfind_types - does the layout say what the process's own types say?
 */
#ifndef PYFIND_TYPES_H
#define PYFIND_TYPES_H

#include "base/err.h"
#include "offsets/pylayout.h"
#include "remote_mem.h"

/* Compares @l with the types of the code object at @code, of its name and its line table, of
 * types, and up to 3.10 of the frame at @frame. What a type does not tell is not compared.
 * Types never change, so the process may run meanwhile. 0, or -EBADMSG with a sentence. */
int pyfind_types(struct rmem *m, const struct pylayout *l, raddr code, raddr frame,
		 struct err *err);

#endif
