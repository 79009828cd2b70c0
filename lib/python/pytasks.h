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
	size_t n, cap;
	bool cut; /* some were left out: too many, or too little memory */
};

void pytasks_deinit(struct pytasks *t);

/* True: tasks can be read in this build, if it tells where its lists of them are. */
bool pytasks_known(const struct pylayout *l);

/* From 3.14 on, each thread state has a list of tasks, and each interpreter one of those whose
 * threads have ended. Offsets in these. */
struct tasklists {
	uint32_t in_interp, in_tstate;
	uint32_t running; /* in the thread state: the task that runs, or NULL */
};

/* The same for all interpreters of a program; @interp is one that has asyncio. 0; -ENOENT: it
 * has not imported it; -ENOTSUP: it tells nothing, or tells of another build; -EBADMSG; or a
 * read error. */
int pytasks_lists(struct rmem *m, const struct pylayout *l, raddr interp,
		  struct tasklists *ret);

/* All tasks of all interpreters. 0: they are all, unless @ret says otherwise; -EAGAIN: some
 * came or went meanwhile, and *@ret is what was found; -EBADMSG: where they should be is
 * something else; -ENOTSUP: as pytasks_lists(). */
int pytasks_find(struct rmem *m, const struct pylayout *l, raddr runtime, struct pytasks *ret);

/* One task. 0; -ENOENT: it is gone; -ENOTSUP: it is of no type that is known; -EBADMSG: it is
 * in change, or not as it should be; or a read error. @walk is of @l. */
int pytasks_read(struct rmem *m, const struct pylayout *l, const struct pywalk_layout *walk,
		 const struct pytask_ref *at, struct pytask *ret);

/* The task at @at, of a thread that is held, so that none of it changes. As above. */
int pytasks_read_held(struct rmem *m, const struct pylayout *l,
		      const struct pywalk_layout *walk, raddr at, struct pytask *ret);

/* Where the running tasks of an interpreter are told, as it was found. */
struct pytasks_place {
	int program;
	raddr interp, keys; /* of its modules; */
	uint32_t n;	    /* as many: no module came since */
	int found;	    /* 1; -ENOENT: there is no asyncio; -ENOTSUP */
	raddr dict;	    /* up to 3.13, by event loops */
	struct tasklists lists;
};

/* The tasks that run in the interpreter of the thread state @ts: from 3.14 on in that thread,
 * before in any. @place: zeroed at first, of @program. How many, at most @cap; -ENOTSUP: as
 * pytasks_lists(); or another -errno. */
int pytasks_running(struct rmem *m, const struct pylayout *l, raddr ts, int program,
		    struct pytasks_place *place, raddr ret[], uint32_t cap);

/* What the object at @at is: C's Task or Future, or what derives from these. */
enum pytasks_kind { PYTASKS_OTHER, PYTASKS_FUTURE, PYTASKS_TASK };
enum pytasks_kind pytasks_kind(struct rmem *m, const struct pylayout *l, raddr at);

/* True: it was read twice as the same, so all of it was so between the two reads. */
bool pytasks_same(const struct pytask *a, const struct pytask *b);

#endif
