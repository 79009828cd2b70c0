/* SPDX-License-Identifier: MIT
 *
 * waits_int - what the files of the thread that reads waits share, and nobody else sees: waits.c (the
 * thread and its ticks), waits_told.c (what readers tell), waits_read.c (a stack), waits_list.c
 * (who sleeps, by /proc).
 */
#ifndef WAITS_INT_H
#define WAITS_INT_H

#include <time.h>

#include "base/base.h"
#include "base/clock.h"
#include "capture/reader_int.h"
#include "capture/wait_post.h"
#include "capture/wait_table.h"

struct waits {
	struct reader_config *c;
	struct cpu_slot slot;  /* of no CPU: its queues, its guard, its reader */
	struct wait_post post; /* what readers tell */
	struct queue joined;   /* struct wait_message of the control thread's */
	_Atomic bool stop;
	bool ended;
	_Atomic uint64_t told_ns;
	bool begun;
	uint64_t period_ns, base_ns, start_ns, last_ns;
	struct wait_table table;
	struct wait_message *late; /* that were told and are not dealt with */
	size_t n_late, cap_late;
	uint64_t blind_ns;  /* of the readers' config, at the last tick */
	bool unlisted;	    /* records may be missing: who sleeps is to be listed again */
	uint64_t listed_ns; /* when that began the last time */
	size_t listed, at;  /* so many targets were so far, and which one is next */
	bool short_of_time; /* waits ended unread since the last tick */
	size_t turn;	    /* whose stack is read first */
};

/* CPU time of this thread. */
static inline uint64_t waits_own_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* By a signal or a tracer. */
static inline bool is_stopped(char state)
{
	return state == 'T' || state == 't';
}

/* When a wait began, for outputs: what was before the recording does not count, and there are no
 * maps of that time. What proves that a thread slept needs wait->out. */
static inline uint64_t waits_since(const struct waits *w, const struct wait *wait)
{
	return MAX(wait->out, w->table.since);
}

/* The enum q_wait_state of a wait; @state is the thread's in /proc, 0 if nobody asked. */
uint32_t waits_state(const struct wait *wait, char state);

/* It is over, at @end: queued with what was read, if a tick took it. */
void waits_give(struct waits *w, const struct wait *wait, uint64_t end);

/* A thread leaves its CPU at @time; @over is the wait that ended unnoticed by that. */
void waits_leaves(struct waits *w, pid_t pid, pid_t tid, uint64_t time, bool preempted,
		  struct wait *over);

/* Take in what readers and the control thread have told. False: not all that happened by now. */
bool waits_collect(struct waits *w);

/* What was told of the time until @until; @all that happened. */
void waits_apply_until(struct waits *w, uint64_t until, bool all);

/* Waits of those that are no targets any more end. */
void waits_end_strangers(struct waits *w, uint64_t at);

/* Read the stacks of those that were taken and are not read, of such whose beginning we know
 * (@fresh) or of the others, until this thread has used @until ns of CPU time. */
void waits_read_some(struct waits *w, bool fresh, uint64_t until);

/* A ring or a queue may have had no room for some record: what is known is doubtful. */
void waits_doubt(struct waits *w);

/* End the doubtful waits of threads that are gone, until this thread has used @until ns. */
void waits_settle_some(struct waits *w, uint64_t until);

/* Who sleeps when the recording begins. */
void waits_list(struct waits *w);

/* Find those that sleep and are not known to, once a second at most, until @until as above. */
void waits_list_again(struct waits *w, uint64_t until);

#endif
