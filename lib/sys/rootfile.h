/* SPDX-License-Identifier: MIT
 *
 * rootfile - regular files as a process sees them: in a container or not. Never opens a FIFO
 * or a device; may hang on a dead mount (later.h).
 */
#ifndef ROOTFILE_H
#define ROOTFILE_H

#include <sys/types.h>

/* The root folder of @pid, which the descriptor keeps when the process has gone; -errno. */
int rootfile_root(pid_t pid);

/* Open @path for reading below @root: what its links and ".." name, as a process with that
 * root would find it. @root -1: ours. A descriptor; -EINVAL: not a regular file, or
 * empty; -errno. */
int rootfile_open(int root, const char *path);
/* The same, but it is not opened: an O_PATH descriptor. */
int rootfile_look(int root, const char *path);

/* Open @path below our root for reading if everybody may: search each folder on the way, and read
 * the file. What /proc has links for is found by their texts, so not in another's root. As
 * rootfile_open(), or -EACCES. */
int rootfile_open_public(const char *path);

/* Up to @n bytes of @fd and a NUL, malloc'ed. NULL: no memory. */
char *rootfile_text(int fd, size_t n);

#endif
