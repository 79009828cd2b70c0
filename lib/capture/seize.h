/* SPDX-License-Identifier: MIT
 *
 * seize - how the tracer begins to trace a thread, without ever waiting for it.
 *
 * PTRACE_SEIZE waits while the process is in execve(2), for as long as that takes: reading a
 * file whose server does not answer, or waiting for threads that another tracer holds. A
 * process like that is left for later.
 */
#ifndef SEIZE_H
#define SEIZE_H

#include "base/err.h"
#include "base/nudge.h"

/* The tracer's own. */
struct seizer {
	long options; /* PTRACE_O_*, of each thread */
	struct nudge_limit limit;
	pid_t *later; /* processes that were in an exec; may have one twice */
	size_t n_later, cap_later;
	pid_t our_tracer; /* the process that traces us; 0: none */
};

/* On the tracer's thread. 0 or -errno. */
int seizer_init(struct seizer *s, long options);
void seizer_deinit(struct seizer *s);

/* 0: this thread traces @tid; -ESRCH: it has ended; -EAGAIN: its process is in an exec, and
 * seizer_next() will tell when it no longer is; or -errno with a sentence, also for a thread of
 * who traces us: each of the two would wait for the other. */
int seizer_seize(struct seizer *s, pid_t tid, struct err *err);

/* A process whose exec is over, once; 0: none. While some are left, waits of this thread end
 * with EINTR now and then. */
pid_t seizer_next(struct seizer *s);

#endif
