/* SPDX-License-Identifier: MIT
 *
 * work - the counters that no reader owns, and what of all of it is told.
 */
#include "work.h"

#include <time.h>
#include <unistd.h>

#include "clock.h"

struct work work_of_others;
_Thread_local struct work *work_own;

static uint64_t begun_ns;
static int syscalls_fd = -1;

void work_begin(void)
{
	begun_ns = now_ns();
}

void work_count_syscalls(int fd)
{
	syscalls_fd = fd;
}

void work_look(struct work_moment *ret)
{
	struct timespec cpu;

	*ret = (struct work_moment){ .ns = now_ns() - begun_ns };
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	ret->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec;
	if (syscalls_fd < 0 ||
	    read(syscalls_fd, &ret->syscalls, sizeof(ret->syscalls)) != sizeof(ret->syscalls))
		ret->syscalls = UINT64_MAX;
	work_add_to(ret, &work_of_others);
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
