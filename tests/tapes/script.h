/* SPDX-License-Identifier: MIT
 *
 * script - a tape taken apart for playing: the session, each CPU's ring and what its reader
 * was told in each drain, and the order of it all.
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "capture/reader.h"
#include "base/stats.h"
#include "whole.h"

enum { SCRIPT_CPUS = 64 };

/* Something a reader was told in a drain: TAPE_READ, _LOOK, _ANSWER or _TARGET. */
struct script_item {
	uint32_t type;
	struct bytes chunk;
	bool used;
	size_t step; /* of a look */
};

/* One point in the order of all that happened. */
struct script_step {
	uint64_t time;
	size_t order;  /* on the tape */
	int slot;      /* -1: the control thread's */
	uint32_t type; /* TAPE_DRAIN, TAPE_LOOK, TAPE_TARGET */
	struct bytes chunk;
	size_t item, n_items; /* of a drain; of a look its own item */
};

struct script_judged {
	uint64_t pos;
	char prov[16];
	bool seen;
};

/* What one reader had. */
struct script_slot {
	bool there;
	int cpu;
	uint64_t size, first, watched_ns; /* first: position where the reader began */
	unsigned char *ring;		  /* all that ever was in it, from first on */
	uint64_t n_ring, cap_ring;
	bool gap; /* the tape lacks a part of it: nothing is played after that */
	struct script_item *items;
	size_t n_items, cap_items;
	struct script_judged *judged;
	size_t n_judged, cap_judged;
	uint64_t last_time;
	size_t drain; /* the last one's order + 1; 0: none yet */
};

struct script {
	struct session session;
	struct stats stats; /* of the play */
	struct bytes settings;
	char capture[16], arch[16];
	struct script_slot slots[SCRIPT_CPUS];
	uint32_t n_slots;
	struct script_step *steps;
	size_t n_steps, cap_steps;
	struct bytes *sides;
	size_t n_sides, cap_sides;
	struct {
		uint64_t id;
		uint8_t event;
	} * ids;
	size_t n_ids, cap_ids;
};

/* It borrows from @t. */
void script_init(struct script *s, const struct tape *t);
void script_deinit(struct script *s);

#endif
