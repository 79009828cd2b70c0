/* SPDX-License-Identifier: MIT
 *
 * scout - where in processes that nobody has looked at an interpreter lies that is known from
 * another process: so that their first samples can be read.
 *
 * A thread of its own looks, for a read can hang. What it says of a process may be outdated by
 * the time of a sample: who uses it looks for the interpreter's build id first.
 */
#ifndef SCOUT_H
#define SCOUT_H

#include "targets/births.h"
#include "remote_mem.h"

struct scout;

/* One of births_known(), and where its code lies. */
struct scout_found {
	uint32_t number; /* from 1 on; 0: none of them */
	raddr at;
};

/* Look at @n processes for what @b knows by now. NULL: no memory. */
struct scout *scout_start(struct births *b, const pid_t *pids, size_t n);

/* What was found in the next process; its place in @pids, or -1: nothing new. */
ssize_t scout_take(struct scout *s, struct scout_found *ret);

/* True: all has been taken. */
bool scout_over(const struct scout *s);

/* A thread that hangs keeps what it needs. NULL is welcome. */
void scout_release(struct scout *s);

#endif
