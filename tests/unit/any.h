/* SPDX-License-Identifier: MIT
 *
 * any - the same numbers in each run, for tests that draw their cases.
 */
#ifndef ANY_H
#define ANY_H

#include <stdint.h>

/* A number below @n. */
static inline uint32_t any(uint32_t n)
{
	static uint64_t x;

	x = x * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(x >> 33) % n;
}

#endif
