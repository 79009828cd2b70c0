/* SPDX-License-Identifier: MIT
 *
 * wait_post - what readers pass on to the thread that reads waits. Wait-free: what has no room
 * is noted in ->blind.
 */
#ifndef WAIT_POST_H
#define WAIT_POST_H

#include "arch/arch.h"
#include "watch/watch.h"

enum wait_message_type {
	WAIT_MSG_OUT = 1,
	WAIT_MSG_PREEMPTED,
	WAIT_MSG_IN,
	WAIT_MSG_REGS,
	WAIT_MSG_ENDED,
	WAIT_MSG_ASLEEP /* by /proc: no reader tells it */
};

struct wait_message {
	uint64_t time;
	pid_t pid, tid;
	uint32_t type;
	uint32_t n_regs;
	uint64_t regs[ARCH_MAX_REGS];
};

struct wait_post {
	struct queue *in;   /* of each CPU's slot, struct wait_message */
	int *poke;	    /* eventfds: each wakes the reader of a CPU's slot */
	_Atomic bool blind; /* one had no room */
	_Atomic pid_t tid;  /* who reads them; nudged when a queue is half full */
};

/* A thread of a target leaves its CPU or comes onto one; it left with these registers; it
 * ends (@pid 0: its process is no target any more). */
void wait_post_switch(struct wait_post *p, const struct cpu_slot *slot, pid_t pid, pid_t tid,
		      uint64_t time, bool out, bool preempted);
void wait_post_regs(struct wait_post *p, const struct cpu_slot *slot, pid_t tid, uint64_t time,
		    const void *regs);
void wait_post_ended(struct wait_post *p, const struct cpu_slot *slot, pid_t pid, pid_t tid,
		     uint64_t time);

#endif
