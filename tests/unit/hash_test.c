/* SPDX-License-Identifier: MIT
 *
 * hash: keys that are chosen for equal places stand apart in another run.
 */
#include <stdbool.h>
#include <stdio.h>

#include "unit.h"
#include "base/base.h"
#include "base/hash.h"

enum { KEYS = 64, PLACES = 1024 };

static uint64_t pair_of(uint64_t key)
{
	return hash_pair(1, key);
}

static uint64_t bytes_of(uint64_t key)
{
	char text[32];

	return hash_bytes(1, text, (size_t)snprintf(text, sizeof(text), "f%lu", key));
}

/* How many places the keys take. */
static size_t places(uint64_t (*hash)(uint64_t), const uint64_t *key)
{
	bool taken[PLACES] = { false };
	size_t n = 0;

	for (size_t i = 0; i < KEYS; i++) {
		bool *at = &taken[hash(key[i]) % PLACES];

		n += !*at;
		*at = true;
	}
	return n;
}

static void chosen_keys_stand_apart(void **state)
{
	uint64_t (*const hashes[])(uint64_t) = { hash_u64, pair_of, bytes_of };
	const struct hash_seed own = hash_seed;

	assert_true(own.factor & 1 && own.factor != 1);
	for (size_t h = 0; h < ARRAY_SIZE(hashes); h++) {
		uint64_t key[KEYS], k = 0;

		hash_seed = (struct hash_seed){ 12345, 0x9e3779b97f4a7c15 };
		for (size_t n = 0; n < KEYS; k++)
			if (hashes[h](k) % PLACES == 7)
				key[n++] = k;
		assert_int_equal(places(hashes[h], key), 1);
		hash_seed = own;
		assert_true(places(hashes[h], key) > KEYS / 2);
	}
}

/* Keys of one residue, as inodes and addresses may be. */
static void residues_stand_apart(void **state)
{
	uint64_t key[KEYS];

	for (unsigned shift = 0; shift < 50; shift++) {
		for (size_t i = 0; i < KEYS; i++)
			key[i] = (uint64_t)i << shift;
		assert_true(places(hash_u64, key) > KEYS / 2);
	}
}

static void all_bytes_count(void **state)
{
	static const char text[] = "0123456789abcdef";

	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		char other[sizeof(text)];

		assert_int_equal(hash_bytes(1, text, n), hash_bytes(1, text, n));
		assert_int_not_equal(hash_bytes(1, text, n), hash_bytes(1, text, n + 1));
		memcpy(other, text, sizeof(text));
		other[n] ^= 1;
		assert_int_not_equal(hash_bytes(1, text, 16), hash_bytes(1, other, 16));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chosen_keys_stand_apart),
		cmocka_unit_test(residues_stand_apart),
		cmocka_unit_test(all_bytes_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
