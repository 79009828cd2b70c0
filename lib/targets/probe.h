/* SPDX-License-Identifier: MIT
 *
 * probe - look for a process's interpreter in another thread.
 *
 * Reading a process can hang (userfaultfd, FUSE, a dead mount), so pyfind() never
 * runs on the control thread. Threads look at one process after another; one that hangs is
 * left where it is with the process that it hangs at, and another takes its place.
 */
#ifndef PROBE_H
#define PROBE_H

#include "python/pyfind.h"

struct probe;

enum { PROBERS_BOUND = 64 };

/* The threads: none until there is something to look at, @most at work as long as none of
 * them takes long. @bounded: never more than PROBERS_BOUND, also of those that nobody waits for,
 * and at no user's processes more than are left for all others; further ones wait. NULL: no
 * memory. */
struct probers *probers_create(size_t most, bool bounded);

/* How many looks do not end, if those at processes of @user, which it tells, are too many; 0: of
 * no user's are. */
size_t probers_crowded(struct probers *c, uid_t *user);

/* To be called now and then while looks wait for a thread: if all threads seem to hang, more
 * begin. */
void probers_run(struct probers *c);

/* Those that do nothing end. Probes that were not released yet go on. NULL is welcome. */
void probers_release(struct probers *c);

/* Have @pid looked at, a process that was there at @since_ns: another one that has its
 * number by now, or gets it meanwhile, is -ESRCH; @files reads its files, or we do where it is
 * NULL; @kick (an eventfd, or -1) is written to at the end. NULL: no thread could be made. */
struct probe *probe_start(struct probers *c, pid_t pid, uint64_t since_ns,
			  struct file_helper *files, int kick);

/* Has it ended? Then *@ret and @err hold what pyfind() said and *@code its return
 * value. */
bool probe_done(struct probe *p, int *code, struct pyproc *ret, struct err *err);

/* When it began to look; 0: it has not, for all threads are at work, or too many at its user's. */
uint64_t probe_began(const struct probe *p);

/* Wait at most @ms, and probers_run(). True if it ended. */
bool probe_wait(struct probe *p, int ms);

/* Free it, or, if it still hangs, let it go. NULL is welcome. */
void probe_release(struct probe *p);

#endif
