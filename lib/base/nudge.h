/* SPDX-License-Identifier: MIT
 *
 * nudge - end the system call that another thread of ours waits in.
 */
#ifndef NUDGE_H
#define NUDGE_H

#include <pthread.h>
#include <time.h>

/* Before any nudge(). */
void nudge_init(void);

/* The call that @thread waits in ends with EINTR; one that it is just about to begin does
 * not: nudge until it has noticed. */
void nudge(pthread_t thread);

/* A timer (timer_settime(2), CLOCK_MONOTONIC) that nudges the calling thread. 0 or -errno. */
int nudge_timer(timer_t *ret);

#endif
