/* SPDX-License-Identifier: MIT
 *
 * comms - counts the threads of each process: one whose leader has ended runs as long as
 * others do.
 */
#include "comms.h"

#include "base/base.h"
#include "sys/proc.h"

#define LEADER_ENDED (1u << 30) /* in the value of a process in comms.threads */

void comms_deinit(struct comms *c)
{
	idmap_deinit(&c->names);
	idmap_deinit(&c->titles);
	idmap_deinit(&c->threads);
	idmap_deinit(&c->left);
}

void comms_clear(struct comms *c)
{
	comms_deinit(c);
	c->n_ended = 0;
}

size_t comms_bytes(const struct comms *c)
{
	return idmap_bytes(&c->names) + idmap_bytes(&c->titles) + idmap_bytes(&c->threads) +
	       idmap_bytes(&c->left);
}

uint32_t comms_name(const struct comms *c, pid_t tid)
{
	return idmap_get(&c->names, (uint32_t)tid);
}

uint32_t comms_title(const struct comms *c, pid_t tid)
{
	uint32_t title = idmap_get(&c->titles, (uint32_t)tid);

	return title != IDMAP_NONE ? title : comms_name(c, tid);
}

/* What comms.threads has of @pid. */
static uint32_t threads_of(const struct comms *c, pid_t pid)
{
	uint32_t n = idmap_get(&c->threads, (uint32_t)pid);

	return n == IDMAP_NONE ? 0 : n;
}

/* It has ended, and nothing was said since of a new one with its number. */
static bool has_ended(const struct comms *c, pid_t pid, pid_t tid)
{
	uint32_t i = idmap_get(&c->left, (uint32_t)tid);

	return i != IDMAP_NONE && c->ended[i].pid == pid;
}

/* The thread, or nothing of the process, runs any more: the oldest of those of which that was
 * said is forgotten, unless its number has a new one. */
static int ends(struct comms *c, pid_t pid, pid_t tid)
{
	uint32_t i = c->n_ended++ % COMMS_ENDED;
	pid_t oldest = c->ended[i].tid;

	if (idmap_get(&c->left, (uint32_t)oldest) == i) {
		idmap_forget(&c->names, (uint32_t)oldest);
		idmap_forget(&c->titles, (uint32_t)oldest);
		idmap_forget(&c->threads, (uint32_t)oldest);
		idmap_forget(&c->left, (uint32_t)oldest);
	}
	c->ended[i].pid = pid;
	c->ended[i].tid = tid;
	return idmap_set(&c->left, (uint32_t)tid, i);
}

static int set_threads(struct comms *c, pid_t pid, uint32_t n)
{
	int ret = 0;

	if (n)
		ret = idmap_set(&c->threads, (uint32_t)pid, n);
	else
		idmap_forget(&c->threads, (uint32_t)pid);
	if (n & ~LEADER_ENDED)
		idmap_forget(&c->left, (uint32_t)pid);
	return !ret && n == LEADER_ENDED ? ends(c, pid, pid) : ret;
}

/* @begins: it is no thread that has ended. */
static int set_name(struct comms *c, const struct side *side, uint32_t name, bool begins)
{
	pid_t pid = side->pid, tid = side->tid;
	bool over = has_ended(c, pid, tid) && !begins;
	bool left = idmap_get(&c->left, (uint32_t)tid) != IDMAP_NONE;
	bool known = comms_name(c, tid) != IDMAP_NONE && !left;
	int ret = idmap_set(&c->names, (uint32_t)tid, name);

	if (ret || over)
		return ret;
	if (left)
		idmap_forget(&c->titles, (uint32_t)tid);
	idmap_forget(&c->left, (uint32_t)tid);
	return tid != pid && !known && name != IDMAP_NONE ?
		       set_threads(c, pid, threads_of(c, pid) + 1) :
		       0;
}

static int side_comm(struct comms *c, const struct side *side, uint32_t name)
{
	if (side->u.comm.thread)
		return idmap_set(&c->titles, (uint32_t)side->tid, name);
	if (side->u.comm.exec) { /* all its other threads have ended */
		idmap_forget(&c->titles, (uint32_t)side->tid);
		idmap_forget(&c->threads, (uint32_t)side->pid);
	}
	return set_name(c, side, name, side->u.comm.exec);
}

/* Until it is given another name it has its parent's. */
static int side_fork(struct comms *c, const struct side *side)
{
	idmap_forget(&c->titles, (uint32_t)side->tid);
	if (side->tid == side->pid)
		idmap_forget(&c->threads, (uint32_t)side->pid);
	return set_name(c, side, comms_name(c, side->u.fork.ptid), true);
}

static int side_exit(struct comms *c, const struct side *side)
{
	uint32_t n = threads_of(c, side->pid);
	int ret;

	if (side->tid == side->pid)
		return n & LEADER_ENDED ? 0 : set_threads(c, side->pid, n | LEADER_ENDED);
	if (comms_name(c, side->tid) == IDMAP_NONE) {
		idmap_forget(&c->titles, (uint32_t)side->tid);
		return 0;
	}
	if (has_ended(c, side->pid, side->tid))
		return 0;
	ret = ends(c, side->pid, side->tid);
	return ret || !(n & ~LEADER_ENDED) ? ret : set_threads(c, side->pid, n - 1);
}

int comms_side(struct comms *c, const struct side *side, uint32_t name)
{
	switch (side->kind) {
	case SIDE_COMM:
		return side_comm(c, side, name);
	case SIDE_FORK:
		return side_fork(c, side);
	case SIDE_EXIT:
		return side_exit(c, side);
	case SIDE_MMAP:
	case SIDE_LOST:
	case SIDE_THROTTLE:
		break;
	}
	return 0;
}

bool comms_elsewhere(const struct session *session, const struct side *side)
{
	return side->kind == SIDE_COMM && (side->u.comm.exec || side->announced) &&
	       side->pid == side->tid && session->start_ns && proc_is_elsewhere(side->pid);
}
