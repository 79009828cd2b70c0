/* SPDX-License-Identifier: MIT */
#include "watch/event_ids.h"

#include <stdatomic.h>
#include <stdlib.h>

struct event_ids {
	struct event_ids *older;
	uint32_t n, mask;
	struct {
		_Atomic uint64_t id; /* 0: free */
		uint8_t event;
	} slot[];
};

struct event_ids *event_ids_create(uint32_t n, struct event_ids *older)
{
	struct event_ids *t;
	uint32_t cap = 64;

	while (cap < 2 * n)
		cap *= 2;
	t = calloc(1, sizeof(*t) + cap * sizeof(t->slot[0]));
	if (!t)
		return NULL;
	t->mask = cap - 1;
	t->older = older;
	return t;
}

void event_ids_destroy(struct event_ids *t)
{
	while (t) {
		struct event_ids *older = t->older;

		free(t);
		t = older;
	}
}

void event_ids_destroy_older(struct event_ids *t)
{
	event_ids_destroy(t->older);
	t->older = NULL;
}

bool event_ids_room(const struct event_ids *t, uint32_t n)
{
	return 2 * (t->n + n) <= t->mask + 1;
}

/* Where @id is, or would be. */
static uint32_t place_of(const struct event_ids *t, uint64_t id)
{
	uint32_t at = (uint32_t)id & t->mask;
	uint64_t there;

	while ((there = atomic_load_explicit(&t->slot[at].id, memory_order_acquire)) != 0 &&
	       there != id)
		at = (at + 1) & t->mask;
	return at;
}

void event_ids_add(struct event_ids *t, uint64_t id, uint8_t event)
{
	uint32_t at = place_of(t, id);

	t->slot[at].event = event;
	atomic_store_explicit(&t->slot[at].id, id, memory_order_release);
	t->n++;
}

uint8_t event_ids_find(const struct event_ids *t, uint64_t id)
{
	const struct event_ids *both[] = { t, t->older };

	for (int i = 0; i < 2 && both[i] && id; i++) {
		uint32_t at = place_of(both[i], id);

		if (atomic_load_explicit(&both[i]->slot[at].id, memory_order_acquire) == id)
			return both[i]->slot[at].event;
	}
	return EVENT_IDS_UNKNOWN;
}
