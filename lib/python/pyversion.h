/* SPDX-License-Identifier: MIT
 *
 * pyversion - which version a Python says that it is: sys.hexversion.
 */
#ifndef PYVERSION_H
#define PYVERSION_H

#include "python/pyfind.h"

/* sys.hexversion of the process, read as @p->layout has it. 0; -ENOENT: it is not there yet,
 * or this layout does not tell where; or an error of pydict_read(). */
int pyversion_told(const struct pyproc *p, struct rmem *m, uint32_t *ret);

/* For a file that does not tell its version: the one table up to 3.12 that the self-check
 * accepts of the process and that has the version which the process tells. Sets @p->layout and
 * @p->version. 0; -EAGAIN: its Python is starting or ending, none can be told from others yet;
 * -ENOENT: there is none. */
int pyversion_find(struct pyproc *p, struct rmem *m);

#endif
