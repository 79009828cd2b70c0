/* SPDX-License-Identifier: MIT
 *
 * thread_names - the newest names are few: between two looks few threads begin.
 */
#include "stacks/thread_names.h"

#include <stdio.h>

void thread_names_deinit(struct thread_names *t)
{
	idmap_deinit(&t->named);
}

static void keep(struct thread_names *t, const struct side *s)
{
	uint32_t i = t->n++ % THREAD_NAMES_RECENT;

	t->recent[i].pid = s->pid;
	t->recent[i].tid = s->tid;
	t->recent[i].from = s->time;
	t->recent[i].until = s->u.comm.until;
	snprintf(t->recent[i].name, THREAD_NAMES_BYTES, "%s", s->u.comm.name);
	idmap_set(&t->named, (uint32_t)s->tid, 1);
}

/* The name of the thread whose fork @s is, if it was read after that and is given already. */
static bool repeat(const struct thread_names *t, const struct side *s, struct side *then)
{
	for (uint32_t k = 1; k <= THREAD_NAMES_RECENT && k <= t->n; k++) {
		uint32_t i = (t->n - k) % THREAD_NAMES_RECENT;

		if (t->recent[i].tid != s->tid || t->recent[i].pid != s->pid ||
		    t->recent[i].from > s->time || t->recent[i].until < s->time)
			continue;
		*then = (struct side){ .kind = SIDE_COMM,
				       .time = s->time,
				       .pid = s->pid,
				       .tid = s->tid,
				       .cpu = s->cpu,
				       .u.comm = { .name = t->recent[i].name,
						   .thread = true,
						   .until = t->recent[i].until } };
		return true;
	}
	return false;
}

static bool is_named(const struct thread_names *t, pid_t tid)
{
	return idmap_get(&t->named, (uint32_t)tid) != IDMAP_NONE;
}

bool thread_names_side(struct thread_names *t, struct side *s, struct side *then, bool *more)
{
	bool named = is_named(t, s->tid);

	*more = false;
	if (s->kind == SIDE_COMM && s->u.comm.thread)
		keep(t, s);
	else if (s->kind == SIDE_COMM && named && !s->u.comm.exec)
		return s->tid == s->pid; /* the leader's is the process's */
	else if (s->kind == SIDE_FORK) {
		*more = repeat(t, s, then);
		if (is_named(t, s->u.fork.ptid))
			s->u.fork.ptid = s->u.fork.ppid;
	}
	if ((s->kind == SIDE_FORK && !*more) || s->kind == SIDE_EXIT ||
	    (s->kind == SIDE_COMM && s->u.comm.exec))
		idmap_forget(&t->named, (uint32_t)s->tid);
	return true;
}
