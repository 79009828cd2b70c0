/* SPDX-License-Identifier: MIT
 *
 * perf_chains - a table by hash; the bytes themselves decide.
 */
#include "perf_chains.h"

#include <string.h>

#include "base/hash.h"

enum { MAX_BYTES = 96 << 20, MAX_KNOWN = 1 << 22 };

struct known {
	size_t at, n; /* in the bytes: the key and the addresses */
	struct perf_chain chain;
};

void perf_chains_deinit(struct perf_chains *c)
{
	buf_deinit(&c->bytes);
	buf_deinit(&c->known);
	idmap_deinit(&c->at);
}

static struct known *known_at(const struct perf_chains *c, size_t i)
{
	return (struct known *)(void *)c->known.at + i;
}

/* The two are one as far as their bytes are. */
static bool is_same(const struct perf_chains *c, const struct known *k, const uint64_t key[2],
		    const unsigned char *chain, size_t n)
{
	const unsigned char *at = c->bytes.at + k->at;

	return k->n == n && !memcmp(at, key, 16) && !memcmp(at + 16, chain, 8 * n);
}

static struct perf_chain *add(struct perf_chains *c, uint64_t hash, const uint64_t key[2],
			      const unsigned char *chain, size_t n)
{
	struct known k = { .at = c->bytes.n, .n = n };
	size_t i = c->known.n / sizeof(k);

	if (i >= MAX_KNOWN || 8 * n + 16 > MAX_BYTES - c->bytes.n ||
	    idmap_set(&c->at, hash, (uint32_t)i))
		return NULL;
	k.chain = (struct perf_chain){ .same = (uint32_t)i + 1, .fresh = true };
	buf_put(&c->bytes, key, 16);
	buf_put(&c->bytes, chain, 8 * n);
	buf_put(&c->known, &k, sizeof(k));
	return c->bytes.oom || c->known.oom ? NULL : &known_at(c, i)->chain;
}

struct perf_chain *perf_chains_find(struct perf_chains *c, const uint64_t key[2],
				    const unsigned char *chain, size_t n)
{
	uint64_t hash = hash_bytes(hash_more(hash_more(hash_seed.begin, key[0]), key[1]),
				   chain, 8 * n);
	uint32_t i = idmap_get(&c->at, hash);

	if (c->bytes.oom || c->known.oom)
		return NULL;
	if (i == IDMAP_NONE)
		return add(c, hash, key, chain, n);
	return is_same(c, known_at(c, i), key, chain, n) ? &known_at(c, i)->chain : NULL;
}
