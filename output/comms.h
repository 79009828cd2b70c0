/* SPDX-License-Identifier: MIT
 *
 * comms - what processes and threads are called, for outputs that write names: it follows the
 * records of names, forks and ends.
 *
 * Names are numbers that the output gives them. What has ended is forgotten, so that memory
 * grows with what lives, but only when others have ended after it: its last samples may be
 * younger than the record of its end. Resolver's thread.
 */
#ifndef OUTPUT_COMMS_H
#define OUTPUT_COMMS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/idmap.h"
#include "sample/sample.h"

enum { COMMS_ENDED = 512 }; /* threads and processes that have ended and keep their names */

struct comms {
	struct idmap
		names; /* thread to the kernel's name for it; a process's is its leader's */
	struct idmap titles;  /* thread to what the program calls it */
	struct idmap threads; /* process to its threads but the leader, of those in @names */
	struct idmap left;    /* who has ended, to the place in @ended */
	struct {
		pid_t pid, tid;
	} ended[COMMS_ENDED];
	uint32_t n_ended; /* ever */
};

void comms_deinit(struct comms *c);
size_t comms_bytes(const struct comms *c); /* that it takes */

/* Forget all. */
void comms_clear(struct comms *c);

/* Take in what happened; @name is the number of @side's name if it is a SIDE_COMM. 0 or
 * -ENOMEM. */
int comms_side(struct comms *c, const struct side *side, uint32_t name);

/* The name of the process or thread @tid, or IDMAP_NONE. */
uint32_t comms_name(const struct comms *c, pid_t tid);
/* What the program calls it; else as comms_name(). */
uint32_t comms_title(const struct comms *c, pid_t tid);

/* Does @side say what a process of a recording that goes on runs, one that has files of its own
 * (proc_is_elsewhere())? A process that gives itself name after name is not looked at for each.
 */
bool comms_elsewhere(const struct session *session, const struct side *side);

#endif
