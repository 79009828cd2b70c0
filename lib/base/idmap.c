/* SPDX-License-Identifier: MIT
 *
 * idmap - open addressing; a forgotten key keeps its place until the next growth.
 */
#include "base/hash.h"
#include "base/idmap.h"

#include <errno.h>
#include <stdbool.h>

#include "base/base.h"

struct idmap_entry {
	uint64_t key;
	uint32_t val;
	bool used;
};

void idmap_deinit(struct idmap *m)
{
	free(m->at);
	*m = (struct idmap){};
}

size_t idmap_bytes(const struct idmap *m)
{
	return m->cap * sizeof(*m->at);
}

/* The entry of @key, or the free one where it would stand. */
static struct idmap_entry *idmap_find(const struct idmap *m, uint64_t key)
{
	uint32_t mask = m->cap - 1;
	uint32_t i = (uint32_t)hash_u64(key) & mask;

	while (m->at[i].used && m->at[i].key != key)
		i = (i + 1) & mask;
	return &m->at[i];
}

uint32_t idmap_get(const struct idmap *m, uint64_t key)
{
	const struct idmap_entry *e = m->cap ? idmap_find(m, key) : NULL;

	return e && e->used ? e->val : (uint32_t)IDMAP_NONE;
}

static uint32_t idmap_live(const struct idmap *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->cap; i++)
		n += m->at[i].used && m->at[i].val != IDMAP_NONE;
	return n;
}

static int idmap_grow(struct idmap *m)
{
	uint32_t want = idmap_live(m) * 4;
	struct idmap new = { .cap = 64 };

	while (new.cap < want)
		new.cap *= 2;
	new.at = calloc(new.cap, sizeof(*new.at));
	if (!new.at)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->cap; i++)
		if (m->at[i].used && m->at[i].val != IDMAP_NONE) {
			*idmap_find(&new, m->at[i].key) = m->at[i];
			new.n++;
		}
	free(m->at);
	*m = new;
	return 0;
}

int idmap_set(struct idmap *m, uint64_t key, uint32_t val)
{
	struct idmap_entry *e;

	if (m->n >= m->cap / 2 && idmap_grow(m))
		return -ENOMEM;
	e = idmap_find(m, key);
	m->n += !e->used;
	*e = (struct idmap_entry){ .key = key, .val = val, .used = true };
	return 0;
}

void idmap_forget(struct idmap *m, uint64_t key)
{
	struct idmap_entry *e = m->cap ? idmap_find(m, key) : NULL;

	if (e && e->used)
		e->val = IDMAP_NONE;
}
