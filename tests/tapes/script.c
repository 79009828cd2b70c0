/* SPDX-License-Identifier: MIT
 *
 * script - takes a tape apart; nothing on it is believed.
 */
#include "script.h"

#include "watch/event_ids.h"

#include <stdlib.h>

enum { SMALLEST_RING = 2 * PERF_RECORD_BYTES, LARGEST_RING = 64 << 20, MAX_TAPED = 256 << 20 };

/* Room for one more in an array. */
#define GROW(array, n, cap)                                                   \
	do {                                                                  \
		if ((n) == (cap)) {                                           \
			(cap) = (cap) ? 2 * (cap) : 64;                       \
			(array) = realloc((array), (cap) * sizeof(*(array))); \
		}                                                             \
	} while (0)

static struct script_slot *slot_of(struct script *s, struct bytes chunk)
{
	uint64_t i = tape_get(chunk, TAPE_SLOT_INDEX, SCRIPT_CPUS);

	return i < SCRIPT_CPUS && s->slots[i].there ? &s->slots[i] : NULL;
}

static void take_event(struct script *s, struct bytes chunk)
{
	uint64_t i = tape_get(chunk, TAPE_INDEX, SESSION_MAX_EVENTS), how;
	struct event_info *e = &s->session.events[i];
	struct bytes attr;

	if (i != s->session.n_events || i >= SESSION_MAX_EVENTS)
		return;
	s->session.n_events++;
	s->session.flags = (unsigned)tape_get(chunk, TAPE_FLAGS, 0) | SESSION_FULL_PATHS;
	tape_get_text(chunk, TAPE_NAME, e->name, sizeof(e->name));
	tape_field(chunk, TAPE_ATTR, &attr);
	memcpy(&e->attr, attr.at ? attr.at : (const void *)"", MIN(attr.n, sizeof(e->attr)));
	how = tape_get(chunk, TAPE_HOW, 0);
	s->session.how[i] = (struct event_how){
		.leader = (uint8_t)tape_get(chunk, TAPE_LEADER, 0),
		.led = how & TAPE_LED,
		.read = how & TAPE_HOW_READ,
		.probe = how & TAPE_PROBE,
		.jumps = how & TAPE_JUMPS,
		.on_cpus = how & TAPE_ON_CPUS,
	};
}

static void take_settings(struct script *s, struct bytes chunk)
{
	s->settings = chunk;
	tape_get_text(chunk, TAPE_CAPTURE, s->capture, sizeof(s->capture));
	tape_get_text(chunk, TAPE_ARCH, s->arch, sizeof(s->arch));
}

static void take_slot(struct script *s, struct bytes chunk)
{
	uint64_t i = tape_get(chunk, TAPE_SLOT_INDEX, SCRIPT_CPUS);
	uint64_t size = tape_get(chunk, TAPE_N, 0);

	if (i >= SCRIPT_CPUS || s->slots[i].there || size < SMALLEST_RING ||
	    size > LARGEST_RING || (size & (size - 1)))
		return;
	s->slots[i] = (struct script_slot){
		.there = true,
		.cpu = (int)tape_get(chunk, TAPE_CPU, 0) % CPUS_MAX,
		.size = size,
		.first = tape_get(chunk, TAPE_POS, 0) & ~UINT64_C(7),
		.watched_ns = tape_get(chunk, TAPE_WATCHED, 0),
	};
	s->n_slots = MAX(s->n_slots, (uint32_t)i + 1);
}

static void take_ring(struct script *s, struct bytes chunk)
{
	struct script_slot *slot = slot_of(s, chunk);
	struct bytes b;

	if (!slot || !tape_field(chunk, TAPE_BYTES, &b) || b.n > MAX_TAPED - slot->n_ring)
		return;
	slot->gap = slot->gap || tape_get(chunk, TAPE_POS, 0) != slot->first + slot->n_ring ||
		    b.n % 8;
	if (slot->gap)
		return;
	if (slot->n_ring + b.n > slot->cap_ring) {
		slot->cap_ring = MAX(2 * slot->cap_ring, slot->n_ring + b.n);
		slot->ring = realloc(slot->ring, slot->cap_ring);
	}
	memcpy(slot->ring + slot->n_ring, b.at, b.n);
	slot->n_ring += b.n;
}

static struct script_step *add_step(struct script *s, int slot, uint32_t type,
				    struct bytes chunk)
{
	struct script_step *step;

	GROW(s->steps, s->n_steps, s->cap_steps);
	step = &s->steps[s->n_steps];
	*step = (struct script_step){ .time = tape_get(chunk, TAPE_TIME, 0),
				      .order = s->n_steps++,
				      .slot = slot,
				      .type = type,
				      .chunk = chunk };
	if (slot < 0)
		return step;
	/* Each reader's own order stands. */
	step->time = s->slots[slot].last_time = MAX(step->time, s->slots[slot].last_time);
	return step;
}

static void take_drain(struct script *s, struct bytes chunk)
{
	struct script_slot *slot = slot_of(s, chunk);

	if (!slot)
		return;
	add_step(s, (int)(slot - s->slots), TAPE_DRAIN, chunk)->item = slot->n_items;
	slot->drain = s->n_steps;
}

/* Of the reader's last drain; a target may also be the control thread's. */
static void take_item(struct script *s, uint32_t type, struct bytes chunk)
{
	struct script_slot *slot = slot_of(s, chunk);

	if (!slot && type == TAPE_TARGET)
		add_step(s, -1, type, chunk);
	if (!slot || !slot->drain)
		return;
	if (type == TAPE_LOOK)
		add_step(s, (int)(slot - s->slots), type, chunk)->item = slot->n_items;
	GROW(slot->items, slot->n_items, slot->cap_items);
	slot->items[slot->n_items++] = (struct script_item){ .type = type, .chunk = chunk };
	s->steps[slot->drain - 1].n_items++;
}

static void take_judged(struct script *s, struct bytes chunk)
{
	struct script_slot *slot = slot_of(s, chunk);
	struct script_judged *j;

	if (!slot)
		return;
	GROW(slot->judged, slot->n_judged, slot->cap_judged);
	j = &slot->judged[slot->n_judged++];
	*j = (struct script_judged){ .pos = tape_get(chunk, TAPE_POS, 0) };
	tape_get_text(chunk, TAPE_PROV, j->prov, sizeof(j->prov));
}

static void take_id(struct script *s, struct bytes chunk)
{
	GROW(s->ids, s->n_ids, s->cap_ids);
	s->ids[s->n_ids].id = tape_get(chunk, TAPE_KEY, 0);
	s->ids[s->n_ids].event = (uint8_t)tape_get(chunk, TAPE_INDEX, EVENT_IDS_UNKNOWN);
	s->n_ids += s->ids[s->n_ids].id != 0;
}

static void take_side(struct script *s, struct bytes chunk)
{
	struct bytes b;

	if (!tape_field(chunk, TAPE_BYTES, &b) || b.n < 8 || b.n > UINT16_MAX)
		return;
	GROW(s->sides, s->n_sides, s->cap_sides);
	s->sides[s->n_sides++] = b;
}

static void take(struct script *s, uint32_t type, struct bytes chunk)
{
	switch (type) {
	case TAPE_EVENT:
		take_event(s, chunk);
		break;
	case TAPE_SETTINGS:
		take_settings(s, chunk);
		break;
	case TAPE_SLOT:
		take_slot(s, chunk);
		break;
	case TAPE_RING:
		take_ring(s, chunk);
		break;
	case TAPE_DRAIN:
		take_drain(s, chunk);
		break;
	case TAPE_READ:
	case TAPE_LOOK:
	case TAPE_ANSWER:
	case TAPE_TARGET:
		take_item(s, type, chunk);
		break;
	case TAPE_JUDGED:
		take_judged(s, chunk);
		break;
	case TAPE_EVENT_ID:
		take_id(s, chunk);
		break;
	case TAPE_SIDE:
		take_side(s, chunk);
		break;
	default: /* of a later version */
		break;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct script_step *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void script_init(struct script *s, const struct tape *t)
{
	struct bytes chunk;
	uint32_t type;
	size_t pos = 0;

	*s = (struct script){ 0 };
	while (tape_next(t, &pos, &type, &chunk))
		take(s, type, chunk);
	if (s->n_steps)
		qsort(s->steps, s->n_steps, sizeof(*s->steps), by_time);
	for (size_t i = 0; i < s->n_steps; i++)
		if (s->steps[i].type == TAPE_LOOK)
			s->slots[s->steps[i].slot].items[s->steps[i].item].step = i;
}

void script_deinit(struct script *s)
{
	for (size_t i = 0; i < SCRIPT_CPUS; i++) {
		free(s->slots[i].ring);
		free(s->slots[i].items);
		free(s->slots[i].judged);
	}
	free(s->steps);
	free(s->sides);
	free(s->ids);
}
