/* SPDX-License-Identifier: MIT
 *
 * ask - what /proc says of a process, by a thread that may hang.
 *
 * A process can have whoever looks at it wait for as long as it likes: while it changes its maps,
 * or execve() takes its old ones away, the kernel holds a lock of its memory, and may wait for a
 * FUSE server meanwhile. Such a look ends by SIGKILL only. A thread that must not hang has
 * another one look, and leaves that behind when it does not come back.
 */
#ifndef ASK_H
#define ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/note.h"

/* One look at a file of a process. */
struct ask {
	ssize_t (*look)(struct ask *a); /* what it returns is what ask_look() does */
	char path[100];
	bool (*is_whole)(const char *text, size_t n); /* for @look */
	char *text;				      /* found: malloc'ed, or NULL */
	size_t n;
	struct stat st; /* found */
};

/* From now on this thread does not hang: other looks than those at its own process are left
 * behind after a moment, which @note, or NULL, is told once a process. Until ask_end() was called
 * as often. */
void ask_begin(const struct note *note);
void ask_end(void);

/* @a->look(@a); or -ETIMEDOUT: it hangs, or an earlier one at the same process still does. Of a
 * thread that may hang, or a path that leads to no process, it is a call. */
ssize_t ask_look(struct ask *a);

/* The same of each of @n; @ret[i]: what that of @a[i] is. They cost little more than one. */
void ask_look_each(struct ask *a, size_t n, ssize_t *ret);

#endif
