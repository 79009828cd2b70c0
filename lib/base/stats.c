/* SPDX-License-Identifier: MIT
 *
 * stats - the names of the counters.
 */
#include "base/stats.h"

#include "base/base.h"

static const struct {
	const char *name, *text;
	size_t at; /* in struct stats */
} list[] = {
#define X(name, text) { #name, text, offsetof(struct stats, name) },
	STATS_LIST
#undef X
};

const char *stats_at(const struct stats *s, size_t i, uint64_t *value, const char **text)
{
	const _Atomic uint64_t *counter;

	if (i >= ARRAY_SIZE(list))
		return NULL;
	counter = (const void *)((const char *)s + list[i].at);
	*value = atomic_load_explicit(counter, memory_order_relaxed);
	*text = list[i].text;
	return list[i].name;
}
