/* SPDX-License-Identifier: MIT */
#include "targets/ours.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "perf_event.h"

struct ours {
	size_t n;
	_Atomic bool is[]; /* by pid; the kernel makes a page of it on its first use */
};

struct ours *ours_create(const struct ours *like)
{
	size_t n = like ? like->n : (size_t)perf_event_sysctl("pid_max", 1 << 22);
	struct ours *o = calloc(1, sizeof(*o) + n * sizeof(o->is[0]));

	if (o)
		o->n = n;
	return o;
}

void ours_destroy(struct ours *o)
{
	free(o);
}

/* The idle task is no process. */
static bool is_pid(const struct ours *o, pid_t pid)
{
	return pid > 0 && (size_t)pid < o->n;
}

bool ours_has(const struct ours *o, pid_t pid)
{
	return !o ||
	       (is_pid(o, pid) && atomic_load_explicit(&o->is[pid], memory_order_relaxed));
}

void ours_set(struct ours *o, pid_t pid, bool ours)
{
	if (o && is_pid(o, pid))
		atomic_store_explicit(&o->is[pid], ours, memory_order_relaxed);
}
