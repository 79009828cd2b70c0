/* SPDX-License-Identifier: MIT
 *
 * forkwatch - did a thread fork while its events were being opened?
 *
 * A child inherits what its parent has open at one moment early in fork() (kernel:
 * perf_event_init_task()), and the FORK record comes at the end of it, with all the
 * memory copied in between: from the record's time alone nobody can tell which of the
 * events opened meanwhile the child has. So a watch is opened first: an event of the
 * thread alone, on any CPU, that reports each fork and, by samples in user mode only,
 * each moment at which the thread is surely not inside fork(). A thread that sleeps elsewhere
 * and is given no CPU meanwhile needs none.
 *
 * Control thread only.
 */
#ifndef FORKWATCH_H
#define FORKWATCH_H

#include "perf_event.h"

struct forkwatch {
	struct perf_ring ring;
};

/* 0 or -errno: no such thread, or no locked memory left for its two pages. */
int forkwatch_open(struct forkwatch *w, pid_t tid);

/* Wait until the thread is seen outside fork() after @opened_ns (CLOCK_MONOTONIC), at
 * most until @until_ns. True: it forked since the watch was opened. False: it did not,
 * so every child whose FORK record is younger than @opened_ns inherited all that was
 * open then; or time ran out: a thread that stays in the kernel or gets no CPU. */
bool forkwatch_forked(struct forkwatch *w, pid_t tid, uint64_t opened_ns, uint64_t until_ns);

void forkwatch_close(struct forkwatch *w);

/* Find those of @n threads that sleep outside fork(). @turns[i]: how many turns the thread has
 * had, for forkwatch_sleeps(); 0: it does not sleep there, or that can't be told. */
void forkwatch_sleepers(const pid_t *tids, size_t n, uint64_t *turns);

/* True: @tid, of which that was told, has slept since. */
bool forkwatch_sleeps(pid_t tid, uint64_t turns);

#endif
