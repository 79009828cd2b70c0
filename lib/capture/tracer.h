/* SPDX-License-Identifier: MIT
 *
 * tracer - the one thread that may ptrace (--capture stop): it seizes threads, gives each
 * one that our signal stopped to the reader of the CPU where it was sampled, and lets it
 * go on.
 *
 * Seizing stops nobody. The kernel sends the signal itself (F_SETSIG, F_OWNER_TID) and it
 * is delivered before the next user instruction; with the default action of doing nothing,
 * so it is harmless should we be gone. What is not ours is passed on in order. To let go,
 * the thread ends: the kernel then frees every tracee where it is and interrupts none.
 *
 * A child of vfork(2) is seized only when it runs its own program: a set-user-ID one would
 * not get its rights otherwise.
 */
#ifndef TRACER_H
#define TRACER_H

#include "attach/attach.h"

/* Of the first thread that began later and could not be given events. */
struct tracer_refusal {
	_Atomic bool there; /* @err is filled */
	struct err err;
};

struct tracer_config {
	struct attach *attach;	/* the tracer's alone until tracer_stop() */
	struct cpu_slot *slots; /* with their handovers */
	size_t n_slots;
	int signal;
	bool threads;	   /* new threads too */
	bool children;	   /* and new processes */
	struct queue *ctl; /* the tracer's, for CTL_BEGUN */
	int kick;	   /* eventfd of who reads it */
	pid_t child;	   /* our own child, or 0: its end is the tracer's to see */
	/* Where the tracer tells that end, as wait(2) would. */
	_Atomic int *child_end;
	struct tracer_refusal *refusal; /* where it tells that */
	struct work *work;		/* where it counts what it does */
};

struct tracer;

/* Start the thread. NULL: no memory. */
struct tracer *tracer_create(const struct tracer_config *c);

/* Run @attach(arg) there: it ends in tracer_seize() and tracer_arm(). Its result. */
int tracer_attach(struct tracer *t, int (*attach)(void *arg, struct err *err), void *arg,
		  struct err *err);

/* After tracer_attach(): how many of the threads block the signal, so it is not sent to them. */
size_t tracer_deaf(const struct tracer *t);

/* The readers run: begin. With @enable the events are started too. */
void tracer_go(struct tracer *t, bool enable);

/* After tracer_go(): wait, for a second at most, until the events run. */
void tracer_await_events(struct tracer *t);

/* Threads that blocked the signal. */
struct tracer_rest {
	size_t pending; /* and keep one pending */
	size_t deaf;	/* since they began, or later, and are not in tracer_deaf() */
};

/* No further samples; every thread runs on, with no signal of ours pending but in the rest
 * that it returns. NULL does nothing. */
struct tracer_rest tracer_stop(struct tracer *t);

/* For attach, on the tracer's thread: it seizes each thread, and has each event stop it. */
struct attach_hooks tracer_hooks(struct tracer *t);

#endif
