/* SPDX-License-Identifier: MIT
 *
 * draw - distances drawn at random, so that no program's own rhythm is sampled at one place.
 */
#ifndef DRAW_H
#define DRAW_H

#include <stdint.h>

/* From half to one and a half of @mean, each as likely. @state: any value but 0 at first, of this
 * draw alone (xorshift64*). */
static inline uint64_t draw_around(uint64_t *state, uint64_t mean)
{
	uint64_t drawn;

	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	drawn = *state * 0x2545f4914f6cdd1d >> 32;
	return mean / 2 + (uint64_t)((unsigned __int128)mean * drawn >> 32);
}

#endif
