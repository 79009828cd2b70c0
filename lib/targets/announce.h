/* SPDX-License-Identifier: MIT
 *
 * announce - what a process was before the recording began, as perf records: the
 * names of its threads and its executable mappings.
 */
#ifndef ANNOUNCE_H
#define ANNOUNCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/queue.h"

struct pool;

/* Queue COMM and MMAP2 records for @pid, and with @threads COMM records for its other threads,
 * all dated @time, as Q_SIDE; with @execed they replace what was known of it. @openers
 * (opener.h; or NULL) are asked which of two paths leads to a file here. 0; -ESRCH; -EACCES
 * where its maps may not be read; -ENOBUFS the queue is full: one record, and what would
 * follow, is lost. */
int announce_process(struct queue *q, pid_t pid, bool execed, bool threads, uint64_t time,
		     struct pool *openers);

/* Its parts. @stack: proc_stack_root() of the program that is meant, after whose exec nothing
 * is queued, which is -ESRCH; or 0. */
int announce_names(struct queue *q, pid_t pid, bool execed, bool threads, uint64_t time);
int announce_maps(struct queue *q, pid_t pid, uint64_t stack, uint64_t time,
		  struct pool *openers);

/* Queue that the program calls thread @tid of @pid @name: that was read at @until, and was not
 * so at the look before, at @from. 0, or -ENOBUFS. */
int announce_name(struct queue *q, pid_t pid, pid_t tid, const char *name, uint64_t from,
		  uint64_t until);

#endif
