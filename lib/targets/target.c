/* SPDX-License-Identifier: MIT */
#include "targets/target.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/base.h"
#include "base/clock.h"
#include "sys/proc.h"

enum {
	SLOTS_MIN = 16,
	PIDFDS_PART =
		8, /* of all descriptors that there may be, targets hold one in so many */
	PIDFDS_RETIRED = 32
};

/* Where a target was removed: no target lies there, and a search goes on. */
#define TARGET_REMOVED ((struct target *)1)

static struct target_table *table_create(size_t n)
{
	uint32_t mask = SLOTS_MIN - 1;
	struct target_table *tab;

	/* As many again can be added before it is made anew. */
	while (mask < n * 4)
		mask = mask * 2 + 1;
	tab = calloc(1, sizeof(*tab) + (mask + 1) * sizeof(tab->slot[0]));
	if (tab)
		tab->mask = mask;
	return tab;
}

static struct target *slot_get(const struct target_table *tab, uint32_t i)
{
	return atomic_load(&tab->slot[i]);
}

/* The target with @pid, and its slot; NULL, and the first that is free for it. */
static struct target *look_up(const struct target_table *tab, pid_t pid, uint32_t *slot)
{
	uint32_t i = (uint32_t)hash_u64((uint32_t)pid) & tab->mask;
	bool gap = false;
	struct target *at;

	for (; (at = slot_get(tab, i)); i = (i + 1) & tab->mask) {
		if (at != TARGET_REMOVED && at->pid == pid)
			break;
		if (at == TARGET_REMOVED && !gap) {
			*slot = i;
			gap = true;
		}
	}
	if (at || !gap)
		*slot = i;
	return at;
}

/* Visible at once to all. */
static void table_put(struct target_table *tab, struct target *t)
{
	uint32_t i;

	look_up(tab, t->pid, &i);
	tab->used += !slot_get(tab, i);
	atomic_store(&tab->slot[i], t);
}

int targets_init(struct targets *t)
{
	struct target_table *tab = table_create(0);

	memset(t, 0, sizeof(*t));
	epoch_init(&t->epoch);
	atomic_store(&t->table, tab);
	return tab ? 0 : -ENOMEM;
}

static void target_free(struct target *t)
{
	if (t->pidfd >= 0)
		close(t->pidfd);
	free(t);
}

void targets_deinit(struct targets *t)
{
	struct target_table *tab = atomic_load(&t->table);

	while (tab) {
		struct target_table *older = tab->older;

		free(tab);
		tab = older;
	}
	for (size_t i = 0; i < t->n_all; i++)
		target_free(t->all[i]);
	free(t->all);
}

struct target *targets_find(struct targets *t, pid_t pid)
{
	uint32_t slot;

	return look_up(atomic_load(&t->table), pid, &slot);
}

void targets_each(struct targets *t, void (*each)(void *arg, struct target *target), void *arg)
{
	struct target_table *tab = atomic_load(&t->table);

	for (uint32_t i = 0; tab && i <= tab->mask; i++) {
		struct target *at = slot_get(tab, i);

		if (at && at != TARGET_REMOVED)
			each(arg, at);
	}
}

struct target *targets_latest(struct targets *t, pid_t pid)
{
	struct target *found = targets_find(t, pid);

	for (size_t i = t->n_all; !found && i--;)
		if (t->all[i]->pid == pid)
			found = t->all[i];
	return found;
}

/* Room in the table for @n more: if need be in a new one, which takes the old one's place. */
static int reserve_slots(struct targets *t, size_t n)
{
	struct target_table *old = atomic_load(&t->table), *tab;

	if ((old->used + n) * 2 <= old->mask)
		return 0;
	tab = table_create(t->n + n);
	if (!tab)
		return -ENOMEM;
	for (uint32_t i = 0; i <= old->mask; i++)
		if (slot_get(old, i) && slot_get(old, i) != TARGET_REMOVED)
			table_put(tab, slot_get(old, i));
	tab->older = old;
	atomic_store(&t->table, tab);
	old->retired = epoch_retire(&t->epoch);
	return 0;
}

/* It is not to be found any more. */
static void retire(struct targets *t, struct target *target)
{
	target->retired = epoch_retire(&t->epoch);
	t->n_pidfds_retired += target->pidfd >= 0;
	t->n_retired++;
	t->n--;
}

static void publish(struct targets *t, struct target *add)
{
	struct target *old = targets_find(t, add->pid);

	t->all[t->n_all++] = add;
	t->n++;
	if (old)
		atomic_store(&old->next, add);
	table_put(atomic_load(&t->table), add);
	if (old)
		retire(t, old);
}

void targets_remove(struct targets *t, pid_t pid)
{
	struct target_table *tab = atomic_load(&t->table);
	uint32_t slot;
	struct target *old = look_up(tab, pid, &slot);

	if (!old)
		return;
	atomic_store(&tab->slot[slot], TARGET_REMOVED);
	retire(t, old);
}

int targets_publish(struct targets *t, struct target *const *add, size_t n)
{
	if (!array_reserve(&t->all, &t->cap_all, t->n_all + n, sizeof(*t->all)) ||
	    reserve_slots(t, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		publish(t, add[i]);
	return 0;
}

/* --- processes behind numbers --- */

void targets_open(struct targets *t, struct target *target)
{
	struct rlimit most;

	if (target->pidfd >= 0)
		return;
	if (t->n_pidfds >= t->most_pidfds && getrlimit(RLIMIT_NOFILE, &most) == 0)
		t->most_pidfds = most.rlim_cur / PIDFDS_PART;
	if (t->n_pidfds >= t->most_pidfds)
		return;
	target->pidfd = proc_pidfd(target->pid);
	t->n_pidfds += target->pidfd >= 0;
}

bool target_left(const struct target *t, pid_t pid, uint64_t ns)
{
	bool held = t && atomic_load(&t->pidfd) >= 0;

	return target_left_if(t, held || proc_was_there(pid, ns));
}

bool target_left_if(const struct target *t, bool was_there)
{
	int fd = t ? atomic_load(&t->pidfd) : -EBADF;

	if (fd >= 0)
		return proc_has_ended(fd);
	return fd == -ESRCH || !was_there;
}

/* --- the end of what was retired --- */

/* Targets that are kept need their descriptors no more. */
static void close_retired(struct targets *t)
{
	uint64_t safe = epoch_safe(&t->epoch, NULL);

	for (size_t i = 0; i < t->n_all; i++) {
		struct target *target = t->all[i];

		if (target->pidfd < 0 || !target->retired || target->retired > safe)
			continue;
		close(target->pidfd);
		target->pidfd = -ESRCH;
		t->n_pidfds_retired--;
		t->n_pidfds--;
	}
}

static void reap_tables(struct targets *t, uint64_t safe)
{
	struct target_table *tab = atomic_load(&t->table);

	while (tab->older && tab->older->retired > safe)
		tab = tab->older;
	/* Older ones were retired before. */
	for (struct target_table *old = tab->older; old; old = tab->older) {
		tab->older = old->older;
		free(old);
	}
}

static bool goes(const struct target *t, uint64_t until)
{
	return t && t->retired && t->retired <= until && !t->holds;
}

/* One that is held may stay longer than the one that took its place. */
static void forget_next(struct target *t, uint64_t until)
{
	if (goes(atomic_load(&t->next), until))
		atomic_store(&t->next, NULL);
}

static void reap(struct targets *t, struct target *target)
{
	t->n_pidfds -= target->pidfd >= 0;
	t->n_pidfds_retired -= target->pidfd >= 0;
	target_free(target);
}

static void reap_targets(struct targets *t, uint64_t until)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_all; i++)
		forget_next(t->all[i], until);
	for (size_t i = 0; i < t->n_all; i++)
		if (goes(t->all[i], until))
			reap(t, t->all[i]);
		else
			t->all[n++] = t->all[i];
	t->n_retired -= t->n_all - n;
	t->n_all = n;
}

void targets_reap(struct targets *t)
{
	uint64_t now = atomic_load(&t->epoch.now), safe;

	if (t->n_pidfds_retired >= PIDFDS_RETIRED)
		close_retired(t);
	if (t->n_retired < t->reap_at || now < 2 * TARGETS_RETIRED)
		return;
	safe = epoch_safe(&t->epoch, NULL);
	reap_tables(t, safe);
	reap_targets(t, MIN(safe, now - TARGETS_RETIRED));
	/* Seldom, for it looks at all. */
	t->reap_at = t->n_retired + TARGETS_RETIRED;
}

struct target *target_create(pid_t pid)
{
	struct target *t = calloc(1, sizeof(*t));

	if (t) {
		t->pid = pid;
		t->user = PROC_NOBODY;
		atomic_init(&t->pidfd, -EBADF);
		t->since_ns = now_ns();
	}
	return t;
}

bool target_take_ran(struct target *t, uint64_t ran[TARGET_RAN_WORDS])
{
	uint64_t any = 0;

	for (size_t i = 0; i < TARGET_RAN_WORDS; i++) {
		ran[i] = atomic_load_explicit(&t->ran[i], memory_order_relaxed);
		if (ran[i])
			ran[i] = atomic_exchange_explicit(&t->ran[i], 0, memory_order_relaxed);
		any |= ran[i];
	}
	return any;
}

bool target_had_none(const struct target *t, uint64_t time)
{
	const struct target *next;

	while ((next = atomic_load(&t->next)) && next->begun_ns <= time)
		t = next;
	return t->begun_ns <= time && atomic_load(&t->none_ns) >= time;
}
