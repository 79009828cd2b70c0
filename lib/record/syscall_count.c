/* SPDX-License-Identifier: MIT
 *
 * syscall_count - the kernel's count of our own system calls: an event on its tracepoint.
 */
#include "record/syscall_count.h"

#include <errno.h>
#include <string.h>

#include "perf_event.h"
#include "events/tracefs.h"

int syscall_count_open(struct err *err)
{
	struct perf_spec spec = { .name = "raw_syscalls:sys_enter", .n_base = 22 };
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr) };
	const char *events = tracefs_events(err);
	int r = events ? tracefs_resolve(events, &spec, err) : err->code;

	if (r < 0)
		return r;
	attr.config = spec.config;
	attr.inherit = attr.inherit_thread = 1;
	r = perf_event_open_fd(&attr, 0, -1);
	if (r < 0)
		return err_set(err, r, "%s can't be counted: %s%s", spec.name, strerror(-r),
			       r == -EINVAL ? " (Linux before 5.13?)" : "");
	return r;
}
