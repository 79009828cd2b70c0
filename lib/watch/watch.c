/* SPDX-License-Identifier: MIT
 *
 * watch - which event a record of a slot's ring is of.
 */
#include "watch/watch.h"

#include "watch/event_ids.h"

uint32_t watch_event_of(const struct reader_config *c, struct cpu_slot *slot, uint64_t id)
{
	uint32_t event;

	if (c->session->n_events == 1 && !c->witness && !c->split)
		return 0;
	atomic_store(&slot->looking, true);
	event = event_ids_find(atomic_load(c->ids), id);
	atomic_store_explicit(&slot->looking, false, memory_order_release);
	return event;
}
