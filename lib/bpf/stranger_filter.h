/* SPDX-License-Identifier: MIT
 *
 * stranger_filter - a small BPF program that keeps samples of processes that are no targets
 * out of the rings, for events that count all that a CPU runs.
 *
 * A process is a stranger for a while only: then one more of its samples passes, and whoever
 * sees it decides anew. So a process that nobody knows yet, such as a target's new child,
 * always passes, and a number that a new process has taken over heals by itself. The program
 * does not look at memory, of the kernel or of anybody else.
 */
#ifndef STRANGER_FILTER_H
#define STRANGER_FILTER_H

#include <stdint.h>
#include <sys/types.h>

enum { STRANGER_EVENTS = 16, STRANGER_NS = 1000000000 };

struct run_table;

struct stranger_filter {
	int map;		       /* a descriptor; -1: there is no filter */
	int program[STRANGER_EVENTS];  /* for each event; -1: not loaded yet */
	const struct run_table *table; /* borrowed, or NULL */
};

/* Load it. With a @table each sample that passes arms its thread there, and each one that is
 * dropped is counted. 0; -EPERM: CAP_BPF and CAP_PERFMON are needed; or another -errno. */
int stranger_filter_init(struct stranger_filter *f, const struct run_table *table);
void stranger_filter_deinit(struct stranger_filter *f);

/* Put it on @fd, one of event number @e, which is no tracepoint and no probe. Without a filter
 * it does nothing. 0 or -errno. */
int stranger_filter_attach(struct stranger_filter *f, int fd, uint32_t e);

/* Samples of process @pid are dropped until @until_ns (CLOCK_MONOTONIC), UINT64_MAX: for ever.
 * With a table that is no longer than it had been the program that it is, STRANGER_NS before
 * @until_ns; and one that becomes another program after that passes. Any thread; allocates
 * nothing. Without a filter it does nothing. */
void stranger_filter_add(const struct stranger_filter *f, pid_t pid, uint64_t until_ns);

#endif
