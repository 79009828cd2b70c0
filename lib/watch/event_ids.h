/* SPDX-License-Identifier: MIT
 *
 * event_ids - which event of the session a record's id means. The kernel numbers the event
 * of each thread and CPU anew; inherited ones have their parent's number.
 *
 * One thread adds, readers look up without a lock. A number is never used again. A table that
 * is full gives way to another one, which asks the one before it, and none before that, for
 * what it doesn't know: records of events that were closed meanwhile may still lie in a ring.
 */
#ifndef EVENT_IDS_H
#define EVENT_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct event_ids;

enum { EVENT_IDS_UNKNOWN = 255 };

/* With room for @n, after @older (may be NULL), which it owns then. NULL: no memory. */
struct event_ids *event_ids_create(uint32_t n, struct event_ids *older);
void event_ids_destroy(struct event_ids *t);

/* Destroy all that are older than @t. Nobody may be looking into @t then, only into the table
 * after it. */
void event_ids_destroy_older(struct event_ids *t);

/* False: no room for @n more. */
bool event_ids_room(const struct event_ids *t, uint32_t n);
void event_ids_add(struct event_ids *t, uint64_t id, uint8_t event);

/* The event of @id, or EVENT_IDS_UNKNOWN. */
uint8_t event_ids_find(const struct event_ids *t, uint64_t id);

#endif
