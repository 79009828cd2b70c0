/* SPDX-License-Identifier: MIT
 *
 * epoch - numbers of what was unlinked, and who may still look at it.
 */
#include "base/epoch.h"

#include <stddef.h>

void epoch_init(struct epoch *e)
{
	atomic_init(&e->now, 1);
	atomic_init(&e->users, NULL);
}

void epoch_join(struct epoch *e, struct epoch_user *u)
{
	if (u->joined)
		return;
	u->joined = true;
	u->next = atomic_load(&e->users);
	atomic_store(&e->users, u);
}

uint64_t epoch_retire(struct epoch *e)
{
	return atomic_fetch_add(&e->now, 1) + 1;
}

uint64_t epoch_safe(const struct epoch *e, const struct epoch_user *except)
{
	uint64_t safe = atomic_load(&e->now);

	for (const struct epoch_user *u = atomic_load(&e->users); u; u = u->next) {
		uint64_t in = u == except ? 0 : atomic_load(&u->in);

		if (in && in < safe)
			safe = in;
	}
	return safe;
}

void epoch_enter(const struct epoch *e, struct epoch_user *u)
{
	if (!atomic_load_explicit(&u->in, memory_order_relaxed))
		atomic_store(&u->in, atomic_load(&e->now));
}

void epoch_leave(struct epoch_user *u)
{
	atomic_store_explicit(&u->in, 0, memory_order_release);
}

void epoch_move(struct epoch_user *u, uint64_t safe)
{
	atomic_store_explicit(&u->in, safe, memory_order_release);
}
