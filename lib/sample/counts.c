/* SPDX-License-Identifier: MIT */
#include "sample/counts.h"

#include <stdbool.h>

#include "base/hash.h"
#include "base/base.h"
#include "sys/proc.h"

enum { ENDED = 200 };

struct row {
	uint64_t id; /* 0: free */
	uint64_t value;
	pid_t tid;
};

struct counts {
	struct row *row;
	size_t n, cap; /* a power of two */
	pid_t ended[ENDED]; /* whose rows are taken out when there are so many */
	size_t n_ended;
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

static size_t hash_of(pid_t tid, uint64_t id)
{
	return hash_pair(id, (uint64_t)tid);
}

static struct row *place_of(struct row *rows, size_t cap, pid_t tid, uint64_t id)
{
	size_t at = hash_of(tid, id) & (cap - 1);

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

static bool has_ended(const struct counts *c, pid_t tid)
{
	return bsearch(&tid, c->ended, c->n_ended, sizeof(tid), proc_compare_pids);
}

/* Those behind it that it kept from their places move up. */
static void take_out(struct counts *c, size_t hole)
{
	size_t mask = c->cap - 1;

	for (size_t i = (hole + 1) & mask; c->row[i].id; i = (i + 1) & mask) {
		size_t home = hash_of(c->row[i].tid, c->row[i].id) & mask;

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		c->row[hole] = c->row[i];
		hole = i;
	}
	c->row[hole] = (struct row){ 0 };
	c->n--;
}

static void take_ended_out(struct counts *c)
{
	qsort(c->ended, c->n_ended, sizeof(*c->ended), proc_compare_pids);
	for (size_t i = 0; i < c->cap; i++)
		while (c->row[i].id && has_ended(c, c->row[i].tid))
			take_out(c, i);
	c->n_ended = 0;
}

void counts_forget(struct counts *c, pid_t tid)
{
	if (!c->n)
		return;
	c->ended[c->n_ended++] = tid;
	if (c->n_ended == ENDED)
		take_ended_out(c);
}
