/* SPDX-License-Identifier: MIT
 *
 * damage - what becomes of a look at a made-up CPython if one word that it reads is another, or
 * can't be read: for the tests of functions that keep nothing from look to look.
 *
 * Nobody can say of each word what is right. But a change of the sums is a change of what is
 * believed: its commit says why. A test that fails prints the sums that would pass.
 */
#ifndef DAMAGE_H
#define DAMAGE_H

#include "pyworld.h"

/* How often each of what a look() can say came out. */
enum { DAMAGE_ENDS = 8 };
struct damage {
	uint64_t sums[DAMAGE_ENDS];
};

/* What @look(@arg) says, for one word. */
static inline void damage_word(struct damage *d, struct world *w, raddr at,
			       int (*look)(void *arg), void *arg)
{
	struct rmem_chunk were[ARRAY_SIZE(w->chunks)];
	uint64_t was = load_u64(world_mem(w, at));
	const uint64_t values[] = { 0,	     UINT64_MAX, WORLD_NOWHERE, was ^ 1,
				    was + 8, was - 8,	 was + 1,	was ^ 0x100,
				    was + (1ull << 32) };

	memcpy(were, w->chunks, sizeof(were));
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		memcpy(world_mem(w, at), &values[i], 8);
		d->sums[look(arg)]++;
	}
	memcpy(world_mem(w, at), &was, 8);
	world_hole(w, at, 8);
	d->sums[look(arg)]++;
	memcpy(w->chunks, were, sizeof(were));
}

/* The words of @w that @look(@arg) reads. */
static inline void damage_log(struct world *w, struct world_log *ret, int (*look)(void *arg),
			      void *arg)
{
	ret->n = 0;
	memset(ret->seen, 0, sizeof(ret->seen));
	w->log = ret;
	look(arg);
	w->log = NULL;
}

/* What @look(@arg) says, which is below DAMAGE_ENDS, for each word that it reads of @w, one at a
 * time, for each of some values, and where nothing can be read there. */
static inline void damage_reads(struct damage *d, struct world *w, int (*look)(void *arg),
				void *arg)
{
	static struct world_log log;

	damage_log(w, &log, look, arg);
	for (size_t i = 0; i < log.n; i++)
		damage_word(d, w, log.at[i], look, arg);
}

/* The same of @n of those words that are not 0, chosen by *@random, which goes on. */
static inline void damage_any(struct damage *d, struct world *w, int (*look)(void *arg), void *arg,
			      size_t n, uint32_t *random)
{
	static struct world_log log;

	damage_log(w, &log, look, arg);
	for (size_t i = 0; n && i < log.n; i++) {
		raddr at;

		*random = *random * 1664525u + 1013904223u;
		at = log.at[(*random >> 8) % log.n];
		if (!load_u64(world_mem(w, at)))
			continue;
		damage_word(d, w, at, look, arg);
		n--;
	}
}

/* Objects that arguments of one call make lie in the order that the compiler chose. Sums of such
 * a world are gcc's. */
static inline void damage_is_of_gcc(void)
{
#ifdef __clang__
	skip();
#endif
}

static inline void damage_expect(const struct damage *d, const uint64_t want[DAMAGE_ENDS])
{
	char text[256], *p = text;

	if (memcmp(d->sums, want, sizeof(d->sums)) == 0)
		return;
	for (int i = 0; i < DAMAGE_ENDS; i++)
		p += sprintf(p, "%s%llu", i ? ", " : "", (unsigned long long)d->sums[i]);
	fail_msg("{ %s }", text);
}

#endif
