/* SPDX-License-Identifier: MIT
 *
 * sources - the lines of Python files around those that were sampled, for a page that shows
 * them with their shares.
 *
 * A target chose the paths. A file is read in a thread that may hang, up to 2 MB of it, if it
 * is a regular one and no program serves its file system (mounts.h); and where we are root
 * or have rights of root's to read files, only one that everybody may read (rootfile.h).
 */
#ifndef OUTPUT_SOURCES_H
#define OUTPUT_SOURCES_H

#include "tree.h"

/* A JSON object, malloc'ed: of each absolute path of a Python function its parts,
 * {"parts":[[FIRST,"line\nline\n"],...]}, or {"why":"..."} there are none. "changed" is there
 * where the file is younger than @since (seconds of the epoch; 0: not known). @elsewhere: the
 * paths are not ours. NULL: no memory. */
char *sources_read(const struct tree *t, int64_t since, bool elsewhere);

#endif
