/* SPDX-License-Identifier: MIT
 *
 * hottest - counts Python functions in samples, and prints the first ten.
 */
#include "hottest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/array.h"
#include "../output/kept.h"
#include "base/base.h"
#include "cmd.h"

enum { ROWS = 10 };

struct row {
	const struct pyfunc *func; /* NULL: never met */
	uint64_t self, total;
	uint64_t last; /* the sample that it was last counted for */
};

struct hottest {
	struct row *rows; /* [func->index] */
	size_t n;
	_Atomic uint64_t taken; /* samples of all events */
	uint64_t samples;	/* those in the rows: of the first event, kept */
	uint64_t weight;	/* what these count for */
};

static struct row *row_of(struct hottest *h, const struct pyfunc *func)
{
	size_t before = h->n;

	if (!array_reserve(&h->rows, &h->n, (size_t)func->index + 1, sizeof(*h->rows)))
		return NULL;
	memset(h->rows + before, 0, (h->n - before) * sizeof(*h->rows));
	h->rows[func->index].func = func;
	return &h->rows[func->index];
}

uint64_t hottest_samples(const struct sink *s)
{
	const struct hottest *h = s->priv;

	return atomic_load_explicit(&h->taken, memory_order_relaxed);
}

static int hottest_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct hottest *h = s->priv;
	uint64_t weight = kept_weight(s->session, smp);
	bool inner = true;

	atomic_store_explicit(&h->taken, hottest_samples(s) + 1, memory_order_relaxed);
	if (smp->event || !kept_sample(s, smp))
		return 0;
	h->samples++;
	h->weight += weight;
	for (size_t i = 0; i < stk->n; i++) {
		struct row *row;

		if (stk->frames[i].kind != FRAME_PYTHON)
			continue;
		row = row_of(h, stk->frames[i].func);
		if (!row)
			return -ENOMEM;
		row->self += inner ? weight : 0;
		row->total += row->last != h->samples ? weight : 0;
		row->last = h->samples;
		inner = false;
	}
	return 0;
}

static const struct sink_ops ops = { .name = "hottest", .sample = hottest_sample };

struct sink hottest_sink(const struct session *session)
{
	return (struct sink){ .ops = &ops,
			      .session = session,
			      .folder = -1,
			      .priv = calloc(1, sizeof(struct hottest)) };
}

static int by_self(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return COMPARE(y->self, x->self) ?: COMPARE(y->total, x->total);
}

void hottest_print(const struct sink *s, FILE *to)
{
	struct hottest *h = s->priv;
	size_t n = 0;

	for (size_t i = 0; h && i < h->n; i++)
		if (h->rows[i].func)
			h->rows[n++] = h->rows[i];
	if (!n)
		return;
	h->n = n;
	qsort(h->rows, n, sizeof(*h->rows), by_self);
	if (s->session->flags & SESSION_WALL)
		fprintf(to, "  self  total  of %.1f s of all threads, by Python function\n",
			(double)h->weight / 1e9);
	else
		fprintf(to,
			"  self  total  of %" PRIu64 " samples of %s, by Python function\n",
			h->samples, s->session->events[0].name);
	for (size_t i = 0; i < MIN(n, (size_t)ROWS); i++) {
		char room[CMD_SHORT];

		cmd_line(to, "%5.1f%% %5.1f%%  %s (%s:%d)",
			 100 * (double)h->rows[i].self / (double)h->weight,
			 100 * (double)h->rows[i].total / (double)h->weight,
			 cmd_short(h->rows[i].func->qualname, room), h->rows[i].func->file,
			 h->rows[i].func->firstline);
	}
}

void hottest_deinit(struct sink *s)
{
	struct hottest *h = s->priv;

	if (h)
		free(h->rows);
	free(h);
	s->priv = NULL;
}
