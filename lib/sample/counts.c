/* SPDX-License-Identifier: MIT */
#include "sample/counts.h"

#include <stdbool.h>

#include "base/hash.h"
#include "base/base.h"

struct row {
	uint64_t id; /* 0: free */
	uint64_t value;
	pid_t tid;
};

struct counts {
	struct row *row;
	size_t n, cap; /* a power of two */
};

struct counts *counts_create(void)
{
	struct counts *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->cap = 256;
	c->row = calloc(c->cap, sizeof(*c->row));
	if (c->row)
		return c;
	free(c);
	return NULL;
}

void counts_destroy(struct counts *c)
{
	if (!c)
		return;
	free(c->row);
	free(c);
}

static struct row *place_of(struct row *rows, size_t cap, pid_t tid, uint64_t id)
{
	uint64_t hash = hash_pair(id, (uint64_t)tid);
	size_t at = hash & (cap - 1);

	while (rows[at].id && (rows[at].id != id || rows[at].tid != tid))
		at = (at + 1) & (cap - 1);
	return &rows[at];
}

/* False: no memory. */
static bool grow(struct counts *c)
{
	struct row *rows = calloc(2 * c->cap, sizeof(*rows));

	if (!rows)
		return false;
	for (size_t i = 0; i < c->cap; i++)
		if (c->row[i].id)
			*place_of(rows, 2 * c->cap, c->row[i].tid, c->row[i].id) = c->row[i];
	free(c->row);
	c->row = rows;
	c->cap *= 2;
	return true;
}

uint64_t counts_since(struct counts *c, pid_t tid, const struct counts_read *now)
{
	struct row *r;
	uint64_t last;

	if (!now->id || (2 * c->n >= c->cap && !grow(c)))
		return 0;
	r = place_of(c->row, c->cap, tid, now->id);
	c->n += !r->id;
	/* Less than before: another thread that got the number. */
	last = now->value < r->value ? 0 : r->value;
	*r = (struct row){ .id = now->id, .value = now->value, .tid = tid };
	return now->value - last;
}
