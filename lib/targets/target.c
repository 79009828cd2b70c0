/* SPDX-License-Identifier: MIT */
#include "targets/target.h"

#include <errno.h>

#include "base/clock.h"

static struct target_table *table_create(uint32_t cap)
{
	struct target_table *tab = calloc(1, sizeof(*tab));

	if (!tab)
		return NULL;
	tab->mask = 15;
	while (tab->mask < cap * 2)
		tab->mask = tab->mask * 2 + 1;
	tab->slot = calloc(tab->mask + 1, sizeof(*tab->slot));
	if (tab->slot)
		return tab;
	free(tab);
	return NULL;
}

static void table_add(struct target_table *tab, struct target *t)
{
	uint32_t i = (uint32_t)t->pid * 2654435761u & tab->mask;

	while (tab->slot[i])
		i = (i + 1) & tab->mask;
	tab->slot[i] = t;
	tab->n++;
}

int targets_init(struct targets *t)
{
	struct target_table *tab = table_create(8);

	memset(t, 0, sizeof(*t));
	atomic_store(&t->table, tab);
	return tab ? 0 : -ENOMEM;
}

void targets_deinit(struct targets *t)
{
	struct target_table *tab = atomic_load(&t->table);

	while (tab) {
		struct target_table *older = tab->older;

		free(tab->slot);
		free(tab);
		tab = older;
	}
	for (size_t i = 0; i < t->n_all; i++) {
		free(t->all[i]->tids);
		free(t->all[i]);
	}
	free(t->all);
}

struct target *targets_find(struct targets *t, pid_t pid)
{
	struct target_table *tab = atomic_load_explicit(&t->table, memory_order_acquire);
	uint32_t i = (uint32_t)pid * 2654435761u & tab->mask;

	for (; tab->slot[i]; i = (i + 1) & tab->mask)
		if (tab->slot[i]->pid == pid)
			return tab->slot[i];
	return NULL;
}

struct target *targets_latest(struct targets *t, pid_t pid)
{
	struct target *found = targets_find(t, pid);

	for (size_t i = t->n_all; !found && i--;)
		if (t->all[i]->pid == pid)
			found = t->all[i];
	return found;
}

static int own(struct targets *t, struct target *const *add, size_t n)
{
	struct target **all = realloc(t->all, (t->n_all + n) * sizeof(*all));

	if (!all)
		return -ENOMEM;
	t->all = all;
	memcpy(t->all + t->n_all, add, n * sizeof(*add));
	t->n_all += n;
	return 0;
}

static struct target_table *larger(struct targets *t, struct target *const *add, size_t n)
{
	struct target_table *old = atomic_load(&t->table);
	struct target_table *tab = table_create(old->n + (uint32_t)n);

	if (!tab)
		return NULL;
	if (n && own(t, add, n) < 0) {
		free(tab->slot);
		free(tab);
		return NULL;
	}
	tab->older = old;
	return tab;
}

int targets_publish(struct targets *t, pid_t pid, struct target *add)
{
	struct target_table *tab = larger(t, &add, add ? 1 : 0), *old;

	if (!tab)
		return -ENOMEM;
	old = tab->older;
	for (uint32_t i = 0; i <= old->mask; i++) {
		if (!old->slot[i])
			continue;
		if (old->slot[i]->pid != pid)
			table_add(tab, old->slot[i]);
		else if (add)
			atomic_store(&old->slot[i]->next, add);
	}
	if (add)
		table_add(tab, add);
	atomic_store_explicit(&t->table, tab, memory_order_release);
	return 0;
}

int targets_publish_new(struct targets *t, struct target *const *add, size_t n)
{
	struct target_table *tab = n ? larger(t, add, n) : NULL;

	if (!tab)
		return n ? -ENOMEM : 0;
	for (uint32_t i = 0; i <= tab->older->mask; i++)
		if (tab->older->slot[i])
			table_add(tab, tab->older->slot[i]);
	for (size_t i = 0; i < n; i++)
		table_add(tab, add[i]);
	atomic_store_explicit(&t->table, tab, memory_order_release);
	return 0;
}

struct target *target_create(pid_t pid)
{
	struct target *t = calloc(1, sizeof(*t));

	if (t) {
		t->pid = pid;
		t->since_ns = now_ns();
	}
	return t;
}

bool target_had_none(const struct target *t, uint64_t time)
{
	const struct target *next;

	while ((next = atomic_load(&t->next)) && next->begun_ns <= time)
		t = next;
	return t->begun_ns <= time && atomic_load(&t->none_ns) >= time;
}

pid_t target_inner_tid(const struct target *t, pid_t tid)
{
	size_t lo = 0, hi = t->n_tids;

	if (!t->inner_tids)
		return tid;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (t->tids[mid].outer == tid)
			return t->tids[mid].inner;
		if (t->tids[mid].outer < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return 0;
}
