/* SPDX-License-Identifier: MIT */
#include "remote/guard.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "sys/proc.h"

uint64_t guarded_enter(struct guarded *m)
{
	uint64_t turn = guard_look(m->guard) + 1;

	atomic_store_explicit(&m->guard->turn, turn, memory_order_release);
	return turn;
}

void guarded_leave(struct guarded *m, uint64_t turn)
{
	jmp_buf *end;

	if (atomic_compare_exchange_strong(&m->guard->turn, &turn, turn + 1))
		return;
	/* Abandoned: another thread owns the guard now. */
	end = m->end;
	atomic_store_explicit(&m->returned, true, memory_order_release);
	eventfd_write(m->kick, 1);
	longjmp(*end, 1);
}

static int guarded_read(struct rmem *base, raddr at, void *buf, size_t n)
{
	struct guarded *m = container_of(base, struct guarded, base);
	uint64_t turn = guarded_enter(m);
	int ret = rmem_read(&m->below.base, at, buf, n);

	guarded_leave(m, turn);
	if (m->saw)
		m->saw(m->saw_arg, at, buf, n, ret);
	return ret;
}

static size_t guarded_readv(struct rmem *base, const struct rmem_vec *v, size_t n)
{
	struct guarded *m = container_of(base, struct guarded, base);
	uint64_t turn = guarded_enter(m);
	size_t ret = rmem_readv(&m->below.base, v, n);

	guarded_leave(m, turn);
	for (size_t i = 0; m->saw && i < n && i <= ret; i++)
		m->saw(m->saw_arg, v[i].at, v[i].buf, v[i].n, i < ret ? 0 : -EFAULT);
	return ret;
}

static const struct rmem_ops guarded_ops = {
	.name = "guarded",
	.read = guarded_read,
	.readv = guarded_readv,
};

void guarded_init(struct guarded *m, struct guard *g, int kick)
{
	*m = (struct guarded){ .base.ops = &guarded_ops, .guard = g, .kick = kick };
}

void guarded_target(struct guarded *m, pid_t pid, pid_t thread)
{
	rmem_live_init(&m->below, pid);
	m->below.thread = thread == pid ? 0 : thread;
	atomic_store_explicit(&m->guard->reading, pid, memory_order_relaxed);
}

pid_t guard_stuck(struct guard *g, pid_t tid)
{
	uint64_t turn = atomic_load_explicit(&g->turn, memory_order_acquire);
	uint64_t now = now_ns();
	pid_t pid;
	char state;

	if (!(turn & 1) || turn != g->watch) {
		g->watch = turn;
		g->since_ns = now;
		return 0;
	}
	if (now - g->since_ns < GUARD_HANGS_NS)
		return 0;
	/* One that waits for its CPU does not hang, and may do that for a while where its state
	 * can't be read for want of descriptors. */
	state = proc_state(getpid(), tid);
	if (state == 'R' || (!state && now - g->since_ns < GUARD_UNKNOWN_NS))
		return 0;
	pid = atomic_load_explicit(&g->reading, memory_order_relaxed);
	/* To an even value that the stuck thread does not expect. */
	if (!atomic_compare_exchange_strong(&g->turn, &turn, turn + 3))
		return 0;
	g->watch = 0;
	return pid;
}
