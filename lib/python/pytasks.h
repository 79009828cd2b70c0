/* SPDX-License-Identifier: MIT
 *
 * pytasks - the asyncio tasks of a Python process.
 *
 * For a thread of ours that may wait, never while one of the target's is held: it takes tens
 * of reads a task. Nothing of what is read is believed: a task is one if its type is, or
 * derives from, C's _asyncio.Task of a size that is known, or if it has the attributes of
 * Python's own; each field must hold what it should. Text is as pynames has it.
 */
#ifndef PYTASKS_H
#define PYTASKS_H

#include "python/pyawait.h"
#include "python/pycode.h"
#include "python/pynames.h"

enum { PYTASKS_MAX = 1 << 16 }; /* tasks that are looked at */

enum pytask_state { PYTASK_RUNNING, PYTASK_WAITING, PYTASK_DONE };

struct pytask {
	raddr at;
	enum pytask_state state;
	bool has_name;	    /* 3.7's have none */
	bool has_coroutine; /* else the one that it had is gone, or no Python function's */
	char name[PYNAME_MAX];
	char coroutine[PYCODE_NAME_MAX];
	struct pyawait chain; /* if has_coroutine */
};

/* Where a task is, and where it is said so: what is there no more may look as it did. */
struct pytask_ref {
	raddr at;
	raddr slot; /* of the pointer to it; from 3.14 on, its place in a list */
};

/* The tasks that there are, to be read one by one. */
struct pytasks {
	struct pytask_ref *task; /* owned */
	size_t n;
	bool cut; /* some were left out: too many, or too little memory */
};

void pytasks_deinit(struct pytasks *t);

/* Can tasks be read in this build? */
bool pytasks_known(const struct pylayout *l);

/* All tasks of all interpreters. 0: they are all, unless @ret says otherwise; -EAGAIN: some
 * came or went meanwhile, and *@ret is what was found; -EBADMSG: where they should be is
 * something else. */
int pytasks_find(struct rmem *m, const struct pylayout *l, raddr runtime, struct pytasks *ret);

/* One task. 0; -ENOENT: it is gone; -ENOTSUP: it is of no type that is known; -EBADMSG: it is
 * in change, or not as it should be; or a read error. @walk is of @l. */
int pytasks_read(struct rmem *m, const struct pylayout *l, const struct pywalk_layout *walk,
		 const struct pytask_ref *at, struct pytask *ret);

/* Is it so still? Then all of it was so between the two reads. */
bool pytasks_same(const struct pytask *a, const struct pytask *b);

#endif
