/* SPDX-License-Identifier: MIT
 *
 * short_files - the short names of Python files: what stands behind the folder of a Python
 * installation's library or packages, or else the file's own name. Files whose short names
 * would be one are shown with as many folders as tell them apart.
 *
 * Only the text of the paths decides: no file that a target names is looked at.
 */
#ifndef OUTPUT_SHORT_FILES_H
#define OUTPUT_SHORT_FILES_H

#include <stddef.h>

/* What stands behind the innermost folder of a Python installation's library or packages, as the
 * end of @whole; NULL: it lies in none. */
const char *short_files_library(const char *whole);

/* The name that a file has when no other has the same, as the end of @whole. */
const char *short_files_shortest(const char *whole);

/* The short name of each of the @n files, which differ: in @name, as the end of the file's own
 * text. They differ, too, and do not depend on the order of @file. 0 or -ENOMEM. */
int short_files(const char *const *file, size_t n, const char **name);

#endif
