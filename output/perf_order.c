/* SPDX-License-Identifier: MIT
 *
 * perf_order - sorts what waits, tells the older part and keeps the rest.
 */
#include "perf_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { MAX_WAITING = 32 << 20 /* bytes */ };

struct mark {
	uint64_t time;
	size_t at; /* in the bytes: also their order */
};

void perf_order_deinit(struct perf_order *o)
{
	buf_deinit(&o->bytes);
	buf_deinit(&o->marks);
}

static int by_time(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return COMPARE(x->time, y->time) ?: COMPARE(x->at, y->at);
}

static struct mark *marks_of(const struct perf_order *o, size_t *n)
{
	*n = o->marks.n / sizeof(struct mark);
	return (struct mark *)(void *)o->marks.at;
}

/* Keep those from the mark @from on, in their order of time. */
static int keep_rest(struct perf_order *o, size_t from)
{
	struct buf bytes = { 0 }, marks = { 0 };
	struct perf_event_header h;
	size_t n;
	struct mark *mark = marks_of(o, &n);

	for (size_t i = from; i < n; i++) {
		struct mark m = { mark[i].time, bytes.n };

		memcpy(&h, o->bytes.at + mark[i].at, sizeof(h));
		buf_put(&bytes, o->bytes.at + mark[i].at, h.size);
		buf_align(&bytes, 8);
		buf_put(&marks, &m, sizeof(m));
	}
	buf_deinit(&o->bytes);
	buf_deinit(&o->marks);
	o->bytes = bytes;
	o->marks = marks;
	return bytes.oom || marks.oom ? -ENOMEM : 0;
}

/* Tell those up to @time, or @n_least of them. None is told again, whatever the answer was. */
static int tell_up_to(struct perf_order *o, uint64_t time, size_t n_least, perf_order_fn *tell,
		      void *arg)
{
	size_t n, i;
	struct mark *mark = marks_of(o, &n);
	int ret = 0, kept = 0;

	if (n)
		qsort(mark, n, sizeof(*mark), by_time);
	for (i = 0; !ret && i < n && (mark[i].time <= time || i < n_least); i++)
		ret = tell(arg, (const struct perf_event_header *)(const void *)(o->bytes.at +
										 mark[i].at));
	if (i && i < n)
		kept = keep_rest(o, i);
	else if (i)
		o->bytes.n = o->marks.n = 0;
	return kept ? kept : ret;
}

int perf_order_put(struct perf_order *o, const struct perf_event_header *h, uint64_t time,
		   perf_order_fn *tell, void *arg)
{
	struct mark m = { time, o->bytes.n };
	size_t n;

	buf_put(&o->bytes, h, h->size);
	buf_align(&o->bytes, 8);
	buf_put(&o->marks, &m, sizeof(m));
	if (o->bytes.oom || o->marks.oom)
		return -ENOMEM;
	if (time > o->newest)
		o->newest = time;
	marks_of(o, &n);
	return o->bytes.n > MAX_WAITING ? tell_up_to(o, o->safe, (n + 1) / 2, tell, arg) : 0;
}

int perf_order_round(struct perf_order *o, bool all, perf_order_fn *tell, void *arg)
{
	uint64_t safe = all ? UINT64_MAX : o->safe;

	o->safe = o->newest;
	return tell_up_to(o, safe, 0, tell, arg);
}
