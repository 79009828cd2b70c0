/* SPDX-License-Identifier: MIT
 *
 * fetch - a piece of another process's memory, read in a thread of its own, because the read
 * may hang (see probe.h). For what is wanted once and not now: code without a file.
 */
#ifndef FETCH_H
#define FETCH_H

#include "base/base.h"
#include "remote_mem.h"

struct fetch;

enum { FETCH_MAX = 4 << 20 };

/* Start reading [@lo, @hi) of the process that was @pid at @since_ns, at most FETCH_MAX bytes.
 * NULL: no memory or thread. */
struct fetch *fetch_start(pid_t pid, uint64_t since_ns, raddr lo, raddr hi);

/* Whose memory it is. */
pid_t fetch_pid(const struct fetch *f);

/* Has it ended? Then *@ret is what was read, empty if that failed; valid until
 * fetch_release(). */
bool fetch_done(const struct fetch *f, pid_t *pid, raddr *lo, struct bytes *ret);

/* Wait for its end, at most @ms. True if it ended. */
bool fetch_wait(const struct fetch *f, int ms);

/* It hangs: no more than has begun is read, what was read is lost, and takes no memory. */
void fetch_leave(struct fetch *f);

/* Free it, or, if it still hangs, let it go. NULL is allowed. */
void fetch_release(struct fetch *f);

#endif
