/* SPDX-License-Identifier: MIT
 *
 * target - the processes being profiled, as reader threads may look at them.
 *
 * The control thread publishes targets in a table that readers look into without a lock. A
 * target that was replaced or has ended is retired: it is freed when no thread that may have
 * found it still can use it (base/epoch.h), but the newest TARGETS_RETIRED are kept, for what
 * they forked may be told of late.
 */
#ifndef TARGET_H
#define TARGET_H

#include <stdatomic.h>

#include "base/epoch.h"
#include "python/pyfind.h"
#include "python/pystack.h"
#include "targets/pace.h"

enum target_state {
	TARGET_PENDING,	    /* its interpreter is being looked for, or will be when it runs */
	TARGET_STARTING,    /* py is what it will be, but not proven: nothing runs in it yet */
	TARGET_PYTHON,	    /* py is valid */
	TARGET_NOPYTHON,    /* looked at: no CPython was mapped by none_ns */
	TARGET_REFUSED,	    /* a CPython that we can't read; why[] tells */
	TARGET_QUARANTINED, /* a read of it hangs: none until that ends */
};

/* A set of threads that may hold more than were put into it: a bit for each some. */
enum { TARGET_RAN_WORDS = 4 };

struct target {
	pid_t pid;
	_Atomic int state;
	/* Its program's exec or its fork; 0: before the recording. A sample from before it, or
	 * the record of a later exec, is another program's. */
	uint64_t begun_ns;
	_Atomic uint64_t none_ns; /* from begun_ns until then it surely had no interpreter */
	_Atomic bool asked;	  /* a reader has asked for another look, which is due */
	_Atomic uint64_t ran[TARGET_RAN_WORDS]; /* target_note_ran() */
	_Atomic(struct target *) next;		/* of the same pid, published in its place */
	/* Of reader_config.paced: samples of it so far, and what its next period is to be
	 * multiplied with, in parts of PACE_ONE; 0: not known yet. */
	_Atomic uint32_t taken, pace;
	struct pace paced;			/* control thread */
	bool inner_tids; /* lives in a PID namespace of its own: its threads have numbers there, */
	pid_t inner;	 /* the first one this; 0: not known */
	uint64_t since_ns;			/* it was there by then */
	_Atomic int pidfd; /* or -ESRCH: it had ended; else -errno: none is held. Owned */
	bool unwatched;	   /* it can't have events; control thread only */
	bool asleep;	   /* not looked at, nor announced, until it runs; control thread */
	/* Forked before the recording, and its threads bear for itself the numbers that they
	 * have here: it may be a copy of a process that is known (program.c). */
	bool plain;
	/* One of births_known(), from 1 on, that the scout saw in it, and where; 0: none. */
	raddr code_at;
	_Atomic uint32_t code_number;
	_Atomic bool unborn; /* a sample of it, or we, came before the record of its fork */
	bool hung;	     /* a person was told */
	bool shunned;	     /* in quarantine for others of its user; control thread */
	int otherwise;	     /* in quarantine: its state without that; control thread */
	uid_t user;	     /* whose it is, or was; PROC_NOBODY: not known; control thread */
	_Atomic bool names_hang; /* a read of its threads' names did not end */
	_Atomic bool nopython;	 /* in quarantine: looked at before, no CPython is mapped */
	_Atomic pid_t forker;	 /* its parent's thread that forked it (inner), 0: not known */
	struct pystack_target py;
	/* Beside py; NULL: nothing. Owned by the tracker, and there until the recording ends.
	 */
	_Atomic(const struct pystack_others *) others;
	_Atomic uint64_t looked_ns; /* when the look began that told of them */
	uint32_t version;	    /* PY_VERSION_HEX */
	raddr runtime;
	size_t n_maps;		 /* when its interpreter was found */
	struct pyfind_code code; /* of the process in which it was proven; control thread */
	uint64_t doubt_ns; /* when to look whether it has ended untold; 0: need not */
	uint64_t doubt_pause_ns;
	uint64_t retired; /* its number, from epoch_retire(); 0: it is published */
	uint32_t holds;	  /* targets_hold(); control thread */
	char why[256];
};

/* Open addressing by pid. A target that was removed leaves TARGET_REMOVED in its place. */
struct target_table {
	struct target_table *older; /* not freed yet */
	uint64_t retired;
	uint32_t used, mask; /* slots that were ever filled; number of slots - 1 */
	_Atomic(struct target *) slot[];
};

enum { TARGETS_RETIRED = 1024 };

struct targets {
	_Atomic(struct target_table *) table;
	struct epoch epoch; /* of targets and tables */
	/* Control thread only: */
	struct target **all; /* every target that is not freed, in the order of publishing */
	size_t n_all, cap_all;
	size_t n; /* how many of them are published */
	size_t n_retired,
		reap_at; /* when so many are retired, targets_reap() does something */
	size_t n_pidfds; /* held, of the published and of ... */
	size_t n_pidfds_retired;
	size_t most_pidfds; /* as the limit was when that many were held */
};

int targets_init(struct targets *t);
void targets_deinit(struct targets *t);

/* The target with @pid, or NULL. A thread other than the control thread is a user of
 * @t->epoch, and inside; the target is there until it leaves. */
struct target *targets_find(struct targets *t, pid_t pid);

/* Call @each for every published target. As targets_find(). */
void targets_each(struct targets *t, void (*each)(void *arg, struct target *target),
		  void *arg);

/* The newest target with @pid, also one that was retired lately, or NULL. Control thread. */
struct target *targets_latest(struct targets *t, pid_t pid);

/* Publish @n targets (owned from now on), all or none; each takes the place of one with its pid.
 * Control thread. 0 or -ENOMEM. */
int targets_publish(struct targets *t, struct target *const *add, size_t n);

/* There is no target with @pid from now on. Control thread. */
void targets_remove(struct targets *t, pid_t pid);

/* A reader met a sample of @t's thread @tid. Any thread. */
static inline void target_note_ran(struct target *t, pid_t tid)
{
	_Atomic uint64_t *word = &t->ran[tid / 64 % TARGET_RAN_WORDS];
	uint64_t bit = 1ull << (tid % 64);

	if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
		atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

/* The threads noted since the last time, into @ran. False: none. One thread. */
bool target_take_ran(struct target *t, uint64_t ran[TARGET_RAN_WORDS]);

/* True: @tid, or a thread that shares its bit, is in @ran. */
static inline bool target_ran(const uint64_t ran[TARGET_RAN_WORDS], pid_t tid)
{
	return ran[tid / 64 % TARGET_RAN_WORDS] >> (tid % 64) & 1;
}

/* Hold a descriptor of @target's process from now on, so that another that takes its number
 * over is told from it. Where descriptors are few, none is held. Control thread. */
void targets_open(struct targets *t, struct target *target);

/* Is @pid the number of another process than it was at @ns, or of none? @t: the target that
 * it was then, or NULL. Without a descriptor of it that is not told of one that began within
 * 20 ms. Any thread, as targets_find(). */
bool target_left(const struct target *t, pid_t pid, uint64_t ns);

/* The same, of one that proc_was_there() says so of, or not. */
bool target_left_if(const struct target *t, bool was_there);

/* A target that is held (+1) is not freed before it is held no more (-1). Control thread. */
static inline void targets_hold(struct target *t, int n)
{
	t->holds += (uint32_t)n;
}

/* Free what can be freed, if that is much. Changes @t->all. Control thread. */
void targets_reap(struct targets *t);

/* A new one; what else is to be known is set before it is published. */
struct target *target_create(pid_t pid);

/* Had the program that was @t, or is one that took its place, surely no interpreter at @time?
 * Any thread. */
bool target_had_none(const struct target *t, uint64_t time);

/* Has a target whose state was @state (read with acquire) the fields of its interpreter,
 * inner_tids and inner among them? Before, the control thread may be writing them. */
static inline bool target_state_learnt(int state)
{
	return state == TARGET_STARTING || state == TARGET_PYTHON ||
	       state == TARGET_QUARANTINED;
}

static inline const struct pystack_others *target_others(const struct target *t)
{
	return atomic_load_explicit(&t->others, memory_order_acquire);
}

#endif
