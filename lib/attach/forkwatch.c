/* SPDX-License-Identifier: MIT */
#include "attach/forkwatch.h"

#include <sys/syscall.h>

#include "base/base.h"
#include "base/clock.h"
#include "sys/proc.h"

enum { WATCH_PAGES = 1, WATCH_PERIOD_NS = 20000, LOOK_NS = 50000 };

int forkwatch_open(struct forkwatch *w, pid_t tid)
{
	struct perf_event_attr a = {
		.size = sizeof(a),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_period = WATCH_PERIOD_NS,
		.sample_type = PERF_SAMPLE_TIME,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.task = 1,
	};

	return perf_ring_map(&w->ring, &a, tid, -1, WATCH_PAGES);
}

void forkwatch_close(struct forkwatch *w)
{
	perf_ring_close(&w->ring);
}

enum sight { SIGHT_NONE, SIGHT_USER, SIGHT_FORK };

/* What the ring has to tell, in its order; a record that was lost may have been a FORK. */
static enum sight look(struct forkwatch *w, uint64_t opened_ns)
{
	_Alignas(8) unsigned char bounce[PERF_RECORD_BYTES];
	uint64_t pos = perf_ring_tail(&w->ring), head = perf_ring_head(&w->ring);
	enum sight sight = SIGHT_NONE;

	while (pos < head && sight != SIGHT_FORK) {
		const struct perf_event_header *h = perf_ring_at(&w->ring, pos, bounce);

		if (!h || h->type == PERF_RECORD_FORK || h->type == PERF_RECORD_LOST)
			sight = SIGHT_FORK;
		else if (h->type == PERF_RECORD_SAMPLE && load_u64(h + 1) > opened_ns)
			sight = SIGHT_USER;
		pos += h ? h->size : 0;
	}
	perf_ring_consume(&w->ring, pos);
	return sight;
}

static bool forks(long nr)
{
#ifdef SYS_fork
	if (nr == SYS_fork || nr == SYS_vfork)
		return true;
#endif
	return nr == SYS_clone || nr == SYS_clone3;
}

/* Asleep, and not inside fork(). */
static bool waits_elsewhere(pid_t tid)
{
	struct proc_wait at;

	return proc_syscall(tid, tid, &at) == 0 && !forks(at.syscall);
}

bool forkwatch_forked(struct forkwatch *w, pid_t tid, uint64_t opened_ns, uint64_t until_ns)
{
	struct timespec pause = { .tv_nsec = LOOK_NS };

	for (;;) {
		/* First where it is, then what it did before that. */
		bool elsewhere = waits_elsewhere(tid);
		enum sight sight = look(w, opened_ns);

		if (sight == SIGHT_FORK)
			return true;
		if (elsewhere || sight == SIGHT_USER || now_ns() > until_ns ||
		    !proc_exists(tid))
			return false;
		nanosleep(&pause, NULL);
	}
}

/* Its turns are counted before it is looked at: who sleeps then, and has had no turn more since
 * they were counted, has slept since that look. */
void forkwatch_sleepers(const pid_t *tids, size_t n, uint64_t *turns)
{
	_cleanup_free_ struct proc_wait *at = calloc(n + 1, sizeof(*at));

	for (size_t i = 0; i < n; i++)
		turns[i] = at ? proc_turns(tids[i], tids[i]) : 0;
	if (at)
		proc_syscall_each(tids, n, at);
	for (size_t i = 0; i < n && at; i++)
		if (!at[i].pc || forks(at[i].syscall))
			turns[i] = 0;
}

bool forkwatch_sleeps(pid_t tid, uint64_t turns)
{
	return proc_turns(tid, tid) == turns;
}
