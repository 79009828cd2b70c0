/* SPDX-License-Identifier: MIT
 *
 * tracker_hangs - processes whose memory hangs who reads it. Each read that does not end keeps a
 * thread of ours, also once its process has become another program: no user has more of them than
 * are left for all others.
 */
#include "elf/pool.h"
#include "sys/proc.h"
#include "targets/tracker_int.h"

static bool is_crowded(const struct tracker *t, uid_t user)
{
	return t->n_hanging + pool_count(t->hanging_of, t->n_hanging, user) >= TRACKER_HANGING;
}

/* Nobody reads it. */
static void set_aside(struct target *target)
{
	int was = atomic_load(&target->state);

	if (was == TARGET_QUARANTINED)
		return;
	target->otherwise = was;
	target->nopython = was == TARGET_NOPYTHON;
	atomic_store(&target->state, TARGET_QUARANTINED);
}

static void take_back(struct target *target)
{
	target->shunned = false;
	if (atomic_load(&target->state) == TARGET_QUARANTINED)
		atomic_store(&target->state, target->otherwise);
}

/* A read of @pid for which its samples are torn has not ended. */
static bool is_held(const struct tracker *t, pid_t pid)
{
	for (size_t i = 0; i < t->n_hanging; i++)
		if (t->hanging[i] == pid && t->hanging_torn[i])
			return true;
	return false;
}

int tracker_state(const struct target *target)
{
	int state = atomic_load(&target->state);

	return state == TARGET_QUARANTINED ? target->otherwise : state;
}

void tracker_becomes(const struct tracker *t, struct target *target, int state)
{
	if (atomic_load(&target->state) == TARGET_QUARANTINED &&
	    (target->shunned || is_held(t, target->pid))) {
		target->otherwise = state;
		target->nopython = state == TARGET_NOPYTHON;
		return;
	}
	atomic_store_explicit(&target->state, state, memory_order_release);
}

void tracker_consider(struct tracker *t, struct target *target)
{
	int state = atomic_load(&target->state);

	/* Fewer than half: whosever they are. */
	if (2 * t->n_hanging < TRACKER_HANGING ||
	    (state != TARGET_PYTHON && state != TARGET_NOPYTHON) ||
	    !is_crowded(t, proc_user(target->pid)))
		return;
	set_aside(target);
	target->shunned = true;
}

void tracker_quarantine(struct tracker *t, pid_t pid)
{
	struct target *target = targets_find(&t->targets, pid);

	if (!target)
		return;
	set_aside(target);
	target->shunned = false;
	if (!target->hung)
		note_say(&t->note, "a read of process %d hangs; until it ends its %s", pid,
			 target->nopython ? "stacks may be cut" : "samples are torn");
	target->hung = true;
}

static void consider_all(struct tracker *t)
{
	for (size_t i = 0; i < t->targets.n_all; i++)
		if (!t->targets.all[i]->retired)
			tracker_consider(t, t->targets.all[i]);
}

void tracker_hangs(struct tracker *t, pid_t pid, bool torn)
{
	uid_t user = proc_user(pid);

	if (torn)
		tracker_quarantine(t, pid);
	if (t->n_hanging < TRACKER_HANGING) {
		t->hanging[t->n_hanging] = pid;
		t->hanging_torn[t->n_hanging] = torn;
		t->hanging_of[t->n_hanging++] = user;
	}
	if (!is_crowded(t, user))
		return;
	if (!t->told_crowded)
		note_say(&t->note,
			 "%zu reads hang, too many of them of processes of user %d: until some end no "
			 "process of that user is read: samples are torn",
			 t->n_hanging, (int)user);
	t->told_crowded = true;
	consider_all(t);
}

/* Of @user, who has fewer reads that hang than before. */
static void take_back_all(struct tracker *t, uid_t user)
{
	for (size_t i = 0; i < t->targets.n_all; i++) {
		struct target *target = t->targets.all[i];

		if (target->shunned && !target->retired && proc_user(target->pid) == user)
			take_back(target);
	}
}

static void forget(struct tracker *t, pid_t pid, bool torn)
{
	uid_t user;
	size_t i = 0;

	while (i < t->n_hanging && (t->hanging[i] != pid || t->hanging_torn[i] != torn))
		i++;
	if (i == t->n_hanging)
		return;
	user = t->hanging_of[i];
	t->hanging[i] = t->hanging[--t->n_hanging];
	t->hanging_of[i] = t->hanging_of[t->n_hanging];
	t->hanging_torn[i] = t->hanging_torn[t->n_hanging];
	if (!is_crowded(t, user))
		take_back_all(t, user);
}

void tracker_returned(struct tracker *t, pid_t pid, bool torn)
{
	struct target *target = targets_find(&t->targets, pid);

	forget(t, pid, torn);
	if (!torn || !target || is_held(t, pid))
		return;
	take_back(target);
	tracker_consider(t, target);
}
