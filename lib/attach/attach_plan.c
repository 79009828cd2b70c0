/* SPDX-License-Identifier: MIT */
#include "attach/attach_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>

#include "base/base.h"
#include "perf_event.h"
#include "sys/rights.h"

enum {
	RING_PAGES = 256, /* at an unknown rate */
	RING_PAGES_MAX = 2048,
	RING_PAGES_PROMPT = 64,
	RING_PAGES_MIN = 32,
	RING_MS = 60,
	WATCH_PAGES = 2,  /* forkwatch's, one at a time */
	OTHERS = 64,	  /* descriptors for all but events */
	OTHERS_A_CPU = 2, /* those of a CPU: its ring and its epoll */
	MANY = 32 << 10,  /* events that take seconds to open and close */
};

/* --- pure --- */

size_t attach_plan_fewer_pages(size_t pages)
{
	return pages > RING_PAGES_MIN ? pages / 2 : 0;
}

size_t attach_plan_ring(const struct attach_wants *w, size_t page)
{
	size_t want = w->rate * w->sample * RING_MS / 1000, pages = RING_PAGES_PROMPT;

	if (!w->prompt || !w->rate)
		pages = RING_PAGES;
	while (pages < RING_PAGES && pages * page < 2 * want + PERF_RECORD_BYTES)
		pages *= 2;
	while (pages < RING_PAGES_MAX && pages * page < want)
		pages *= 2;
	return pages;
}

static size_t ring_bytes(const struct attach_wants *w, const struct attach_limits *l,
			 size_t pages)
{
	return w->cpus * (pages + 1) * l->page;
}

static size_t may_lock(const struct attach_wants *w, const struct attach_limits *l)
{
	size_t free = w->cpus * (l->mlock_kb << 10);

	if (l->lock_any || l->memlock > SIZE_MAX - free)
		return SIZE_MAX;
	return free + l->memlock;
}

static int plan_rings(const struct attach_wants *w, const struct attach_limits *l,
		      struct attach_plan *ret, struct err *err)
{
	size_t may = may_lock(w, l), watch = WATCH_PAGES * l->page;
	size_t pages = attach_plan_ring(w, l->page);

	while (pages && ring_bytes(w, l, pages) + watch > may)
		pages = attach_plan_fewer_pages(pages);
	if (!pages)
		return err_set(err, -EPERM,
			       "rings for %zu CPUs need %zu KiB of locked memory, %zu are "
			       "allowed; raise kernel.perf_event_mlock_kb or 'ulimit -l'",
			       w->cpus, (ring_bytes(w, l, RING_PAGES_MIN) + watch) >> 10,
			       may >> 10);
	ret->ring_pages = pages;
	ret->locked = ring_bytes(w, l, pages);
	return 0;
}

static int refuse(const struct attach_wants *w, const struct attach_limits *l, size_t need,
		  struct err *err)
{
	return err_set(err, -EMFILE,
		       "%zu threads x %zu CPUs x %zu events need %zu descriptors and "
		       "'ulimit -n' allows %zu; raise it (hard limit), name fewer events, or "
		       "threads (-t)%s",
		       w->threads, w->cpus, w->events, need, l->nofile,
		       l->wide || w->tied ? "" : ", or give CAP_PERFMON (not with --capture stop)");
}

/* One more event of each, if that is a matter of descriptors only. */
static void plan_more(const struct attach_wants *w, const struct attach_limits *l,
		      struct attach_plan *ret)
{
	size_t more = w->cpus * (ret->wide ? 1 : w->threads);

	ret->more = w->may_add && ret->descriptors + more <= MIN(l->nofile, (size_t)MANY);
	if (ret->more)
		ret->descriptors += more;
}

int attach_plan_make(const struct attach_wants *w, const struct attach_limits *l,
		     struct attach_plan *ret, struct err *err)
{
	size_t others = OTHERS + OTHERS_A_CPU * w->cpus + w->others,
	       wide = w->cpus * w->events;
	size_t events = w->threads * wide;
	bool fits = events + others <= l->nofile;

	*ret = (struct attach_plan){ .descriptors = events + others };
	if (l->wide && !w->tied && wide + others <= l->nofile &&
	    (!fits || events > MANY || w->joins)) {
		ret->wide = true;
		ret->descriptors = wide + others;
		if (w->joins)
			snprintf(ret->why, sizeof(ret->why),
				 "events are opened on CPUs, so that processes can join, and "
				 "what others do there is ignored");
		else
			snprintf(ret->why, sizeof(ret->why),
				 "%zu threads x %zu CPUs x %zu events are %zu descriptors: "
				 "events "
				 "are opened on CPUs instead, and what other processes do "
				 "there is "
				 "ignored",
				 w->threads, w->cpus, w->events, events);
	} else if (!fits) {
		return refuse(w, l, events + others, err);
	}
	plan_more(w, l, ret);
	return plan_rings(w, l, ret, err);
}

/* --- this process --- */

/* The hard limit is in the way, and may be raised. */
static void raise_hard_limit(struct rlimit *l)
{
	size_t nr_open = (size_t)perf_event_sysctl("../fs/nr_open", 0);

	if (nr_open > l->rlim_max && rights_have(CAP_SYS_RESOURCE))
		l->rlim_max = nr_open;
}

size_t attach_raise_nofile(size_t enough)
{
	struct rlimit was, l;

	if (getrlimit(RLIMIT_NOFILE, &was) < 0)
		return 1024;
	l = was;
	if (l.rlim_max < enough)
		raise_hard_limit(&l);
	l.rlim_cur = l.rlim_max;
	if (l.rlim_cur == was.rlim_cur)
		return was.rlim_cur;
	return setrlimit(RLIMIT_NOFILE, &l) < 0 ? was.rlim_cur : l.rlim_cur;
}

/* Who may lock any amount is not asked for how much. */
static void memory_limits(struct attach_limits *l)
{
	struct rlimit memlock = { 0 };

	l->lock_any = rights_have(CAP_IPC_LOCK) ||
		      perf_event_sysctl("perf_event_paranoid", 2) < 0;
	if (l->lock_any)
		return;
	getrlimit(RLIMIT_MEMLOCK, &memlock);
	l->memlock = memlock.rlim_cur;
	l->mlock_kb = (size_t)perf_event_sysctl("perf_event_mlock_kb", 516);
}

struct attach_limits attach_limits_now(bool wide, size_t enough)
{
	struct attach_limits l = {
		.nofile = attach_raise_nofile(enough),
		.page = (size_t)sysconf(_SC_PAGESIZE),
		.wide = wide,
	};

	memory_limits(&l);
	return l;
}

bool attach_reserve(int fd, size_t n)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, (int)MIN(n, (size_t)INT32_MAX) - 1);

	if (high >= 0)
		close(high);
	return high >= 0;
}
