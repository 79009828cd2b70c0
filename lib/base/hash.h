/* SPDX-License-Identifier: MIT
 *
 * hash - where things stand in hash tables: one way for all tables that targets feed.
 *
 * Targets choose keys: names, numbers, addresses, inodes. Two factors that are random in each
 * run keep them from choosing equal places. Values are told to nobody and written nowhere.
 */
#ifndef HASH_H
#define HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Written once, before main(). */
extern struct hash_seed {
	uint64_t begin, factor; /* the latter is odd */
} hash_seed;

/* A hash that goes on with @v. Once more, with whatever value, and all bits of @v have reached
 * its lower half. */
static inline uint64_t hash_more(uint64_t hash, uint64_t v)
{
	hash = (hash ^ v) * hash_seed.factor;
	return hash ^ hash >> 32;
}

static inline uint64_t hash_u64(uint64_t v)
{
	return hash_more(hash_more(hash_seed.begin, v), 0);
}

static inline uint64_t hash_pair(uint64_t a, uint64_t b)
{
	return hash_more(hash_more(hash_more(hash_seed.begin, a), b), 0);
}

/* Goes on with @n bytes and with @n. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	uint64_t v, length = n;

	for (; n >= sizeof(v); at += sizeof(v), n -= sizeof(v)) {
		memcpy(&v, at, sizeof(v));
		hash = hash_more(hash, v);
	}
	for (v = 0; n; at++, n--)
		v = v << 8 | *at;
	return hash_more(hash_more(hash, v), length);
}

#endif
