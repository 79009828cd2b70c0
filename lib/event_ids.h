/* SPDX-License-Identifier: MIT
 *
 * event_ids - which event of the session a record's id means. The kernel numbers the event
 * of each thread and CPU anew; inherited ones have their parent's number.
 *
 * One thread adds, readers look up without a lock. A number is never used again.
 */
#ifndef EVENT_IDS_H
#define EVENT_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct event_ids;

/* With room for @n. NULL: no memory. */
struct event_ids *event_ids_create(uint32_t n);
void event_ids_destroy(struct event_ids *t);

/* False: no room for @n more. */
bool event_ids_room(const struct event_ids *t, uint32_t n);
void event_ids_add(struct event_ids *t, uint64_t id, uint8_t event);

/* The event of @id, 0 where it is not known. */
uint8_t event_ids_find(const struct event_ids *t, uint64_t id);

#endif
