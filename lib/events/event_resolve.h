/* SPDX-License-Identifier: MIT
 *
 * event_resolve - what the names that perf_names took apart mean on this machine: from sysfs,
 * tracefs, ELF files and libpfm4. One name may become several events: one for each kind of
 * core of a hybrid CPU, one for each place of a USDT probe.
 */
#ifndef EVENT_RESOLVE_H
#define EVENT_RESOLVE_H

#include <sys/types.h>

#include "base/stop.h"
#include "events/perf_names.h"

struct file_helper;

/* What that takes. */
struct event_help {
	struct file_helper *files; /* reads ELF files, which may be hostile; NULL: we do */
	const struct stop *stop;   /* they are waited for until then; or NULL */
	pid_t pid;		   /* whose USDT probes are looked for; 0: nobody's */
};

/* Complete the *@n specs in place; at most @cap. 0; -ENOENT there is no such event, with the
 * nearest; -EACCES; -EINVAL; -ETIMEDOUT, -EIO: a file can't be read. */
int event_resolve(struct perf_spec *specs, size_t *n, size_t cap,
		  const struct event_help *help, struct err *err);

/* The same with another tree than sysfs's, for tests. */
int event_resolve_in(const char *devices, struct perf_spec *specs, size_t *n, size_t cap,
		     const struct event_help *help, struct err *err);

#endif
