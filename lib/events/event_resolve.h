/* SPDX-License-Identifier: MIT
 *
 * event_resolve - what the names that perf_names took apart mean on this machine: from sysfs,
 * tracefs, ELF files and libpfm4. One name may become several events: one for each kind of
 * core of a hybrid CPU, one for each place of a USDT probe.
 */
#ifndef EVENT_RESOLVE_H
#define EVENT_RESOLVE_H

#include <sys/types.h>

#include "events/perf_names.h"

/* Complete the *@n specs in place; at most @cap. @pid: whose USDT probes are looked for, 0:
 * nobody's. 0; -ENOENT there is no such event, with the nearest; -EACCES; -EINVAL. */
int event_resolve(struct perf_spec *specs, size_t *n, size_t cap, pid_t pid, struct err *err);

/* The same with another tree than sysfs's, for tests. */
int event_resolve_in(const char *devices, struct perf_spec *specs, size_t *n, size_t cap,
		     pid_t pid, struct err *err);

#endif
