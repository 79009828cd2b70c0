/* SPDX-License-Identifier: MIT
 *
 * gecko_track - columns of numbers, each table as long as what was met needs.
 */
#include "gecko_track.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "json.h"

static const char *const kinds[] = { "marker", "python", "native", "kernel", "gc" };

static uint32_t local(struct gecko_table *t, uint32_t id)
{
	uint32_t i = idmap_get(&t->local, id);

	if (i != IDMAP_NONE)
		return i;
	i = (uint32_t)(t->ids.n / 4);
	buf_u32(&t->ids, id);
	t->ids.oom |= idmap_set(&t->local, id, i) != 0;
	return i;
}

static uint32_t rows_of(const struct gecko_table *t)
{
	return (uint32_t)(t->ids.n / 4);
}

static uint32_t id_of(const struct gecko_table *t, uint32_t i)
{
	return load_u32(t->ids.at + 4 * (size_t)i);
}

static void table_deinit(struct gecko_table *t)
{
	buf_deinit(&t->ids);
	idmap_deinit(&t->local);
}

/* ,"name":[ ... ] of a table of @n rows. */
static void column(struct gecko_track *k, const char *name, uint32_t n,
		   void (*cell)(struct gecko_track *k, uint32_t i))
{
	fprintf(k->out, ",\n\"%s\":[", name);
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			putc_unlocked(',', k->out);
		cell(k, i);
	}
	putc_unlocked(']', k->out);
}

static void same(struct gecko_track *k, const char *name, uint32_t n, const char *text)
{
	fprintf(k->out, ",\n\"%s\":[", name);
	for (uint32_t i = 0; i < n; i++)
		fprintf(k->out, "%s%s", i ? "," : "", text);
	putc_unlocked(']', k->out);
}

static void number(struct gecko_track *k, int64_t v)
{
	json_number(k->out, v);
}

static const struct moment *moment(const struct gecko_track *k, size_t i)
{
	return gecko_order_at(k->order, k->first + i);
}

static void number_or_null(struct gecko_track *k, int v)
{
	if (v > 0)
		number(k, v);
	else
		fputs("null", k->out);
}

static const struct tree_frame *frame_at(const struct gecko_track *k, uint32_t i)
{
	return tree_frame(k->t, id_of(&k->frames, i));
}

static const struct tree_func *func_at(const struct gecko_track *k, uint32_t i)
{
	return tree_func(k->t, id_of(&k->funcs, i));
}

static uint32_t category_of(const struct gecko_track *k, uint32_t func)
{
	const char *kind = tree_kind(k->t, func);

	for (uint32_t i = 1; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i], kind))
			return i;
	return 0;
}

static uint32_t node_at(const struct gecko_track *k, uint32_t i)
{
	return load_u32(k->nodes.at + 4 * (size_t)i);
}

static void put_prefix(struct gecko_track *k, uint32_t i)
{
	uint32_t parent = tree_node(k->t, node_at(k, i))->parent;

	if (parent)
		number(k, k->node_row[parent] - 1);
	else
		fputs("null", k->out);
}

static void put_frame(struct gecko_track *k, uint32_t i)
{
	number(k, local(&k->frames, tree_node(k->t, node_at(k, i))->frame));
}

static void put_node_category(struct gecko_track *k, uint32_t i)
{
	uint32_t frame = tree_node(k->t, node_at(k, i))->frame;

	number(k, category_of(k, tree_frame(k->t, frame)->func));
}

static void put_func(struct gecko_track *k, uint32_t i)
{
	number(k, local(&k->funcs, frame_at(k, i)->func));
}

static void put_frame_category(struct gecko_track *k, uint32_t i)
{
	number(k, category_of(k, frame_at(k, i)->func));
}

static void put_line(struct gecko_track *k, uint32_t i)
{
	number_or_null(k, frame_at(k, i)->line);
}

static void put_name(struct gecko_track *k, uint32_t i)
{
	number(k, local(&k->strings, func_at(k, i)->name));
}

static void put_file(struct gecko_track *k, uint32_t i)
{
	if (*tree_text(k->t, func_at(k, i)->file))
		number(k, local(&k->strings, func_at(k, i)->file));
	else
		fputs("null", k->out);
}

static void put_first(struct gecko_track *k, uint32_t i)
{
	number_or_null(k, func_at(k, i)->first);
}

static void put_string(struct gecko_track *k, uint32_t i)
{
	json_string(k->out, tree_text(k->t, id_of(&k->strings, i)));
}

static uint32_t node_of(const struct gecko_track *k, size_t i)
{
	return tree_row(k->t, moment(k, i)->row)->node;
}

static int by_number(const void *a, const void *b)
{
	return COMPARE(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* The nodes of the track's stacks and their callers: these have lower numbers. Of a server with
 * many threads each has few of the tree's nodes. */
static void collect_nodes(struct gecko_track *k)
{
	for (size_t i = 0; i < k->n; i++)
		for (uint32_t node = node_of(k, i); node && !k->node_row[node];
		     node = tree_node(k->t, node)->parent) {
			buf_u32(&k->nodes, node);
			k->node_row[node] = 1;
		}
	if (k->nodes.n)
		qsort(k->nodes.at, k->nodes.n / 4, 4, by_number);
	for (uint32_t i = 0; i < k->nodes.n / 4; i++)
		k->node_row[node_at(k, i)] = i + 1;
}

/* The nodes have no rows any more. */
static void forget_nodes(struct gecko_track *k)
{
	for (uint32_t i = 0; i < k->nodes.n / 4; i++)
		k->node_row[node_at(k, i)] = 0;
	k->nodes.n = 0;
}

static void put_stack(struct gecko_track *k, uint32_t i)
{
	if (node_of(k, i))
		number(k, k->node_row[node_of(k, i)] - 1);
	else
		fputs("null", k->out);
}

/* @v, and the @n digits of @part behind its point. */
static void put_decimals(struct gecko_track *k, uint64_t v, uint64_t part, unsigned n)
{
	char digits[] = ".000000000";

	number(k, (int64_t)v);
	for (unsigned i = n; i; i--, part /= 10)
		digits[i] = (char)('0' + part % 10);
	digits[n + 1] = '\0';
	fputs_unlocked(digits, k->out);
}

/* In ms, to a tenth of a microsecond. */
static void put_ms(struct gecko_track *k, uint64_t time)
{
	int64_t at = (int64_t)(time - k->session->start_ns) / 100;
	uint64_t tenths = (uint64_t)(at < 0 ? -at : at);

	if (at < 0)
		putc_unlocked('-', k->out);
	put_decimals(k, tenths / 10000, tenths % 10000, 4);
}

static void put_time(struct gecko_track *k, uint32_t i)
{
	put_ms(k, moment(k, i)->time);
}

/* Its own, and a part of what its row counts beyond those of its moments. */
static uint64_t weight_of(struct gecko_track *k, uint32_t i)
{
	const struct moment *m = moment(k, i);
	uint64_t own = k->weights ? k->weights[m - k->order->moments] : 0;
	uint64_t rest = k->rest[m->row], n = k->of_row[m->row];

	return own + rest / n + (k->done[m->row]++ < rest % n);
}

static void put_weight(struct gecko_track *k, uint32_t i)
{
	number(k, (int64_t)weight_of(k, i));
}

static void put_weight_ms(struct gecko_track *k, uint32_t i)
{
	uint64_t ns = weight_of(k, i);

	put_decimals(k, ns / 1000000, ns % 1000000, 6);
}

static void put_samples(struct gecko_track *k)
{
	uint32_t n = (uint32_t)k->n;
	bool time = tree_is_time(k->session, tree_row(k->t, moment(k, 0)->row)->event);

	fprintf(k->out, ",\n\"samples\":{\"length\":%u,\"weightType\":\"%s\"", n,
		time ? "tracing-ms" : "samples");
	column(k, "stack", n, put_stack);
	column(k, "time", n, put_time);
	column(k, "weight", n, time ? put_weight_ms : put_weight);
	fputs("}", k->out);
}

/* A list of @marks to @to, a marker each. */
static void marker_column(struct gecko_track *k, const char *name, size_t marks, size_t to,
			  void (*cell)(struct gecko_track *k, const struct moment *m))
{
	fprintf(k->out, ",\"%s\":[", name);
	for (size_t i = marks; i < to; i++) {
		if (i > marks)
			putc_unlocked(',', k->out);
		cell(k, gecko_order_at(k->order, i));
	}
	putc_unlocked(']', k->out);
}

static void put_marker_name(struct gecko_track *k, const struct moment *m)
{
	number(k, local(&k->strings, k->event[tree_row(k->t, m->row)->event]));
}

static void put_marker_time(struct gecko_track *k, const struct moment *m)
{
	put_ms(k, m->time);
}

static const struct tree_func *func_of(const struct gecko_track *k, uint32_t node)
{
	return tree_func(k->t, tree_frame(k->t, tree_node(k->t, node)->frame)->func);
}

static void put_marker_where(struct gecko_track *k, const struct moment *m)
{
	uint32_t node = tree_row(k->t, m->row)->node, at = node;

	/* the innermost Python function, or what there is */
	while (at && func_of(k, at)->kind != FRAME_PYTHON)
		at = tree_node(k->t, at)->parent;
	at = at ? at : node;
	fputs("{\"type\":\"event\",\"where\":", k->out);
	json_string(k->out, at ? tree_text(k->t, func_of(k, at)->name) : "");
	putc_unlocked('}', k->out);
}

static void put_nothing(struct gecko_track *k, const struct moment *m)
{
	fputs_unlocked("null", k->out);
}

static void put_zero(struct gecko_track *k, const struct moment *m)
{
	putc_unlocked('0', k->out);
}

static void put_markers(struct gecko_track *k, size_t marks, size_t to)
{
	fprintf(k->out, ",\n\"markers\":{\"length\":%zu", to - marks);
	marker_column(k, "data", marks, to, put_marker_where);
	marker_column(k, "name", marks, to, put_marker_name);
	marker_column(k, "startTime", marks, to, put_marker_time);
	marker_column(k, "endTime", marks, to, put_nothing);
	marker_column(k, "phase", marks, to, put_zero); /* instant */
	marker_column(k, "category", marks, to, put_zero);
	putc_unlocked('}', k->out);
}

static void put_tables(struct gecko_track *k)
{
	uint32_t n = (uint32_t)(k->nodes.n / 4);

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

int gecko_track_put(struct gecko_track *k, size_t marks, size_t to)
{
	const struct tree_row *row = tree_row(k->t, moment(k, 0)->row);
	const struct tree_thread *th = tree_thread(k->t, row->thread);
	struct gecko_table *const tables[] = { &k->frames, &k->funcs, &k->strings };
	char name[512];
	bool oom;

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
	put_markers(k, marks, to);
	put_tables(k);
	fputs("}", k->out);
	oom = k->nodes.oom;
	forget_nodes(k);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		oom |= tables[i]->ids.oom;
		table_deinit(tables[i]);
		*tables[i] = (struct gecko_table){ 0 };
	}
	return oom ? -ENOMEM : 0;
}
