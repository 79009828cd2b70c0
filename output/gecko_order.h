/* SPDX-License-Identifier: MIT
 *
 * gecko_order - puts the samples of a Firefox profile in the order of its tracks: by thread,
 * by event, by time.
 */
#ifndef OUTPUT_GECKO_ORDER_H
#define OUTPUT_GECKO_ORDER_H

#include "tree.h"

/* A sample's place in time. */
struct moment {
	uint64_t time;
	uint32_t row; /* of the tree */
};

struct gecko_order {
	const struct moment *moments;
	uint32_t *at;	 /* numbers of moments, in the order of tracks */
	uint32_t *first; /* by thread times @n_events plus event: the first one's place in @at,
			  * and behind the last track their number */
	size_t n_events;
};

/* Of the @n @moments, which are borrowed. 0 or -ENOMEM. */
int gecko_order_init(struct gecko_order *o, const struct tree *t, const struct moment *moments,
		     size_t n, size_t n_events);
void gecko_order_deinit(struct gecko_order *o);

static inline const struct moment *gecko_order_at(const struct gecko_order *o, size_t i)
{
	return &o->moments[o->at[i]];
}

#endif
