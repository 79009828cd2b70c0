/* SPDX-License-Identifier: MIT */
#include "stats.h"

#include "base.h"

struct stats stats;

static const struct {
	const char *name, *text;
	const _Atomic uint64_t *value;
} list[] = {
#define X(name, text) { #name, text, &stats.name },
	STATS_LIST
#undef X
};

const char *stats_at(size_t i, uint64_t *value, const char **text)
{
	if (i >= ARRAY_SIZE(list))
		return NULL;
	*value = atomic_load_explicit(list[i].value, memory_order_relaxed);
	*text = list[i].text;
	return list[i].name;
}
