/* SPDX-License-Identifier: MIT
 *
 * apportion - draws where what is less than one goes (ordered pivotal sampling).
 */
#include "apportion.h"

#include <stdbool.h>

#include "base/draw.h"

/* What shares have above whole numbers, in parts of @one; less than that waits for a later one. */
struct rest {
	unsigned __int128 one, waits;
	size_t of; /* the share that has @waits */
	uint64_t state;
};

/* True @n times in @of. */
static bool drawn(struct rest *r, unsigned __int128 n, unsigned __int128 of)
{
	return of * (draw_around(&r->state, UINT32_MAX) - UINT32_MAX / 2) < n << 32;
}

/* Share @i has @rest, too. While both are less than one, either waits with all of it: each as often
 * as it has its part of that. Else either is given one, and the other waits with what is over. */
static void add_rest(struct rest *r, uint64_t *share, size_t i, unsigned __int128 rest)
{
	unsigned __int128 both = r->waits + rest;
	bool full = both >= r->one;
	bool later = full ? drawn(r, r->one - rest, 2 * r->one - both) : drawn(r, rest, both);

	if (full)
		share[later ? r->of : i]++;
	r->of = later ? i : r->of;
	r->waits = full ? both - r->one : both;
}

void apportion(uint64_t *weight, size_t n, uint64_t total)
{
	struct rest r = { .state = 1 };

	for (size_t i = 0; i < n; i++)
		r.one += weight[i];
	for (size_t i = 0; i < n && r.one; i++) {
		unsigned __int128 share = (unsigned __int128)weight[i] * total;

		weight[i] = (uint64_t)(share / r.one);
		if (share % r.one)
			add_rest(&r, weight, i, share % r.one);
	}
}
