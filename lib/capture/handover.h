/* SPDX-License-Identifier: MIT
 *
 * handover - the tracer gives a reader a thread that it holds stopped, and waits for it
 * back. One of them a CPU; the tracer is one thread.
 *
 * The tracer does not wait for ever: a read can hang, and a thread is never left stopped
 * for that. Who is first, reader or tracer, ends the hold; the other one learns it.
 */
#ifndef HANDOVER_H
#define HANDOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../arch/arch.h"

struct handover {
	int posted;	       /* eventfd: the reader wakes up by it */
	_Atomic uint32_t turn; /* odd: the reader's */
	/* ns: the reader wants none before; the tracer sets it back to 0 when threads are
	 * stopped again. */
	_Atomic uint64_t quiet_until;
	_Atomic uint64_t since; /* ns: samples before it may have stopped nobody */
	pid_t tid;
	uint64_t regs[ARCH_MAX_REGS]; /* as in a sample: arch_host->perf_regs */
};

int handover_init(struct handover *h); /* 0 or -errno */
void handover_deinit(struct handover *h);

/* Tracer: @tid is stopped with the registers in @h->regs. Returns when the reader has given
 * it back, or after 20 ms; then the thread may run. */
void handover_give(struct handover *h, pid_t tid);

/* Reader: the thread that is held for us into *@tid; the result is what
 * handover_release() wants, 0: none is held. */
uint32_t handover_held(const struct handover *h, pid_t *tid);

/* Reader: done. True: the thread was held until now. */
bool handover_release(struct handover *h, uint32_t turn);

#endif
