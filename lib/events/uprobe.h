/* SPDX-License-Identifier: MIT
 *
 * uprobe - instructions of a file as events: the kernel's uprobe PMU, which puts a breakpoint
 * into a private page of each process that is watched, and takes it out when the event closes.
 *
 * A USDT probe is a place that a program was built with (sys/sdt.h): section .note.stapsdt
 * tells its address, and that of a counter, the semaphore, that the kernel counts up while it
 * is watched. https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
 */
#ifndef UPROBE_H
#define UPROBE_H

#include "events/event_resolve.h"
#include "events/perf_names.h"

/* What @s stands for: "uprobe:FILE:SYMBOL[+OFFSET]" or "uretprobe:FILE:SYMBOL" for one event,
 * SYMBOL may be the address of an instruction in the file; "usdt:[FILE:]PROVIDER:NAME" for
 * *@n, at most @cap, and without a FILE it is looked for in what a process has mapped. 0;
 * -ENOENT with the nearest that there is; -EACCES; -EINVAL; -ETIMEDOUT, -EIO: the file can't
 * be read. */
int uprobe_resolve(const char *devices, const struct event_help *help,
		   const struct perf_spec *s, struct perf_spec *ret, size_t cap, size_t *n,
		   struct err *err);

#endif
