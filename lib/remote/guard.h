/* SPDX-License-Identifier: MIT
 *
 * guard - remote reads that may hang, and how their thread is given up.
 *
 * A thread reads a process through a struct guarded. The control thread looks at its guard
 * now and then; a thread that is still inside the same read is abandoned where it stands, and
 * another may take the guard over. When the read ever ends, the abandoned one says so and
 * ends.
 */
#ifndef GUARD_H
#define GUARD_H

#include <setjmp.h>
#include <stdatomic.h>

#include "remote_mem.h"

/* A read hangs when it sleeps for longer. Many a read sleeps for less: its target changes its
 * own maps just then. GUARD_UNKNOWN_NS: where nobody can tell whether it sleeps. */
enum { GUARD_HANGS_NS = 10000000, GUARD_UNKNOWN_NS = 1000000000 };

/* Outlives the threads that use it, one after the other. */
struct guard {
	/* Odd while inside a remote read of process @reading; the control thread may then move
	 * it to another even value. */
	_Atomic uint64_t turn;
	_Atomic pid_t reading;
	uint64_t watch;	   /* @turn at the control thread's last look */
	uint64_t since_ns; /* when it first saw this @watch */
};

/* A thread's way into its target's memory. */
struct guarded {
	struct rmem base;
	struct rmem_live below;
	struct guard *guard;
	/* Where the thread goes on when it was abandoned, to end: its own setjmp(). libc's
	 * pthread_exit() would have to load a library. */
	jmp_buf *end;
	int kick;	       /* eventfd: written to when an abandoned read has ended */
	_Atomic bool returned; /* it has */
	/* What was read, or with -errno what could not be, goes here too; or NULL. */
	void (*saw)(void *arg, raddr at, const void *bytes, size_t n, int ret);
	void *saw_arg;
};

void guarded_init(struct guarded *m, struct guard *g, int kick);

/* The process that is read from now on, and a thread of it that it may be read by, as that of
 * struct rmem_live; RMEM_OUTLIVER opens files. */
void guarded_target(struct guarded *m, pid_t pid, pid_t thread);

/* Around what else may hang and is no read of memory: a look at a file of guarded_target()'s
 * process in /proc. @turn: what entering returned. An abandoned thread does not come back from
 * leaving. */
uint64_t guarded_enter(struct guarded *m);
void guarded_leave(struct guarded *m, uint64_t turn);

/* Any thread: is somebody inside a read? Odd, and the same while it is the same read. */
static inline uint64_t guard_look(const struct guard *g)
{
	return atomic_load_explicit(&g->turn, memory_order_relaxed);
}

/* Control thread, as often as it likes: has @tid been inside the same read since a call at
 * least GUARD_HANGS_NS ago, and does it sleep? Then it is abandoned, and the result is the
 * process whose memory hangs. Else 0. */
pid_t guard_stuck(struct guard *g, pid_t tid);

#endif
