/* SPDX-License-Identifier: MIT
 *
 * pool - sockets to the processes of one kind that file_serve starts, each of which answers one
 * question at a time (fdpass.h). Any thread may take one.
 */
#ifndef POOL_H
#define POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { POOL_IDLE = 4, POOL_LEFT = 64 };

enum pool_kind { POOL_READS = 'r', POOL_OPENS = 'o' };

struct pool {
	int starter; /* to who starts them; -1: it was ended. Under the lock, as all below */
	enum pool_kind kind;
	pthread_mutex_t lock;
	int idle[POOL_IDLE]; /* to those that wait for a question */
	size_t n_idle;
	int left[POOL_LEFT]; /* to those that nobody waits for any more, while they hang */
	uid_t left_by[POOL_LEFT]; /* for whose processes */
	size_t n_left;
	bool woken;
};

/* The user for whose process this thread asks; PROC_NOBODY: it is nobody's. It is noted before one
 * asks, for that process may end meanwhile. No user's processes have more that hang than are left
 * for all others. */
extern _Thread_local uid_t pool_user;

/* How many of @n @users are @user. */
size_t pool_count(const uid_t *users, size_t n, uid_t user);

/* Of @n that are taken, whose @users are told, out of @most: has @user some, and one more would be
 * more than are left for all others? */
bool pool_is_crowded(const uid_t *users, size_t n, uid_t user, size_t most);

void pool_init(struct pool *p, enum pool_kind kind, int starter); /* which is borrowed */
void pool_deinit(struct pool *p);

bool pool_was_woken(struct pool *p); /* somebody was asked for */

/* A socket to a new one, or -errno; -EPIPE: there will be none. */
int pool_start(struct pool *p);
/* Send a question by send(@arg, socket), which says 0 or -errno, to one that waits, or to a
 * new one. The socket to who has it, or ended; -EAGAIN: too many do not answer, in all or of
 * those that were asked for processes of pool_user; -errno. */
int pool_ask(struct pool *p, int (*send)(const void *arg, int socket), const void *arg);
/* Is there an answer, or its end, in @ms, -1: for ever? Else it is left: it ends once it
 * does. */
bool pool_answers(struct pool *p, int socket, int ms);
/* It answered, and waits for the next question. One that said more is not asked again. */
void pool_give(struct pool *p, int socket);
/* No more questions are taken, and those that wait end. */
void pool_end(struct pool *p);

#endif
