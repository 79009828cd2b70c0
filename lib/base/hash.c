/* SPDX-License-Identifier: MIT
 *
 * hash - the factors of this run.
 */
#include "base/hash.h"

#include <sys/random.h>

struct hash_seed hash_seed;

__attribute__((constructor)) static void hash_init(void)
{
	/* short of random bytes, things are found all the same */
	if (getrandom(&hash_seed, sizeof(hash_seed), GRND_NONBLOCK) != sizeof(hash_seed))
		hash_seed = (struct hash_seed){ (uintptr_t)&hash_seed, 0x9e3779b97f4a7c15 };
	hash_seed.factor |= 1;
}
