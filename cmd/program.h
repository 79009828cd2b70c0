/* SPDX-License-Identifier: MIT
 *
 * program - finds the program of "-- CMD", before anything is done for it.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "base/err.h"

/* What execvp(3) will say of @name: 0, or -errno with a clause. The interpreter of a script and
 * the dynamic linker of a program are looked for, too. @err may be NULL. */
int program_find(const char *name, struct err *err);

/* "python3 " where @name is a script that does not run by itself, else "". */
const char *program_python(const char *name);

#endif
