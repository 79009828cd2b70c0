/* SPDX-License-Identifier: MIT
 *
 * gecko - the JSON that the Firefox Profiler opens: its processed profile, with a track for
 * each thread, and for each event if there are several.
 *
 * Version 48 of the format: docs-developer/CHANGELOG-formats.md and src/types/profile.js of
 * github.com/firefox-devtools/profiler. Later versions are made from it by the profiler.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "copies.h"
#include "gecko_track.h"
#include "gzip.h"
#include "json.h"
#include "perf_event.h"
#include "tree.h"

/* From so many on, further samples of a stack that was there before are added to those: memory
 * is bounded, and the sums are right. */
enum { MOMENTS_MAX = 1 << 20 };

struct gecko {
	struct tree tree; /* first: what tree_*() find in the sink */
	struct buf moments;
	struct buf weights; /* uint64_t each, of @moments, with SESSION_PERIOD */
	struct buf of_row; /* uint32_t each: how many of the row's samples are in @moments */
};

static const char *const categories[] = { "Other", "Python", "Native", "Kernel", "GC" };
static const char *const colors[] = { "grey", "yellow", "blue", "orange", "purple" };

/* --- while it records --- */

static int gecko_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct gecko *g = s->priv;
	uint64_t before = s->samples;
	int ret = tree_sample(s, smp, stk);
	struct moment m = { smp->time, g->tree.last_row };
	uint32_t *n;

	if (ret || s->samples == before)
		return ret;
	while (g->of_row.n / 4 <= m.row && !g->of_row.oom)
		buf_u32(&g->of_row, 0);
	n = (uint32_t *)(void *)g->of_row.at + m.row;
	if (!g->of_row.oom && (!*n || g->moments.n / sizeof(m) < MOMENTS_MAX)) {
		buf_put(&g->moments, &m, sizeof(m));
		if (s->session->flags & SESSION_PERIOD)
			buf_u64(&g->weights, smp->period);
		++*n;
	}
	if (g->of_row.oom || g->moments.oom || g->weights.oom)
		s->failed = -ENOMEM;
	return s->failed;
}

/* --- the file --- */

/* The tracks of one thread. The first has the samples of further events as markers, too. */
static int put_thread(struct gecko_track *k, size_t thread, bool *any)
{
	const uint32_t *first = k->order->first + thread * k->session->n_events;
	size_t n = k->session->n_events, lead = 0;
	int ret = 0;

	while (lead < n && first[lead] == first[lead + 1])
		lead++;
	for (size_t e = lead; !ret && e < n; e++) {
		k->first = first[e];
		k->n = first[e + 1] - first[e];
		if (!k->n)
			continue;
		fputs(*any ? ",\n" : "\n", k->out);
		*any = true;
		ret = gecko_track_put(k, first[lead + 1],
				      e == lead ? first[n] : first[lead + 1]);
	}
	return ret;
}

/* What rows count beyond the weights of their moments: all where these have none. NULL: no
 * memory. */
static uint64_t *count_rest(const struct tree *t, const struct gecko *g)
{
	const struct moment *m = (const void *)g->moments.at;
	uint64_t *ret = calloc(tree_n_rows(t) + 1, sizeof(*ret));

	for (size_t i = 0; ret && i < tree_n_rows(t); i++)
		ret[i] = tree_row(t, i)->count;
	for (size_t i = 0; ret && i < g->weights.n / 8; i++)
		ret[m[i].row] -= load_u64(g->weights.at + 8 * i);
	return ret;
}

static int put_threads(struct gecko_track *k, const struct gecko *g)
{
	const struct buf *moments = &g->moments;
	struct gecko_order order;
	_cleanup_free_ uint32_t *done = calloc(tree_n_rows(k->t) + 1, sizeof(*done));
	_cleanup_free_ uint64_t *rest = count_rest(k->t, g);
	_cleanup_free_ uint32_t *node_row = calloc(tree_n_nodes(k->t) + 1, sizeof(*node_row));
	bool any = false;
	int ret = done && rest && node_row ?
			  gecko_order_init(&order, k->t, (const void *)moments->at,
					   moments->n / sizeof(struct moment),
					   k->session->n_events) :
			  -ENOMEM;

	if (ret)
		return ret;
	k->done = done;
	k->rest = rest;
	k->weights = g->weights.n ? (const void *)g->weights.at : NULL;
	k->node_row = node_row;
	k->of_row = (const void *)g->of_row.at;
	k->order = &order;
	for (size_t i = 0; !ret && i < tree_n_threads(k->t); i++)
		ret = put_thread(k, i, &any);
	gecko_order_deinit(&order);
	buf_deinit(&k->nodes);
	return ret;
}

/* Where the recording does not tell when it was, as if this machine had made it and run since. */
static void put_meta(struct gecko_track *k)
{
	const struct perf_event_attr *a = &k->session->events[0].attr;
	uint64_t began = (k->session->epoch_ns ?: clock_epoch_ns()) + k->session->start_ns;
	double interval = a->freq && a->sample_freq ? 1e3 / (double)a->sample_freq : 1;

	fprintf(k->out,
		"{\"meta\":{\"interval\":%.6f,\"startTime\":%.3f,\"processType\":0,"
		"\"product\":\"pysampled\",\"oscpu\":\"Linux\","
		"\"importedFrom\":\"pysampled " PYSAMPLED_VERSION
		"\",\"stackwalk\":1,\"debug\":false,\"version\":29,"
		"\"preprocessedProfileVersion\":48,\"symbolicated\":true,"
		"\"symbolicationNotSupported\":true,\"usesOnlyOneStackType\":true,"
		"\"doesNotUseFrameImplementation\":true,\"sourceCodeIsNotOnSearchfox\":true,"
		"\"markerSchema\":[{\"name\":\"event\",\"display\":[\"marker-chart\","
		"\"marker-table\",\"timeline-overview\"],\"tooltipLabel\":\"{marker.name}\","
		"\"tableLabel\":\"{marker.data.where}\",\"chartLabel\":\"{marker.data.where}"
		"\","
		"\"data\":[{\"key\":\"where\",\"label\":\"Function\",\"format\":\"string\","
		"\"searchable\":true}]}],\"extensions\":{\"length\":0,\"id\":[],\"name\":[],"
		"\"baseURL\":[]},\"categories\":[",
		interval, (double)began / 1e6);
	for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
		fprintf(k->out,
			"%s{\"name\":\"%s\",\"color\":\"%s\",\"subcategories\":[\"Other\"]}",
			i ? "," : "", categories[i], colors[i]);
	fputs("]},\n\"libs\":[],\"pages\":[],\"threads\":[", k->out);
}

static int write_to(struct sink *s, FILE *out)
{
	struct gecko_track k = { .t = s->priv, .session = s->session, .out = out };
	int ret = 0;

	for (size_t e = 0; !ret && e < s->session->n_events; e++) {
		k.event[e] = strtab_add(k.t->strings, s->session->events[e].name,
					strlen(s->session->events[e].name));
		ret = k.event[e] == STRTAB_NONE ? -ENOMEM : 0;
	}
	put_meta(&k);
	if (!ret)
		ret = put_threads(&k, s->priv);
	fputs("]}\n", out);
	return ret;
}

static ssize_t put_compressed(void *z, const char *p, size_t n)
{
	gzip_put(z, p, n);
	return (ssize_t)n;
}

static int write_compressed(struct sink *s)
{
	struct gzip *z = gzip_create(s->out);
	FILE *out =
		z ? fopencookie(z, "w", (cookie_io_functions_t){ .write = put_compressed }) :
		    NULL;
	int ret = out ? write_to(s, out) : -ENOMEM;

	if (out && fclose(out) && !ret)
		ret = -ENOMEM;
	if (z) {
		int end = gzip_finish(z);

		ret = ret ? ret : end;
	}
	return ret;
}

static int write_gecko(struct sink *s)
{
	return sink_ends_with(s->path, ".gz") ? write_compressed(s) : write_to(s, s->out);
}

static int gecko_copy(struct sink *s)
{
	return tree_copy(s, write_gecko);
}

static int gecko_end(struct sink *s, struct err *err)
{
	struct gecko *g = s->priv;

	buf_deinit(&g->moments);
	buf_deinit(&g->weights);
	buf_deinit(&g->of_row);
	return tree_end(s, err);
}

static const char *const extensions[] = { ".gecko.json", ".gecko.json.gz", NULL };

const struct sink_ops sink_gecko = {
	.name = "gecko",
	.extensions = extensions,
	.next = "open it at profiler.firefox.com: ",
	.help = "JSON for the Firefox Profiler: a track for each thread",
	.needs = SINK_NEEDS_NAMES | SINK_KNOWS_STACKS | SINK_IS_RESULT,
	.priv_size = sizeof(struct gecko),
	.begin = tree_begin,
	.side = tree_side,
	.sample = gecko_sample,
	.round = copies_round,
	.copy = gecko_copy,
	.finish = tree_places,
	.end = gecko_end,
};
