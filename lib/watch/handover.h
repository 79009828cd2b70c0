/* SPDX-License-Identifier: MIT
 *
 * handover - the tracer gives a reader a thread that it holds stopped, and waits for it
 * back. One of them a CPU; the tracer is one thread.
 *
 * A reader that has read a thread before its stop offers that read. The tracer accepts it with
 * the registers of the stop and lets the thread run on at once: if they are the sample's, the
 * thread has not run in between. One atomic word says who has the offer.
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

#include "arch/arch.h"

static const uint64_t HANDOVER_ACCEPTED = UINT64_C(1) << 63;

struct handover {
	int posted;	       /* eventfd: the reader wakes up by it */
	_Atomic uint32_t turn; /* odd: the reader's */
	/* ns: the reader wants none before; the tracer sets it back to 0 when threads are
	 * stopped again. */
	_Atomic uint64_t quiet_until;
	_Atomic uint64_t since; /* ns: samples before it may have stopped nobody */
	_Atomic pid_t untaken;	/* a thread that did not stop for its sample; 0: none did not */
	_Atomic pid_t tid;	/* whose turn it is; a reader may look too early, in vain */
	/* As in a sample: arch_host->perf_regs. Each is stored and loaded as an atomic. */
	uint64_t regs[ARCH_MAX_REGS];
	uint64_t ran_on_ns; /* when it was let go last: older samples are of another stop */
	int cpu;	    /* where the reader runs */

	/* A read without its stop: the thread, and above it a number that makes it unique; the
	 * tracer adds HANDOVER_ACCEPTED. 0: none is offered. */
	_Atomic uint64_t offer;
	uint32_t n_offers;		       /* the reader's */
	uint64_t accepted_regs[ARCH_MAX_REGS]; /* the tracer's until it has accepted */
	uint64_t accepted_ran_on_ns;
	uint64_t accepted_ns; /* when the thread was about to run on */
};

int handover_init(struct handover *h, int cpu); /* 0 or -errno */
void handover_deinit(struct handover *h);

/* Tracer: @tid is stopped with the registers in @h->regs, since @h->ran_on_ns for the first
 * time. Returns when the reader has given it back or offered its read, or after 20 ms; then
 * the thread may run. */
void handover_give(struct handover *h, pid_t tid);

/* Reader: the thread that is held for us into *@tid; the result is what
 * handover_release() wants, 0: none is held. */
uint32_t handover_held(const struct handover *h, pid_t *tid);

/* Reader: the registers of whom is held into @regs; the result is @h->ran_on_ns. The tracer may
 * put another's there meanwhile: then handover_release() says that nobody was held. */
uint64_t handover_registers(const struct handover *h, uint64_t regs[static ARCH_MAX_REGS]);

/* Reader: done. True: the thread was held until now. */
bool handover_release(struct handover *h, uint32_t turn);

/* Reader, who has no offer out: @tid was read, after its sample and before now. */
void handover_offer(struct handover *h, pid_t tid);

/* Reader: has the tracer accepted the offer? Then all of @h->accepted_ are the reader's to
 * read until the next offer. */
bool handover_accepted(const struct handover *h);

/* Reader: no offer is out any more. True: the tracer had accepted it. */
bool handover_withdraw(struct handover *h);

#endif
