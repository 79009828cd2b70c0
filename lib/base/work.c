/* SPDX-License-Identifier: MIT
 *
 * work - the counters that no reader owns, and what of all of it is told.
 */
#include "base/work.h"

#include <time.h>
#include <unistd.h>

#include "base/clock.h"

_Thread_local struct work *work_own, *work_shared;

void work_look(const struct work_origin *origin, struct work_moment *ret)
{
	struct timespec cpu;

	*ret = (struct work_moment){ .ns = now_ns() - origin->ns };
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	ret->cpu_ns = clock_ns(&cpu);
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
