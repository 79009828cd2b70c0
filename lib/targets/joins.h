/* SPDX-License-Identifier: MIT
 *
 * joins - processes that fit a scope and are seen while a recording runs: each is looked at,
 * and becomes a target if it runs Python.
 *
 * Where rings tell of all that CPUs run, a reader names who is worth a look: who was sampled
 * and has become another program, or mapped code, since the last one. Else /proc is asked for
 * the processes that were born, and, some at a time, for those that run another program than
 * before. Control thread only.
 */
#ifndef JOINS_H
#define JOINS_H

#include "targets/scope.h"
#include "targets/tracker.h"

struct joins;

/* Whom @strange is told of, with @arg: the parent of each process that was looked at and has not
 * become a target. */
struct joins_listener {
	void (*strange)(void *arg, pid_t parent);
	void *arg;
};

/* @t and @s are borrowed. Before those that fit now are listed: who comes later is new. NULL: no
 * memory. */
struct joins *joins_create(struct tracker *t, const struct scope *s,
			   struct joins_listener listener);
void joins_destroy(struct joins *j);

/* The events are open, which tell of nothing before: who is new is looked at. @told: readers tell
 * from now on; else joins_run() looks into /proc. */
void joins_begin(struct joins *j, bool told);

/* Who forked @pid, by the records or by /proc; -ESRCH: nobody knows. */
pid_t joins_parent(const struct joins *j, pid_t pid);

/* Look at @pid. False: there is no room, ask again later. */
bool joins_look(struct joins *j, pid_t pid);

/* Do what is due; call often. The next process that has become a target, 0: none yet. */
pid_t joins_run(struct joins *j);

/* Milliseconds until joins_run() has something to do by itself, at most @most. */
int joins_due_ms(const struct joins *j, int most);

#endif
