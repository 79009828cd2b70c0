/* SPDX-License-Identifier: MIT
 *
 * strtab - an arena of strings and an open-addressed table of their ids.
 */
#include "base/hash.h"
#include "base/strtab.h"

#include "base/base.h"

enum { STRTAB_CHUNK = 64 * 1024, STRTAB_MAX_IDS = 1 << 28 };

struct strtab_chunk {
	struct strtab_chunk *next;
	size_t n, cap;
	char text[];
};

struct strtab_entry {
	const char *text;
	uint32_t n, hash; /* the lower half */
};

struct strtab {
	struct strtab_chunk *chunk; /* the newest first */
	size_t text_bytes;	    /* of all chunks */
	struct strtab_entry *entry;
	uint32_t n, cap;
	uint32_t *slot;	  /* id + 1, 0 is free */
	uint32_t n_slots; /* a power of two, more than 2 * n */
};

static uint32_t strtab_hash(const char *s, size_t n)
{
	return (uint32_t)hash_bytes(hash_seed.begin, s, n);
}

struct strtab *strtab_create(void)
{
	return calloc(1, sizeof(struct strtab));
}

void strtab_destroy(struct strtab *t)
{
	if (!t)
		return;
	while (t->chunk) {
		struct strtab_chunk *next = t->chunk->next;

		free(t->chunk);
		t->chunk = next;
	}
	free(t->entry);
	free(t->slot);
	free(t);
}

static const char *strtab_keep(struct strtab *t, const char *s, size_t n)
{
	struct strtab_chunk *c = t->chunk;
	char *ret;

	if (!c || n >= c->cap - c->n) {
		size_t cap = MAX((size_t)STRTAB_CHUNK, n + 1);

		c = malloc(sizeof(*c) + cap);
		if (!c)
			return NULL;
		*c = (struct strtab_chunk){ .next = t->chunk, .cap = cap };
		t->chunk = c;
		t->text_bytes += cap;
	}
	ret = c->text + c->n;
	memcpy(ret, s, n);
	ret[n] = '\0';
	c->n += n + 1;
	return ret;
}

static uint32_t *strtab_slot(const struct strtab *t, uint32_t hash, const char *s, size_t n)
{
	uint32_t mask = t->n_slots - 1, i = hash & mask;

	for (; t->slot[i]; i = (i + 1) & mask) {
		const struct strtab_entry *e = &t->entry[t->slot[i] - 1];

		if (e->hash == hash && e->n == n && !memcmp(e->text, s, n))
			break;
	}
	return &t->slot[i];
}

/* Room for one more entry. */
static int strtab_grow(struct strtab *t)
{
	uint32_t n = t->n_slots ? t->n_slots * 2 : 64;
	struct strtab_entry *entry;
	uint32_t *slot;

	if (t->n < t->cap)
		return 0;
	if (t->n >= STRTAB_MAX_IDS)
		return -1;
	entry = realloc(t->entry, n / 2 * sizeof(*entry));
	if (!entry)
		return -1;
	t->entry = entry;
	slot = calloc(n, sizeof(*slot));
	if (!slot)
		return -1;
	free(t->slot);
	t->slot = slot;
	t->n_slots = n;
	t->cap = n / 2;
	for (uint32_t i = 0; i < t->n; i++) { /* they differ: none is compared */
		uint32_t at = entry[i].hash & (n - 1);

		while (slot[at])
			at = (at + 1) & (n - 1);
		slot[at] = i + 1;
	}
	return 0;
}

uint32_t strtab_find(const struct strtab *t, const char *s, size_t n)
{
	uint32_t slot = t->n_slots ? *strtab_slot(t, strtab_hash(s, n), s, n) : 0;

	return slot ? slot - 1 : STRTAB_NONE;
}

uint32_t strtab_add(struct strtab *t, const char *s, size_t n)
{
	uint32_t hash = strtab_hash(s, n);
	const char *text;
	uint32_t *slot;

	if (t->n_slots) {
		slot = strtab_slot(t, hash, s, n);
		if (*slot)
			return *slot - 1;
	}
	if (n > UINT32_MAX || strtab_grow(t))
		return STRTAB_NONE;
	text = strtab_keep(t, s, n);
	if (!text)
		return STRTAB_NONE;
	t->entry[t->n] = (struct strtab_entry){ text, (uint32_t)n, hash };
	*strtab_slot(t, hash, s, n) = t->n + 1;
	return t->n++;
}

const char *strtab_get(const struct strtab *t, uint32_t id)
{
	return t->entry[id].text;
}

size_t strtab_len(const struct strtab *t, uint32_t id)
{
	return t->entry[id].n;
}

uint32_t strtab_count(const struct strtab *t)
{
	return t->n;
}

size_t strtab_bytes(const struct strtab *t)
{
	return t->text_bytes + t->cap * sizeof(*t->entry) + t->n_slots * sizeof(*t->slot);
}
