/* SPDX-License-Identifier: MIT
 *
 * program - finds the program of "-- CMD", before anything is done for it.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

/* What execvp(3) will say of @name: 0, or -errno. A script's interpreter is looked for too. */
int program_find(const char *name);

/* "python3 " where @name is a script that does not run by itself, else "". */
const char *program_python(const char *name);

#endif
