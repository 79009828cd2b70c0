/* SPDX-License-Identifier: MIT
 *
 * target - the processes being profiled, as reader threads may look at them.
 *
 * The control thread makes targets and publishes immutable tables of them by one
 * atomic pointer; readers look up and never lock. Only a target's state changes
 * in place. Old tables live until targets_deinit().
 */
#ifndef TARGET_H
#define TARGET_H

#include <stdatomic.h>

#include "python/pyfind.h"
#include "python/pystack.h"

enum target_state {
	TARGET_PENDING,	    /* its interpreter is being looked for, or will be when it runs */
	TARGET_STARTING,    /* py is what it will be, but not proven: nothing runs in it yet */
	TARGET_PYTHON,	    /* py is valid */
	TARGET_NOPYTHON,    /* looked at: no CPython was mapped by none_ns */
	TARGET_REFUSED,	    /* a CPython that we can't read; why[] tells */
	TARGET_QUARANTINED, /* a read of it hangs: none until that ends */
};

struct target {
	pid_t pid;
	_Atomic int state;
	/* Its program's exec or its fork; 0: before the recording. A sample from before it, or
	 * the record of a later exec, is another program's. */
	uint64_t begun_ns;
	_Atomic uint64_t none_ns; /* from begun_ns until then it surely had no interpreter */
	_Atomic bool asked;	  /* a reader has asked for another look, which is due */
	_Atomic(struct target *) next; /* of the same pid, published in its place */
	bool inner_tids;	       /* lives in a PID namespace of its own */
	uint64_t since_ns;	       /* it was there by then */
	bool unwatched;		       /* it can't have events; control thread only */
	bool asleep; /* not looked at, nor announced, until it runs; control thread */
	/* Forked before the recording, and its threads bear for itself the numbers that they
	 * have here: it may be a copy of a process that is known (program.c). */
	bool plain;
	/* One of births_known(), from 1 on, that the scout saw in it, and where; 0: none. */
	raddr code_at;
	_Atomic uint32_t code_number;
	_Atomic bool unborn;   /* a sample of it, or we, came before the record of its fork */
	bool hung;	       /* a person was told */
	_Atomic bool nopython; /* in quarantine: looked at before, no CPython is mapped */
	_Atomic pid_t forker;  /* its parent's thread that forked it (inner), 0: not known */
	struct pystack_target py;
	uint32_t version; /* PY_VERSION_HEX */
	raddr runtime;
	struct pyfind_code code; /* of the process in which it was proven; control thread */
	uint64_t slept_user, slept_kernel; /* recorder_wakes() */
	char why[256];
	/* inner_tids only: (outer, inner) pairs, sorted by outer. */
	size_t n_tids;
	struct {
		pid_t outer, inner;
	} * tids;
};

struct target_table {
	struct target_table *older; /* for targets_deinit() */
	uint32_t n, mask;
	struct target **slot; /* open addressing by pid */
};

struct targets {
	_Atomic(struct target_table *) table;
	struct target **all; /* every target ever made; control thread only */
	size_t n_all;
};

int targets_init(struct targets *t);
void targets_deinit(struct targets *t);

/* The target with @pid, or NULL. Any thread. */
struct target *targets_find(struct targets *t, pid_t pid);

/* The newest target with @pid, also one that is not published any more, or NULL. Control
 * thread. */
struct target *targets_latest(struct targets *t, pid_t pid);

/* Publish @add (owned from now on), replacing a target of the same pid, or with
 * @add NULL remove @pid. Control thread. 0 or -ENOMEM. */
int targets_publish(struct targets *t, pid_t pid, struct target *add);

/* Publish @n targets (owned from now on), whose pids are not published, by one table. Control
 * thread. 0 or -ENOMEM. */
int targets_publish_new(struct targets *t, struct target *const *add, size_t n);

/* A new one; what else is to be known is set before it is published. */
struct target *target_create(pid_t pid);

/* Had the program that was @t, or is one that took its place, surely no interpreter at @time?
 * Any thread. */
bool target_had_none(const struct target *t, uint64_t time);

/* Has a target whose state was @state (read with acquire) the fields of its interpreter,
 * inner_tids and tids among them? Before, the control thread may be writing them. */
static inline bool target_state_learnt(int state)
{
	return state == TARGET_STARTING || state == TARGET_PYTHON ||
	       state == TARGET_QUARANTINED;
}

/* @tid as the target itself numbers it; 0: not known yet. */
pid_t target_inner_tid(const struct target *t, pid_t tid);

#endif
