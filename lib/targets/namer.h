/* SPDX-License-Identifier: MIT
 *
 * namer - tells the resolver what the targets' programs call their threads, in a thread of its
 * own, for reading a process can hang (probe.h).
 *
 * It looks when readers see that a thread was born, soon and for a while, and now and then,
 * for names change. Each name goes to the resolver once: a COMM record (announce_name).
 */
#ifndef NAMER_H
#define NAMER_H

#include "base/queue.h"
#include "targets/target.h"

struct namer;

/* Start to look at the @targets as @user, who has joined their epoch;
 * names go into @q, whose producer it is. @kick: an eventfd that readers write to when they
 * have set *@due. All are used until namer_stop(). NULL: no memory or no thread. Control
 * thread. */
struct namer *namer_start(struct targets *targets, struct epoch_user *user, struct queue *q,
			  int kick, _Atomic bool *due);

/* Control thread, at intervals: is it inside the same read as at the last call? Then that
 * process's names are not read again (target.names_hang), @n is left where it is, and uses nothing
 * of the caller's any more. @pid: the process. */
bool namer_hangs(struct namer *n, pid_t *pid);

/* The read of one that hung has ended, and so has its thread: the process whose memory it was;
 * @n is freed. 0: not yet. Control thread. */
pid_t namer_returned(struct namer *n);

/* Frees one that hung, now or once its read ends. Control thread. */
void namer_leave(struct namer *n);

/* A last look, then its thread ends; one that hangs is left where it is, and uses nothing of
 * the caller's any more. Frees @n. NULL is allowed. Control thread. */
void namer_stop(struct namer *n);

#endif
