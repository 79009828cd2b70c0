/* SPDX-License-Identifier: MIT
 *
 * deaf - threads that block the signal of --capture stop, as those do that libraries make for
 * themselves: it would stop nobody, and be what the thread's next sigwait(3) tells. So their
 * events do not send it, until they are seen not to block it. Who can't be looked at, for want of
 * descriptors or memory, is deaf until it can.
 */
#ifndef DEAF_H
#define DEAF_H

#include <time.h>

#include "attach/attach.h"

struct deaf_thread {
	pid_t tid;
	bool told;		    /* a person is, or will be */
	uint64_t since_ns, look_ns; /* when it got into the list, and when it is looked at */
};

struct deaf {
	struct attach *attach;
	int signal;
	struct deaf_thread *thread;
	size_t n, cap;
	size_t n_later;	  /* that were no threads, or did not block it, at deaf_find() */
	uint64_t look_ns; /* the first of theirs; UINT64_MAX: there are none */
	timer_t timer;	  /* nudges then */
};

/* On the tracer's thread, after nudge_init(). 0 or -errno. */
int deaf_init(struct deaf *d, struct attach *attach, int signal);
void deaf_deinit(struct deaf *d);

/* All threads that have events are looked at, with attach_hooks.between between them: how many are
 * seen to be deaf, without those that began meanwhile. */
size_t deaf_find(struct deaf *d);

/* @tid has just begun, or become another program: it gets no signal until it was looked at. */
void deaf_begin(struct deaf *d, pid_t tid);

/* The threads of @pid, which has just become another program, are looked at. */
void deaf_process(struct deaf *d, pid_t pid);

/* @tid has not taken its signal in time: if it blocks it, it gets no further one. */
void deaf_suspect(struct deaf *d, pid_t tid);

/* All events send the signal again: not theirs. */
void deaf_leave(const struct deaf *d);

/* Those that do not block it any more are deaf no more, if it is time to look. */
void deaf_look(struct deaf *d);

#endif
