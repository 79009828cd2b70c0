/* SPDX-License-Identifier: MIT
 *
 * lookup - a process that the user named: what is it, and do it or its children run Python?
 *
 * All commands ask here, so that all say the same. Nothing here hangs: what reads memory is a
 * probe.
 */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "base/stop.h"
#include "targets/probe.h"

struct lookup {
	struct probers *crew; /* as of probe_start(), and: */
	int kick;
	struct file_helper *files;
	int wait_ms; /* for the memory of @pid to be read */
	bool any;    /* a process without Python is welcome, and its children are not asked */
	const struct stop *stop; /* once it is asked for nothing is waited for; or NULL */
	bool children;		 /* without Python it will do with children that have one */
	/* What was found. */
	uint64_t began;	      /* probe_began() of the look at @pid itself */
	struct pyproc python; /* of @pid itself, if it is one */
	struct pyproc *child; /* else of its children, theirs and so on; malloc'ed */
	size_t n_child, cap_child; /* one whose version is 0 has only begun to start */
	/* A CPython is mapped that has not begun, or is ending. */
	bool starts;
	struct probe *hanging; /* the caller's */
};

enum { LOOKUP_WRAPPER = 1 };

/* Fill the lower half of @l. 0: ->python. LOOKUP_WRAPPER: it runs no Python, but has those
 * in ->child. -EINPROGRESS: reading its memory takes too long, or ->stop was asked for, and
 * ->hanging still tries. Else
 * with a sentence: -ESRCH it is not there, has ended or is a thread; -ENOEXEC it is no
 * Python and has no Python children, also where it is the kernel's; or as pyfind(). A process
 * that was born within the last second gets that second to become one. */
int lookup(struct lookup *l, pid_t pid, struct err *err);

/* "12, 13, 14 and 2 more": the processes in ->child. */
const char *lookup_list(const struct lookup *l, char *to, size_t size);

#endif
