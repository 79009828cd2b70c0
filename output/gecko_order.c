/* SPDX-License-Identifier: MIT
 *
 * gecko_order - counts what each track has, then deals the samples out.
 */
#include "gecko_order.h"

#include <errno.h>
#include <stdlib.h>

#include "base/base.h"

static size_t track_of(const struct gecko_order *o, const struct tree *t, size_t i)
{
	const struct tree_row *row = tree_row(t, o->moments[i].row);

	return (size_t)row->thread * o->n_events + row->event;
}

static int by_time(const void *a, const void *b, void *moments)
{
	const struct moment *m = moments;
	uint32_t i = load_u32(a), k = load_u32(b);

	return COMPARE(m[i].time, m[k].time) ?: COMPARE(i, k);
}

/* Samples come in time order, all but those of several recordings. */
static void sort_track(const struct gecko_order *o, size_t from, size_t to)
{
	for (size_t i = from + 1; i < to; i++) {
		if (gecko_order_at(o, i - 1)->time <= gecko_order_at(o, i)->time)
			continue;
		qsort_r(o->at + from, to - from, sizeof(*o->at), by_time,
			(void *)(uintptr_t)o->moments);
		return;
	}
}

int gecko_order_init(struct gecko_order *o, const struct tree *t, const struct moment *moments,
		     size_t n, size_t n_events)
{
	size_t tracks = tree_n_threads(t) * n_events;
	_cleanup_free_ uint32_t *next = calloc(tracks + 1, sizeof(*next));

	*o = (struct gecko_order){ .moments = moments, .n_events = n_events };
	o->at = calloc(n + 1, sizeof(*o->at));
	o->first = calloc(tracks + 1, sizeof(*o->first));
	if (!next || !o->at || !o->first) {
		gecko_order_deinit(o);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		o->first[track_of(o, t, i) + 1]++;
	for (size_t i = 0; i < tracks; i++) {
		o->first[i + 1] += o->first[i];
		next[i] = o->first[i];
	}
	for (size_t i = 0; i < n; i++)
		o->at[next[track_of(o, t, i)]++] = (uint32_t)i;
	for (size_t i = 0; i < tracks; i++)
		sort_track(o, o->first[i], o->first[i + 1]);
	return 0;
}

void gecko_order_deinit(struct gecko_order *o)
{
	free(o->at);
	free(o->first);
	o->at = NULL;
	o->first = NULL;
}
