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
#include <time.h>

#include "base/clock.h"
#include "copies.h"
#include "gzip.h"
#include "json.h"
#include "perf_event.h"
#include "tree.h"

/* A sample's place in time. From so many on, further ones of a stack that was there before are
 * added to those: memory is bounded, and the sums are right. */
enum { MOMENTS_MAX = 2 << 20 };

struct moment {
	uint64_t time;
	uint32_t row;
};

struct gecko {
	struct tree tree; /* first: what tree_*() find in the sink */
	struct buf moments;
	struct buf of_row; /* uint32_t each: how many of the row's samples are in @moments */
	double began_ms;   /* Unix time of the recording's start */
};

/* What one thread's tables hold: numbers of the tree's, in the order of the tables. */
struct table {
	struct buf ids;
	struct idmap local; /* a number of the tree's to its row */
};

struct track {
	const struct gecko *g;
	const struct tree *t;
	const struct session *session;
	FILE *out;
	const struct moment *const *at; /* the moments of the track, in time order */
	size_t n;
	uint32_t *done; /* by row: moments that were given their weight */
	struct table nodes, frames, funcs, strings;
};

static const char *const categories[] = { "Other", "Python", "Native", "Kernel", "GC" };
static const char *const colors[] = { "grey", "yellow", "blue", "orange", "purple" };
static const char *const kinds[] = { "marker", "python", "native", "kernel", "gc" };

/* --- while it records --- */

static int gecko_begin(struct sink *s, struct err *err)
{
	struct gecko *g = s->priv;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	g->began_ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6 -
		      (double)(now_ns() - s->session->start_ns) / 1e6;
	return tree_begin(s, err);
}

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
		++*n;
	}
	if (g->of_row.oom || g->moments.oom)
		s->failed = -ENOMEM;
	return s->failed;
}

/* --- tables --- */

static uint32_t local(struct table *t, uint32_t id)
{
	uint32_t i = idmap_get(&t->local, id);

	if (i != IDMAP_NONE)
		return i;
	i = (uint32_t)(t->ids.n / 4);
	buf_u32(&t->ids, id);
	t->ids.oom |= idmap_set(&t->local, id, i) != 0;
	return i;
}

static uint32_t rows_of(const struct table *t)
{
	return (uint32_t)(t->ids.n / 4);
}

static uint32_t id_of(const struct table *t, uint32_t i)
{
	return load_u32(t->ids.at + 4 * (size_t)i);
}

static void table_deinit(struct table *t)
{
	buf_deinit(&t->ids);
	idmap_deinit(&t->local);
}

/* ,"name":[ ... ] of a table of @n rows. */
static void column(struct track *k, const char *name, uint32_t n,
		   void (*cell)(struct track *k, uint32_t i))
{
	fprintf(k->out, ",\n\"%s\":[", name);
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			putc_unlocked(',', k->out);
		cell(k, i);
	}
	putc_unlocked(']', k->out);
}

static void same(struct track *k, const char *name, uint32_t n, const char *text)
{
	fprintf(k->out, ",\n\"%s\":[", name);
	for (uint32_t i = 0; i < n; i++)
		fprintf(k->out, "%s%s", i ? "," : "", text);
	putc_unlocked(']', k->out);
}

static void number(struct track *k, int64_t v)
{
	fprintf(k->out, "%" PRId64, v);
}

static void number_or_null(struct track *k, int v)
{
	if (v > 0)
		number(k, v);
	else
		fputs("null", k->out);
}

static const struct tree_frame *frame_at(const struct track *k, uint32_t i)
{
	return tree_frame(k->t, id_of(&k->frames, i));
}

static const struct tree_func *func_at(const struct track *k, uint32_t i)
{
	return tree_func(k->t, id_of(&k->funcs, i));
}

static uint32_t category_of(const struct track *k, uint32_t func)
{
	const char *kind = tree_kind(k->t, func);

	for (uint32_t i = 1; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i], kind))
			return i;
	return 0;
}

static void put_prefix(struct track *k, uint32_t i)
{
	uint32_t parent = tree_node(k->t, id_of(&k->nodes, i))->parent;

	if (parent)
		number(k, idmap_get(&k->nodes.local, parent));
	else
		fputs("null", k->out);
}

static void put_frame(struct track *k, uint32_t i)
{
	number(k, local(&k->frames, tree_node(k->t, id_of(&k->nodes, i))->frame));
}

static void put_node_category(struct track *k, uint32_t i)
{
	uint32_t frame = tree_node(k->t, id_of(&k->nodes, i))->frame;

	number(k, category_of(k, tree_frame(k->t, frame)->func));
}

static void put_func(struct track *k, uint32_t i)
{
	number(k, local(&k->funcs, frame_at(k, i)->func));
}

static void put_frame_category(struct track *k, uint32_t i)
{
	number(k, category_of(k, frame_at(k, i)->func));
}

static void put_line(struct track *k, uint32_t i)
{
	number_or_null(k, frame_at(k, i)->line);
}

static void put_name(struct track *k, uint32_t i)
{
	number(k, local(&k->strings, func_at(k, i)->name));
}

static void put_file(struct track *k, uint32_t i)
{
	if (*tree_text(k->t, func_at(k, i)->file))
		number(k, local(&k->strings, func_at(k, i)->file));
	else
		fputs("null", k->out);
}

static void put_first(struct track *k, uint32_t i)
{
	number_or_null(k, func_at(k, i)->first);
}

static void put_string(struct track *k, uint32_t i)
{
	json_string(k->out, tree_text(k->t, id_of(&k->strings, i)));
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = load_u32(a), y = load_u32(b);

	return (x > y) - (x < y);
}

static uint32_t node_of(const struct track *k, size_t i)
{
	return tree_row(k->t, k->at[i]->row)->node;
}

/* The nodes of the track's stacks and their callers: these have lower numbers. */
static void collect_nodes(struct track *k)
{
	struct table *t = &k->nodes;

	for (size_t i = 0; i < k->n; i++)
		for (uint32_t node = node_of(k, i);
		     node && idmap_get(&t->local, node) == IDMAP_NONE && !t->ids.oom;
		     node = tree_node(k->t, node)->parent)
			local(t, node);
	if (t->ids.n)
		qsort(t->ids.at, rows_of(t), 4, compare_ids);
	for (uint32_t i = 0; i < rows_of(t); i++)
		idmap_set(&t->local, id_of(t, i), i);
}

static void put_stack(struct track *k, uint32_t i)
{
	if (node_of(k, i))
		number(k, idmap_get(&k->nodes.local, node_of(k, i)));
	else
		fputs("null", k->out);
}

static double ms_of(const struct track *k, uint64_t time)
{
	return (double)(int64_t)(time - k->session->start_ns) / 1e6;
}

static void put_time(struct track *k, uint32_t i)
{
	fprintf(k->out, "%.4f", ms_of(k, k->at[i]->time));
}

/* The samples of a row are dealt out to its moments. */
static void put_weight(struct track *k, uint32_t i)
{
	uint32_t row = k->at[i]->row, n = load_u32(k->g->of_row.at + 4 * (size_t)row);
	uint64_t count = tree_row(k->t, row)->count;

	number(k, (int64_t)(count / n + (k->done[row]++ < count % n)));
}

static void put_samples(struct track *k)
{
	uint32_t n = (uint32_t)k->n;

	fprintf(k->out, ",\n\"samples\":{\"length\":%u,\"weightType\":\"samples\"", n);
	column(k, "stack", n, put_stack);
	column(k, "time", n, put_time);
	column(k, "weight", n, put_weight);
	fputs("},\n\"markers\":{\"length\":0,\"data\":[],\"name\":[],\"startTime\":[],"
	      "\"endTime\":[],\"phase\":[],\"category\":[]}",
	      k->out);
}

static void put_tables(struct track *k)
{
	uint32_t n = rows_of(&k->nodes);

	fprintf(k->out, ",\n\"stackTable\":{\"length\":%u", n);
	column(k, "prefix", n, put_prefix);
	column(k, "frame", n, put_frame);
	column(k, "category", n, put_node_category);
	same(k, "subcategory", n, "0");
	n = rows_of(&k->frames);
	fprintf(k->out, "},\n\"frameTable\":{\"length\":%u", n);
	column(k, "func", n, put_func);
	column(k, "line", n, put_line);
	column(k, "category", n, put_frame_category);
	same(k, "subcategory", n, "0");
	same(k, "address", n, "-1");
	same(k, "inlineDepth", n, "0");
	same(k, "nativeSymbol", n, "null");
	same(k, "innerWindowID", n, "null");
	same(k, "implementation", n, "null");
	same(k, "column", n, "null");
	n = rows_of(&k->funcs);
	fprintf(k->out, "},\n\"funcTable\":{\"length\":%u", n);
	column(k, "name", n, put_name);
	column(k, "fileName", n, put_file);
	column(k, "lineNumber", n, put_first);
	same(k, "columnNumber", n, "null");
	same(k, "isJS", n, "false");
	same(k, "relevantForJS", n, "false");
	same(k, "resource", n, "-1");
	fputs("},\n\"resourceTable\":{\"length\":0,\"lib\":[],\"name\":[],\"host\":[],"
	      "\"type\":[]},\n\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],"
	      "\"name\":[],\"functionSize\":[]}",
	      k->out);
	column(k, "stringArray", rows_of(&k->strings), put_string);
}

static int put_track(struct track *k)
{
	const struct tree_row *row = tree_row(k->t, k->at[0]->row);
	const struct tree_thread *th = tree_thread(k->t, row->thread);
	struct table *const tables[] = { &k->nodes, &k->frames, &k->funcs, &k->strings };
	char name[512];
	bool oom = false;

	snprintf(name, sizeof(name), k->session->n_events > 1 ? "%s (%s)" : "%s",
		 tree_text(k->t, th->name), k->session->events[row->event].name);
	fputs("{\"name\":", k->out);
	json_string(k->out, name);
	fputs(",\"processName\":", k->out);
	json_string(k->out, tree_text(k->t, th->process));
	fprintf(k->out,
		",\"pid\":\"%d\",\"tid\":%d,\"isMainThread\":%s,\"processType\":\"default\","
		"\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
		"\"unregisterTime\":null,\"pausedRanges\":[]",
		th->pid, th->tid, th->pid == th->tid ? "true" : "false");
	collect_nodes(k);
	put_samples(k);
	put_tables(k);
	fputs("}", k->out);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		oom |= tables[i]->ids.oom;
		table_deinit(tables[i]);
		*tables[i] = (struct table){ 0 };
	}
	return oom ? -ENOMEM : 0;
}

/* --- the file --- */

static bool same_track(const struct tree *t, const struct moment *a, const struct moment *b)
{
	const struct tree_row *x = tree_row(t, a->row), *y = tree_row(t, b->row);

	return x->thread == y->thread && x->event == y->event;
}

/* By thread and event, then in the order of time. */
static int by_track(const void *a, const void *b, void *arg)
{
	const struct moment *x = *(const struct moment *const *)a,
			    *y = *(const struct moment *const *)b;
	const struct tree_row *r = tree_row(arg, x->row), *q = tree_row(arg, y->row);

	if (r->thread != q->thread)
		return r->thread < q->thread ? -1 : 1;
	if (r->event != q->event)
		return r->event < q->event ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return (x > y) - (x < y);
}

static int put_threads(struct track *k)
{
	const struct moment *all = (const struct moment *)(const void *)k->g->moments.at;
	size_t n = k->g->moments.n / sizeof(*all);
	_cleanup_free_ const struct moment **at = calloc(n + 1, sizeof(*at));
	_cleanup_free_ uint32_t *done = calloc(tree_n_rows(k->t) + 1, sizeof(*done));
	int ret = at && done ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++)
		at[i] = &all[i];
	if (!ret)
		qsort_r(at, n, sizeof(*at), by_track, (void *)(uintptr_t)k->t);
	k->done = done;
	for (size_t i = 0, end; !ret && i < n; i = end) {
		for (end = i + 1; end < n && same_track(k->t, at[i], at[end]);)
			end++;
		k->at = at + i;
		k->n = end - i;
		fputs(i ? ",\n" : "\n", k->out);
		ret = put_track(k);
	}
	return ret;
}

static void put_meta(struct track *k)
{
	const struct perf_event_attr *a = &k->session->events[0].attr;
	double interval = a->freq && a->sample_freq ? 1e3 / (double)a->sample_freq : 1;

	fprintf(k->out,
		"{\"meta\":{\"interval\":%.6f,\"startTime\":%.3f,\"processType\":0,"
		"\"product\":\"pysampled\",\"importedFrom\":\"pysampled " PYSAMPLED_VERSION
		"\",\"stackwalk\":1,\"debug\":false,\"version\":29,"
		"\"preprocessedProfileVersion\":48,\"symbolicated\":true,"
		"\"symbolicationNotSupported\":true,\"usesOnlyOneStackType\":true,"
		"\"doesNotUseFrameImplementation\":true,\"sourceCodeIsNotOnSearchfox\":true,"
		"\"markerSchema\":[],\"extensions\":{\"length\":0,\"id\":[],\"name\":[],"
		"\"baseURL\":[]},\"categories\":[",
		interval, k->g->began_ms);
	for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
		fprintf(k->out,
			"%s{\"name\":\"%s\",\"color\":\"%s\",\"subcategories\":[\"Other\"]}",
			i ? "," : "", categories[i], colors[i]);
	fputs("]},\n\"libs\":[],\"pages\":[],\"threads\":[", k->out);
}

static int write_to(struct sink *s, FILE *out)
{
	struct track k = { .g = s->priv, .t = s->priv, .session = s->session, .out = out };
	int ret;

	put_meta(&k);
	ret = put_threads(&k);
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
	buf_deinit(&g->of_row);
	return tree_end(s, err);
}

static const char *const extensions[] = { ".gecko.json", ".gecko.json.gz", NULL };

const struct sink_ops sink_gecko = {
	.name = "gecko",
	.extensions = extensions,
	.next = "open it at profiler.firefox.com: ",
	.help = "JSON for the Firefox Profiler: a track for each thread",
	.needs = SINK_NEEDS_NAMES | SINK_KNOWS_STACKS,
	.priv_size = sizeof(struct gecko),
	.begin = gecko_begin,
	.side = tree_side,
	.sample = gecko_sample,
	.round = copies_round,
	.copy = gecko_copy,
	.finish = tree_places,
	.end = gecko_end,
};
