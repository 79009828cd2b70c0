/* SPDX-License-Identifier: MIT
 *
 * recorder_end - is there nobody left to record?
 *
 * A daemon forks and ends: while processes that are followed run, the recording goes on. Who
 * they are is known from the records of their forks, and those are read late, so before the
 * recording ends the readers read all that was written by then.
 */
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "sys/proc.h"
#include "record/recorder_int.h"

enum {
	LIST_MAX = 5,		/* of those left, how many are named */
	SETTLED_NS = 100000000, /* who makes a daemon has ended by then, too */
};

/* From here on their numbers may be those of strangers. True: all have ended. */
static bool named_ended(struct recorder *r, const struct pollfd *fds)
{
	bool all = true;

	for (size_t i = 0; i < r->o.n_pids; i++) {
		if (r->pidfds[i] >= 0 && (fds[i].revents & POLLIN)) {
			close(r->pidfds[i]);
			r->pidfds[i] = -1;
		}
		all = all && r->pidfds[i] < 0;
	}
	if (all && r->o.follow)
		r->cpuwatch.n_pids = 0;
	return all;
}

/* With -t. True: one of those threads still runs in @pid. */
static bool is_wanted(const struct recorder *r, pid_t pid)
{
	for (size_t i = 0; i < r->o.n_tids; i++) {
		char state =
			proc_tgid(r->o.tids[i]) == pid ? proc_state(pid, r->o.tids[i]) : 0;

		if (state && state != 'Z' && state != 'X')
			return true;
	}
	return r->o.n_tids == 0;
}

/* The process of a target, if it runs: its descriptor, else -1. */
static int open_running(struct recorder *r, const struct target *t)
{
	int fd;

	/* Replaced, gone, or without events. */
	if (targets_find(&r->tracker.targets, t->pid) != t || t->unwatched)
		return -1;
	fd = proc_pidfd(t->pid);
	if (fd < 0)
		return -1;
	/* Younger than what we know of it: another one that has its number. */
	if (!proc_has_ended(fd) && proc_was_there(t->pid, t->since_ns) && is_wanted(r, t->pid))
		return fd;
	close(fd);
	return -1;
}

/* A process that is followed and runs; the youngest live longest. -1: none. */
static int find_running(struct recorder *r)
{
	int fd = -1;

	for (size_t i = r->tracker.targets.n_all; fd < 0 && i--;)
		fd = open_running(r, r->tracker.targets.all[i]);
	return fd;
}

/* "123 (python3), 124 (sh) and 2 more"; how many. */
static size_t list_running(struct recorder *r, char *to, size_t size)
{
	size_t found = 0, n = 0;

	for (size_t i = 0; i < r->tracker.targets.n_all; i++) {
		const struct target *t = r->tracker.targets.all[i];
		char comm[16] = "?";
		int fd = open_running(r, t);

		if (fd < 0)
			continue;
		close(fd);
		proc_comm(t->pid, t->pid, comm);
		if (found++ < LIST_MAX)
			n += (size_t)snprintf(to + n, size - n, "%s%d (%s)", n ? ", " : "",
					      t->pid, comm);
	}
	if (found > LIST_MAX)
		snprintf(to + n, size - n, " and %zu more", found - LIST_MAX);
	return found;
}

static void tell_left(struct recorder *r)
{
	char who[64] = "the processes named have ended", list[400] = "";
	size_t n;

	if (r->told_left || now_ns() - r->last_ns < SETTLED_NS)
		return;
	n = list_running(r, list, sizeof(list));
	if (!n)
		return;
	r->told_left = true;
	if (r->o.child)
		snprintf(who, sizeof(who), "the command has ended");
	else if (r->o.n_pids == 1)
		snprintf(who, sizeof(who), "process %d has ended", r->o.pids[0]);
	note_say(&r->o.note,
		 "the recording goes on: %s, but %zu followed %s still run%s: %s; Ctrl-C ends "
		 "it",
		 who, n, n > 1 ? "processes" : "process", n > 1 ? "" : "s", list);
}

/* What the dead have forked stands in the rings. True: all of it was read, and nobody new was
 * found there. */
static bool none_are_born(struct recorder *r)
{
	size_t known = r->tracker.targets.n_all;
	bool whole = recorder_catch_up(r);

	return recorder_take_messages(r) && whole && r->tracker.targets.n_all == known;
}

/* One look each time: who is found in the rings may be dead as well, and in a chain of forks that
 * goes on each of them is, while Ctrl-C, the readers and all else are looked at between. */
bool recorder_over(struct recorder *r, const struct pollfd *fds)
{
	bool over;

	/* Others may join. */
	if (r->o.scope || !named_ended(r, fds))
		return false;
	if (!r->o.follow)
		return true;
	if (r->last >= 0 && !proc_has_ended(r->last)) {
		tell_left(r);
		return false;
	}
	if (r->last >= 0)
		close(r->last);
	r->last = find_running(r);
	r->last_ns = now_ns();
	over = r->last < 0 && none_are_born(r);
	if (r->last < 0 && !over)
		eventfd_write(r->config.kick, 1);
	return over;
}
