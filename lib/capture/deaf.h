/* SPDX-License-Identifier: MIT
 *
 * deaf - threads that block the signal of --capture stop, as those do that libraries make for
 * themselves: it would stop nobody, and be what the thread's next sigwait(3) tells. So their
 * events do not send it, until they are seen not to block it.
 */
#ifndef DEAF_H
#define DEAF_H

#include <time.h>

#include "attach/attach.h"

struct deaf {
	struct attach *attach;
	int signal;
	pid_t *tids;
	size_t n, cap;
	uint64_t look_ns, pause_ns; /* when they are looked at again, and how long that is */
	timer_t timer;		    /* nudges then */
};

/* On the tracer's thread, after nudge_init(). 0 or -errno. */
int deaf_init(struct deaf *d, struct attach *attach, int signal);
void deaf_deinit(struct deaf *d);

/* All threads that have events are looked at. */
void deaf_find(struct deaf *d);

/* All events send the signal again: not theirs. */
void deaf_leave(const struct deaf *d);

/* Those that do not block it any more are deaf no more, if it is time to look. */
void deaf_look(struct deaf *d);

#endif
