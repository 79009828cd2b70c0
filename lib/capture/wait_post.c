/* SPDX-License-Identifier: MIT
 *
 * wait_post - what readers pass on to the thread that reads waits.
 */
#include "capture/wait_post.h"

#include <stddef.h>
#include <string.h>

#include "base/nudge.h"

static void tell(struct wait_post *p, const struct cpu_slot *slot,
		 const struct wait_message *m)
{
	size_t n = offsetof(struct wait_message, regs) + 8 * (size_t)m->n_regs;
	void *to = queue_reserve(&p->in[slot->index], 1, n);

	if (!to) {
		atomic_store_explicit(&p->blind, true, memory_order_relaxed);
		return;
	}
	memcpy(to, m, n);
	queue_commit(&p->in[slot->index]);
	if (queue_half_full(&p->in[slot->index]))
		nudge_tid(atomic_load_explicit(&p->tid, memory_order_relaxed));
}

void wait_post_switch(struct wait_post *p, const struct cpu_slot *slot, pid_t pid, pid_t tid,
		      uint64_t time, bool out, bool preempted)
{
	tell(p, slot,
	     &(struct wait_message){ .time = time,
				     .pid = pid,
				     .tid = tid,
				     .type = !out      ? WAIT_MSG_IN :
					     preempted ? WAIT_MSG_PREEMPTED :
							 WAIT_MSG_OUT });
}

void wait_post_regs(struct wait_post *p, const struct cpu_slot *slot, pid_t tid, uint64_t time,
		    const void *regs)
{
	struct wait_message m = {
		.time = time, .tid = tid, .type = WAIT_MSG_REGS, .n_regs = arch_host->n_regs
	};

	memcpy(m.regs, regs, m.n_regs * sizeof(*m.regs));
	tell(p, slot, &m);
}

void wait_post_ended(struct wait_post *p, const struct cpu_slot *slot, pid_t pid, pid_t tid,
		     uint64_t time)
{
	tell(p, slot,
	     &(struct wait_message){
		     .time = time, .pid = pid, .tid = tid, .type = WAIT_MSG_ENDED });
}
