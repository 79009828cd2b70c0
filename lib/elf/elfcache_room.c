/* SPDX-License-Identifier: MIT
 *
 * elfcache_room - how much modules take, and which is dropped when the cache is full.
 */
#include "base/stats.h"
#include "elf/elfcache_int.h"
#include "elf/module.h"

/* Lookups: what was not asked for since makes room even where there is little. */
enum { IDLE = 10000 };

void elfcache_close_both(int fd, int root)
{
	if (fd >= 0)
		close(fd);
	if (root >= 0)
		close(root);
}

void elfcache_forget(struct elfcache *c, struct elfcache_elf *e)
{
	c->bytes -= e->bytes;
	e->bytes = 0;
	module_free(e->module);
	e->module = NULL;
}

void elfcache_drop(struct elfcache *c, struct elfcache_elf *e)
{
	c->facts.dropped++;
	elfcache_forget(c, e);
}

/* The module that was not asked for longest, other than @keep's. */
static struct elfcache_elf *find_oldest(const struct elfcache *c,
					const struct elfcache_elf *keep)
{
	struct elfcache_elf *oldest = NULL;

	for (size_t i = 0; i < ELFCACHE_BUCKETS; i++)
		for (struct elfcache_elf *e = c->bucket[i]; e; e = e->next)
			if (e != keep && e->state == ELF_READ && e->module &&
			    (!oldest || e->used < oldest->used))
				oldest = e;
	return oldest;
}

/* It made room a moment ago and is here again: those that are in use have too little. */
static bool goes_round(const struct elfcache *c, const struct elfcache_elf *e)
{
	return c->most_bytes && e->gone && c->clock - e->gone < IDLE;
}

/* Where there is too little, two that are asked for in turn would be read again and again. */
static void make_room(struct elfcache *c, const struct elfcache_elf *keep, bool tight)
{
	uint64_t idle = tight ? IDLE : 0;
	struct elfcache_elf *e;

	while (c->bytes > c->max_bytes && (e = find_oldest(c, keep)) &&
	       c->clock - e->used >= idle) {
		elfcache_drop(c, e);
		e->gone = c->clock;
		e->state = e->image.at ? ELF_IMAGE : ELF_NO_FILE;
	}
}

static struct elfcache_elf *find_largest(const struct elfcache *c)
{
	struct elfcache_elf *largest = NULL;

	for (size_t i = 0; i < ELFCACHE_BUCKETS; i++)
		for (struct elfcache_elf *e = c->bucket[i]; e; e = e->next)
			if (e->module && (!largest || e->bytes > largest->bytes))
				largest = e;
	return largest;
}

static void give_up(struct elfcache *c, struct elfcache_elf *e)
{
	elfcache_drop(c, e);
	e->state = ELF_BAD;
	if (c->stats)
		STATS_ADD(c->stats, nameless, 1);
}

/* A module's rows grow. Where there is little room, one that has none is given up; where those
 * in use have too little, the largest of them: others are on more stacks. */
void elfcache_count_bytes(struct elfcache *c, struct elfcache_elf *e)
{
	size_t bytes = e->module ? module_bytes(e->module) : 0;
	bool grows = goes_round(c, e);
	struct elfcache_elf *large;

	if (bytes == e->bytes)
		return;
	c->bytes += bytes - e->bytes;
	e->bytes = bytes;
	if (grows)
		c->max_bytes = MAX(c->max_bytes, MIN(c->bytes, c->most_bytes));
	make_room(c, e, c->little || grows);
	if (c->bytes > c->max_bytes && c->little)
		give_up(c, e);
	while (grows && c->bytes > c->max_bytes && (large = find_largest(c)))
		give_up(c, large);
}
