/* SPDX-License-Identifier: MIT
 *
 * work - what was done up to a moment, and the kernel's count of our system calls.
 */
#include "work.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "perf_event.h"
#include "tracefs.h"

_Thread_local struct work *work_own, *work_shared;

int work_count_syscalls(struct err *err)
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

void work_look(const struct work_origin *origin, struct work_moment *ret)
{
	struct timespec cpu;

	*ret = (struct work_moment){ .ns = now_ns() - origin->ns };
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	ret->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec;
	if (origin->syscalls_fd <= 0 || read(origin->syscalls_fd, &ret->syscalls,
					     sizeof(ret->syscalls)) != sizeof(ret->syscalls))
		ret->syscalls = UINT64_MAX;
}

void work_add_to(struct work_moment *m, const struct work *w)
{
	for (unsigned i = 0; i < WORK_N; i++)
		m->n[i] += atomic_load_explicit(&w->n[i], memory_order_relaxed);
}

const char *work_name(unsigned i)
{
	static const char *const names[] = {
#define X(name) #name,
		WORK_LIST
#undef X
	};

	return i < WORK_N ? names[i] : NULL;
}
