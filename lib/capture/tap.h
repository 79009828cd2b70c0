/* SPDX-License-Identifier: MIT
 *
 * tap - the places at which a reader meets the world, for who listens there: taping.c writes
 * down what the reader is told, a test's player tells it what was written down.
 *
 * All is called on the reader's thread. A reader without a tap (NULL) pays one branch at each
 * place. Remote reads have a place of their own (struct guarded.saw).
 */
#ifndef TAP_H
#define TAP_H

#include <stdint.h>
#include <sys/types.h>

struct pending;
struct reader;
struct tap;
struct target;

/* Why a reader looks through rings. The numbers are on tapes. */
enum tap_look {
	TAP_RAN = 1,	/* has a thread run since? */
	TAP_ALL = 2,	/* what do they say of other programs? */
	TAP_BIRTHS = 3, /* whose child is a process? */
};

/* What a reader asks of who is no ring: the answer is one number. The numbers are on tapes. */
enum tap_answer {
	TAP_CAME = 1,	   /* proof_came() of thread @key */
	TAP_EXECED = 2,	   /* run_table_execed() of process @key */
	TAP_UNWATCHED = 3, /* proof_ran_unwatched() of thread @key */
	TAP_HELD = 4,	   /* handover_held(): the turn, and above it the thread */
	TAP_RELEASED = 5,  /* handover_release() of thread @key */
	TAP_ACCEPTED = 6,  /* handover_accepted() */
	TAP_WITHDRAWN = 7, /* handover_withdraw() */
	TAP_MOVED = 8,	   /* proof_moved() of thread @key */
	TAP_LEFT = 9,	   /* target_left() of process @key */
	TAP_INNER = 10,	   /* the number of thread @key in its own PID namespace */
};

struct tap_ops {
	/* It takes what lies in its ring up to @head. */
	void (*drain)(struct reader *r, uint64_t head, uint64_t shed_left, bool last);
	/* Before and after it looks through unread parts of rings: then its cursors stand
	 * where each look ended, and that in its own ring at @own (0: it was not looked at).
	 */
	void (*look)(struct reader *r, enum tap_look what, pid_t tid);
	void (*looked)(struct reader *r, enum tap_look what, pid_t tid, uint64_t own);
	/* It has found @t, or nothing, in the table of targets. */
	void (*target)(struct reader *r, pid_t pid, const struct target *t);
	/* It was told *@value, which a player changes to what was told then. */
	void (*answer)(struct reader *r, enum tap_answer what, uint64_t key, uint64_t *value);
	/* It has judged @p. */
	void (*judged)(struct reader *r, const struct pending *p);
};

#endif
