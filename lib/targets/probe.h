/* SPDX-License-Identifier: MIT
 *
 * probe - look for a process's interpreter in a thread of its own.
 *
 * Reading a process can hang (userfaultfd, FUSE, a dead mount), so pyfind() never
 * runs on the control thread. A probe that hangs is left where it is.
 */
#ifndef PROBE_H
#define PROBE_H

#include "python/pyfind.h"

struct probe;

/* Start looking at @pid, a process that was there at @since_ns: another one that has its
 * number by now, or gets it meanwhile, is -ESRCH; @files reads its files, or we do where it is
 * NULL; @kick (an eventfd, or -1) is written to at the end. NULL: no thread could be made. */
struct probe *probe_start(pid_t pid, uint64_t since_ns, struct file_helper *files, int kick);

/* Has it ended? Then *@ret and @err hold what pyfind() said and *@code its return
 * value. */
bool probe_done(struct probe *p, int *code, struct pyproc *ret, struct err *err);

/* When it began to look; once it has ended. */
uint64_t probe_began(const struct probe *p);

/* Wait at most @ms. True if it ended. */
bool probe_wait(struct probe *p, int ms);

/* Free it, or, if it still hangs, let it go. */
void probe_release(struct probe *p);

#endif
