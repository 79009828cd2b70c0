/* SPDX-License-Identifier: MIT
 *
 * perf_cursor - reads a record of perf's from its front, never beyond its end. It is .inc.h
 * for tools/mutate, which plants in code.
 */
#ifndef PERF_CURSOR_INC_H
#define PERF_CURSOR_INC_H

#include <linux/perf_event.h>
#include <stdbool.h>

#include "base/base.h"

/* What is left of a record. */
struct perf_cursor {
	const unsigned char *p;
	size_t left;
	bool bad; /* more was asked for than there is */
};

/* The next @n bytes, or NULL. */
static inline const unsigned char *perf_take(struct perf_cursor *c, size_t n)
{
	const unsigned char *p = c->p;

	if (n > c->left) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	c->left -= n;
	return p;
}

/* The next word; 0: there is none. */
static inline uint64_t perf_take_u64(struct perf_cursor *c)
{
	const unsigned char *p = perf_take(c, 8);

	return p ? load_u64(p) : 0;
}

static inline uint32_t perf_take_u32(struct perf_cursor *c)
{
	const unsigned char *p = perf_take(c, 4);

	return p ? load_u32(p) : 0;
}

/* What stands behind the header. */
static inline struct perf_cursor perf_body(const struct perf_event_header *h)
{
	return (struct perf_cursor){
		.p = (const unsigned char *)(h + 1),
		.left = h->size < sizeof(*h) ? 0 : h->size - sizeof(*h),
	};
}

#endif
