/* SPDX-License-Identifier: MIT
 *
 * tracker - what becomes of targets: they are added, fork, exec, hang and end.
 */
#include "targets/tracker_int.h"

#include <errno.h>

#include "base/base.h"
#include "base/clock.h"
#include "sys/proc.h"
#include "targets/births.h"
#include "targets/probe.h"
#include "targets/scout.h"

#define DOUBT_MAX_NS (16ull * TRACKER_DOUBT_NS)

enum {
	THREADS = 2, /* that look at new processes */
	JUST_NS = 1000000000,
};

int tracker_init(struct tracker *t, int kick)
{
	*t = (struct tracker){ .kick = kick, .crew = probers_create(THREADS, true) };
	return t->crew ? targets_init(&t->targets) : -ENOMEM;
}

void tracker_deinit(struct tracker *t)
{
	for (size_t i = 0; i < t->n_searches; i++)
		probe_release(t->searches[i].probe);
	free(t->searches);
	probers_release(t->crew);
	scout_release(t->scout);
	free(t->scouted);
	targets_deinit(&t->targets);
	others_deinit(&t->others);
}

/* It is another program than the one that was looked at. */
static bool has_execed(const struct target *target)
{
	uint64_t root = target->py.root ? proc_stack_root(target->pid) : 0;

	return root && root != target->py.root;
}

void tracker_teach(struct tracker *t, struct births *births)
{
	size_t n = t->targets.n_all;

	t->births = births;
	/* No record tells what was mapped, or of an exec, between the look and the events. */
	for (size_t i = 0; i < n; i++) {
		struct target *target = t->targets.all[i];
		int state = atomic_load(&target->state);

		if (state == TARGET_PYTHON && has_execed(target))
			tracker_new(t, target->pid, 0);
		else if (state == TARGET_PYTHON)
			births_teach(births, &target->code, target);
		else if (state == TARGET_NOPYTHON)
			tracker_look(t, target->pid);
	}
}

void tracker_tape_all(struct tracker *t, struct queue *tape)
{
	t->tape = tape;
	for (size_t i = 0; i < t->targets.n_all; i++)
		tracker_tape(t, t->targets.all[i]);
}

/* --- those whose end nobody may tell --- */

static bool has_ended(const struct target *target)
{
	int fd = atomic_load(&target->pidfd);

	return fd >= 0 ? proc_has_ended(fd) : !proc_exists(target->pid);
}

void tracker_leader_ended(struct tracker *t, pid_t pid)
{
	struct target *target = targets_find(&t->targets, pid);

	if (target)
		tracker_doubt(target);
}

/* True: it is due to be looked at, and has ended. */
static bool has_left(struct target *target, uint64_t now)
{
	if (now < target->doubt_ns)
		return false;
	if (has_ended(target))
		return true;
	target->doubt_pause_ns = MIN(2 * target->doubt_pause_ns, DOUBT_MAX_NS);
	target->doubt_ns = now + target->doubt_pause_ns;
	return false;
}

pid_t tracker_left(struct tracker *t)
{
	uint64_t now = now_ns();

	if (now < t->doubts_ns)
		return 0;
	for (size_t i = 0; i < t->targets.n_all; i++) {
		struct target *target = t->targets.all[i];

		if (!target->retired && target->doubt_ns && has_left(target, now)) {
			tracker_gone(t, target->pid);
			return target->pid;
		}
	}
	t->doubts_ns = now + TRACKER_DOUBT_NS;
	return 0;
}

/* --- births and ends --- */

static void copy_interpreter(struct target *child, const struct target *parent)
{
	int program = child->py.program;

	child->py = parent->py;
	child->py.pid = child->pid;
	child->py.program = program;
	atomic_init(&child->others, target_others(parent));
	child->looked_ns = parent->looked_ns;
}

/* Its parent's own fork stands in another CPU's ring that is not read yet. */
static void forked_by_unknown(struct tracker *t, pid_t pid, pid_t ptid, uint64_t time)
{
	struct target *child;

	if (!proc_exists(pid) || tracker_new(t, pid, time) < 0)
		return;
	child = targets_find(&t->targets, pid);
	child->unborn = true;
	if (proc_inner_tid(pid, pid) == pid)
		child->forker = ptid;
}

/* As @parent itself numbers the thread @ptid, which forked; 0: not known. */
static pid_t forker_of(const struct target *parent, pid_t ptid)
{
	pid_t inner = parent->inner;

	if (!parent->inner_tids)
		return ptid;
	if (ptid != parent->pid)
		inner = proc_inner_tid(parent->pid, ptid);
	return MAX(inner, 0);
}

/* The program that @ppid was at @time. It may have ended, or be another one by now: another CPU's
 * ring tells that, and was read before. NULL: it is not known, or not any more. */
static struct target *program_at(struct tracker *t, pid_t ppid, uint64_t time)
{
	struct target *found = targets_latest(&t->targets, ppid);

	if (!found || found->begun_ns <= time)
		return found;
	/* It was that program already: its exec was told after somebody had seen that it had been. */
	if (births_execed(t->births, ppid) <= time)
		return NULL;
	for (size_t i = t->targets.n_all; i--;) {
		found = t->targets.all[i];
		if (found->pid == ppid && found->begun_ns <= time)
			return found;
	}
	return NULL;
}

void tracker_forked(struct tracker *t, pid_t pid, pid_t ppid, pid_t ptid, uint64_t time)
{
	struct target *parent = program_at(t, ppid, time);
	struct target *child = targets_find(&t->targets, pid);
	int state;

	/* One of its samples may have come before: then it is looked at already. */
	if (parent && child)
		child->forker = forker_of(parent, ptid);

	if (!parent && !child)
		forked_by_unknown(t, pid, ptid, time);
	if (!parent || child)
		return;
	child = tracker_create(t, pid, time);
	if (!child)
		return;
	copy_interpreter(child, parent);
	child->user = parent->user;
	child->version = parent->version;
	child->runtime = parent->runtime;
	child->forker = forker_of(parent, ptid);
	child->unborn = !child->forker;
	/* fork() itself may have held up a read of the parent; the child is another. */
	state = tracker_state(parent);
	if (state == TARGET_PYTHON || state == TARGET_STARTING)
		tracker_learn_numbers(child);
	if (target_had_none(parent, time))
		child->none_ns = time;
	atomic_init(&child->state, state);
	tracker_consider(t, child);
	if (targets_publish(&t->targets, &child, 1) < 0) {
		free(child);
		return;
	}
	tracker_open(t, child);
	tracker_tape(t, child);
	if (state == TARGET_PENDING || state == TARGET_STARTING ||
	    (state == TARGET_PYTHON && tracker_is_stale(t, parent)) ||
	    (state == TARGET_NOPYTHON && !child->none_ns))
		tracker_search(t, child, true);
}

int tracker_new(struct tracker *t, pid_t pid, uint64_t begun_ns)
{
	struct target *target = tracker_add(t, pid, begun_ns);

	for (size_t i = 0; i < t->n_searches; i++)
		if (t->searches[i].target->pid == pid)
			t->searches[i].dropped = true; /* the old program's */
	return target ? tracker_search(t, target, true) : -ENOMEM;
}

/* Look at a descendant for the first time. */
int tracker_wake(struct tracker *t, struct target *target)
{
	uint64_t age = proc_age_ns(target->pid), known = now_ns() - target->since_ns;

	target->asleep = false;
	tracker_consider(t, target);
	tracker_open(t, target);
	/* If it was forked just before it was listed, nobody knows by which thread. */
	target->unborn = age < JUST_NS + known;
	return tracker_search(t, target, false);
}

void tracker_gone(struct tracker *t, pid_t pid)
{
	targets_remove(&t->targets, pid);
}
