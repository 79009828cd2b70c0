/* SPDX-License-Identifier: MIT
 *
 * nudge - end the system call that another thread of ours waits in.
 */
#ifndef NUDGE_H
#define NUDGE_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

/* Before any nudge(). */
void nudge_init(void);

/* The call that @thread waits in ends with EINTR; one that it is just about to begin does
 * not: nudge until it has noticed. */
void nudge(pthread_t thread);

/* The same of a thread by its number, which may have ended; 0: none. */
void nudge_tid(pid_t tid);

/* A timer (timer_settime(2), CLOCK_MONOTONIC) that nudges the calling thread. 0 or -errno. */
int nudge_timer(timer_t *ret);

/* Nudges of the calling thread, as long as it does what may hang. Begins with zeros. */
struct nudges {
	timer_t timer;
	bool made;
};

/* One each @ms from now on, or with 0 no more. Where there is no timer there are none. */
void nudges_set(struct nudges *n, unsigned ms);
void nudges_deinit(struct nudges *n);

/* For system calls that even a nudge does not end, because the kernel begins them again. */
struct nudge_limit {
	timer_t timer;
	sigjmp_buf back;
	volatile sig_atomic_t on;
};

/* On the thread that will use it, after nudge_init(). 0 or -errno. */
int nudge_limit_init(struct nudge_limit *l);
void nudge_limit_deinit(struct nudge_limit *l);

/* Have @call(@arg) make one system call, and nothing else, for @ms at most. False: it was
 * abandoned, maybe just after it was done. */
bool nudge_limited(struct nudge_limit *l, unsigned ms, void (*call)(void *arg), void *arg);

/* Nudge this thread each @ms from now on until nudge_limited(); 0: no more. */
void nudge_limit_again(struct nudge_limit *l, unsigned ms);

#endif
