/* SPDX-License-Identifier: MIT
 *
 * tracker_hangs - processes whose memory hangs who reads it. Each read that does not end keeps a
 * thread of ours, also once its process has become another program: no user has more of them than
 * are left for all others.
 */
#include "elf/pool.h"
#include "sys/proc.h"
#include "targets/births.h"
#include "targets/tracker_int.h"

static bool is_crowded(const struct tracker *t, uid_t user)
{
	return pool_is_crowded(t->hanging_of, t->n_hanging, user, TRACKER_HANGING);
}

bool tracker_crowds(const struct tracker *t)
{
	bool any = false;

	for (size_t i = 0; !any && i < t->n_hanging; i++)
		any = is_crowded(t, t->hanging_of[i]);
	return any;
}

uid_t tracker_user(struct target *target)
{
	uid_t user = proc_user(target->pid);

	if (user != PROC_NOBODY)
		target->user = user;
	return target->user;
}

/* Whose process @pid is or was: one that nobody knows any more had the user of who forked it. */
static uid_t user_of(struct tracker *t, pid_t pid)
{
	enum { GENERATIONS = 8 };
	uid_t user = PROC_NOBODY;

	for (int i = 0; user == PROC_NOBODY && pid > 0 && i < GENERATIONS; i++) {
		struct target *target = targets_latest(&t->targets, pid);

		if (target)
			user = target->retired ? target->user : tracker_user(target);
		else
			user = proc_user(pid);
		pid = births_parent(t->births, pid);
	}
	return user;
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

/* Too many reads of processes of its user hang. */
static bool is_of_crowd(const struct tracker *t, struct target *target)
{
	/* Fewer than half: whosever they are. */
	return 2 * t->n_hanging >= TRACKER_HANGING && is_crowded(t, tracker_user(target));
}

void tracker_consider(struct tracker *t, struct target *target)
{
	int state = atomic_load(&target->state);

	if (state == TARGET_QUARANTINED || state == TARGET_REFUSED || target->asleep ||
	    !is_of_crowd(t, target))
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

/* An entry of the user who has most of them. */
static size_t one_of_most(const struct tracker *t)
{
	size_t most = 0, ret = 0;

	for (size_t i = 0; i < t->n_hanging; i++) {
		size_t n = pool_count(t->hanging_of, t->n_hanging, t->hanging_of[i]);

		if (n > most) {
			most = n;
			ret = i;
		}
	}
	return ret;
}

/* Where there is no room for more of @user, it has one of them at least. */
static void note_hanging(struct tracker *t, pid_t pid, bool torn, uid_t user)
{
	size_t i = t->n_hanging;

	if (i == TRACKER_HANGING && pool_count(t->hanging_of, i, user))
		return;
	if (i == TRACKER_HANGING)
		i = one_of_most(t);
	else
		t->n_hanging++;
	t->hanging[i] = pid;
	t->hanging_of[i] = user;
	t->hanging_torn[i] = torn;
}

void tracker_hangs(struct tracker *t, pid_t pid, bool torn)
{
	uid_t user = user_of(t, pid);

	if (torn)
		tracker_quarantine(t, pid);
	note_hanging(t, pid, torn, user);
	if (user == PROC_NOBODY || !is_crowded(t, user))
		return;
	if (!t->told_crowded)
		note_say(&t->note,
			 "%zu reads hang, too many of them of processes of user %d: until some end no "
			 "process of that user is read: samples are torn",
			 t->n_hanging, (int)user);
	t->told_crowded = true;
	consider_all(t);
}

/* Fewer reads hang than before. */
static void take_back_all(struct tracker *t)
{
	for (size_t i = 0; i < t->targets.n_all; i++) {
		struct target *target = t->targets.all[i];

		if (target->shunned && !target->retired && !is_of_crowd(t, target))
			take_back(target);
	}
}

static void forget(struct tracker *t, pid_t pid, bool torn)
{
	size_t i = 0;

	while (i < t->n_hanging && (t->hanging[i] != pid || t->hanging_torn[i] != torn))
		i++;
	if (i == t->n_hanging)
		return;
	t->hanging[i] = t->hanging[--t->n_hanging];
	t->hanging_of[i] = t->hanging_of[t->n_hanging];
	t->hanging_torn[i] = t->hanging_torn[t->n_hanging];
	take_back_all(t);
}

void tracker_returned(struct tracker *t, pid_t pid, bool torn)
{
	struct target *target = targets_find(&t->targets, pid);

	forget(t, pid, torn);
	if (!torn || !target || is_held(t, pid))
		return;
	target->shunned = is_of_crowd(t, target);
	if (!target->shunned)
		take_back(target);
}
