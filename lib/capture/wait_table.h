/* SPDX-License-Identifier: MIT
 *
 * wait_table - which threads are off their CPU, since when, and what their waits stand for.
 * Pure: told of switches and of ticks, in the order of time.
 *
 * Ticks come at random distances. A wait is *taken* if a tick falls into it, so with a
 * probability proportional to its length, and stands for the distance of each such tick from
 * the one before: in the mean that is its length. One that is longer than the longest distance
 * is always taken, and stands for just its length.
 */
#ifndef WAIT_TABLE_H
#define WAIT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/idmap.h"

enum { WAIT_REGS = 40 };

struct wait {
	pid_t pid, tid;
	bool asleep;	/* off its CPU since @out; else the rest says nothing */
	bool preempted; /* it did not want to leave */
	bool ended;	/* at @in, and forgotten a second later */
	bool tried;	/* reading its stack has begun: the caller's */
	bool read;	/* its stack is known: the caller's */
	bool late;	/* it may have run before it was read: the caller's */
	bool doubtful;	/* a record of its end may be missing: the caller's */
	bool strange;	/* its process was no target at the last tick: the caller's */
	bool regs_known;
	uint32_t ticks; /* that fell into it */
	uint64_t out;
	uint64_t began;		  /* @out, but before the first wait_table_anew() */
	uint64_t given;		  /* what it stood for until the last one, ns */
	uint64_t regs_ns;	  /* when the registers were those of @regs; 0: not known */
	uint64_t in;		  /* when it came onto a CPU last; 0: not seen */
	uint64_t weight;	  /* the distances of those ticks, ns */
	uint64_t regs[WAIT_REGS]; /* of the user mode that it left, if they are known */
};

struct wait_table {
	struct idmap by_tid;
	struct wait *all;
	size_t n, cap;
	uint64_t longest; /* between two ticks so far */
	uint64_t since;	  /* what was before does not count */
};

void wait_table_deinit(struct wait_table *t);

/* Thread @tid of @pid (0: not known) has an entry, awake if it had none. NULL: no memory. */
struct wait *wait_table_know(struct wait_table *t, pid_t pid, pid_t tid);

/* Its entry; NULL: as far as is known it does not sleep. */
const struct wait *wait_table_asleep(const struct wait_table *t, pid_t tid);

/* Thread @tid leaves its CPU at @time. *@over: the wait that it was in, as far as was known;
 * ->ticks 0: none. NULL: no memory. */
struct wait *wait_table_out(struct wait_table *t, pid_t pid, pid_t tid, uint64_t time,
			    bool preempted, struct wait *over);

/* Thread @tid is about to leave its CPU with these registers. */
void wait_table_regs(struct wait_table *t, pid_t tid, uint64_t time, const uint64_t *regs,
		     size_t n);

/* It comes onto one, or @ended: its last wait, into *@over. Of who is known, older leavings that
 * are told later do not count; a newer one is, behind an end, of another thread with that
 * number. */
void wait_table_in(struct wait_table *t, pid_t tid, uint64_t time, bool ended,
		   struct wait *over);

/* A tick at @time, @distance behind the last one. How many are taken by it. */
size_t wait_table_tick(struct wait_table *t, uint64_t time, uint64_t distance);

/* @w, which sleeps, counts as another wait since @time, of which nothing older is known; *@over: as
 * it was until then. Both together stand for what it stood for. */
void wait_table_anew(const struct wait_table *t, struct wait *w, uint64_t time, struct wait *over);

/* What a wait that ended at @end stands for, ns; 0: it was not taken. */
uint64_t wait_table_weight(const struct wait_table *t, const struct wait *w, uint64_t end);

#endif
