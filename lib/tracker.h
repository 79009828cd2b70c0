/* SPDX-License-Identifier: MIT
 *
 * tracker - which processes belong to the recording, and what interpreter each runs:
 * found at attach, taken over at fork, looked for again after exec.
 *
 * Control thread only; what the readers see of it is the table of targets.
 */
#ifndef TRACKER_H
#define TRACKER_H

#include "note.h"
#include "queue.h"
#include "target.h"

struct search;

struct tracker {
	struct targets targets;
	struct search *searches; /* interpreters being looked for */
	size_t n_searches;
	int kick;	    /* eventfd: written to when a search ends */
	struct queue *tape; /* where TAPE_TARGET records go, or NULL */
	struct note note;
};

int tracker_init(struct tracker *t, int kick); /* 0 or -ENOMEM */
void tracker_deinit(struct tracker *t);

/* A process that the user named; waits for the answer. With @any it need not be
 * Python, nor where @follow takes up Python children that it has: then a line says so. 0;
 * -ESRCH, -ENOEXEC, -ENOTSUP, -EACCES ... with a sentence. */
int tracker_root(struct tracker *t, pid_t pid, bool any, bool follow, struct err *err);

/* All its descendants; tracker_settle() waits until each was looked at once. */
int tracker_descendants(struct tracker *t, pid_t pid);
void tracker_settle(struct tracker *t);

/* A new program in @pid (exec, our own child before its exec, a process never seen):
 * looked for from now on. 0 or -ENOMEM. */
int tracker_new(struct tracker *t, pid_t pid);

/* @pid was forked by thread @ptid of @ppid: until it execs it is its parent's copy. */
void tracker_forked(struct tracker *t, pid_t pid, pid_t ppid, pid_t ptid);

void tracker_gone(struct tracker *t, pid_t pid);

/* A read of @pid hangs: its samples are torn until it ends. */
void tracker_quarantine(struct tracker *t, pid_t pid);
void tracker_release(struct tracker *t, pid_t pid);

/* Take up what ended, start what is due. Call often; cheap when nothing is up. */
void tracker_run(struct tracker *t);

/* Queue all known interpreters for a tape. */
void tracker_tape_all(struct tracker *t, struct queue *tape);

#endif
