/* SPDX-License-Identifier: MIT
 *
 * speedscope - the JSON that speedscope.app opens: a sampled profile for each thread, and for
 * each event if there are several.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/base.h"
#include "copies.h"
#include "json.h"
#include "tree.h"

struct speedscope {
	const struct tree *t;
	const struct session *session;
	FILE *out;
	struct buf path;
	bool more; /* a profile is written already */
};

static void put_frames(const struct speedscope *w)
{
	for (uint32_t i = 0; i < tree_n_frames(w->t); i++) {
		const struct tree_frame *fr = tree_frame(w->t, i);
		const struct tree_func *f = tree_func(w->t, fr->func);

		fputs(i ? ",\n{\"name\":" : "\n{\"name\":", w->out);
		json_string(w->out, tree_text(w->t, f->name));
		if (*tree_text(w->t, f->file)) {
			fputs(",\"file\":", w->out);
			json_string(w->out, tree_text(w->t, f->file));
		}
		if (fr->line)
			fprintf(w->out, ",\"line\":%d", fr->line);
		fputs("}", w->out);
	}
}

static void put_stack(struct speedscope *w, const struct tree_row *row)
{
	size_t n = tree_path(w->t, row->node, &w->path);

	putc_unlocked('[', w->out);
	while (n--) {
		json_number(w->out, load_u32(w->path.at + 4 * n));
		if (n)
			putc_unlocked(',', w->out);
	}
	putc_unlocked(']', w->out);
}

/* The rows from @first to @last, which are of one thread and event. */
static void put_profile(struct speedscope *w, struct tree_row *const *first,
			struct tree_row *const *last)
{
	char name[1024];
	uint64_t total = 0;

	tree_thread_text(w->t, (*first)->thread, name, sizeof(name) - 260);
	if (w->session->n_events > 1)
		snprintf(name + strlen(name), sizeof(name) - strlen(name), " %s",
			 w->session->events[(*first)->event].name);
	fputs(w->more ? ",\n{\"type\":\"sampled\",\"name\":" :
			"\n{\"type\":\"sampled\",\"name\":",
	      w->out);
	w->more = true;
	json_string(w->out, name);
	fprintf(w->out, ",\"unit\":\"%s\",\"startValue\":0,\"samples\":[",
		tree_is_time(w->session, (*first)->event) ? "nanoseconds" : "none");
	for (struct tree_row *const *row = first; row < last; row++) {
		total += (*row)->count;
		put_stack(w, *row);
		fputs(row + 1 < last ? ",\n" : "],\n\"weights\":[", w->out);
	}
	for (struct tree_row *const *row = first; row < last; row++)
		fprintf(w->out, "%" PRIu64 "%s", (*row)->count, row + 1 < last ? "," : "]");
	fprintf(w->out, ",\"endValue\":%" PRIu64 "}", total);
}

/* By thread and event, then as they were. */
static int by_thread(const void *a, const void *b)
{
	const struct tree_row *x = *(struct tree_row *const *)a,
			      *y = *(struct tree_row *const *)b;

	return COMPARE(x->thread, y->thread) ?: COMPARE(x->event, y->event) ?: COMPARE(x, y);
}

static int put_profiles(struct speedscope *w)
{
	size_t n = 0;
	_cleanup_free_ struct tree_row **rows = calloc(tree_n_rows(w->t) + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < tree_n_rows(w->t); i++)
		if (tree_row(w->t, i)->count)
			rows[n++] = tree_row(w->t, i);
	qsort(rows, n, sizeof(*rows), by_thread);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && rows[k]->thread == rows[i]->thread &&
				rows[k]->event == rows[i]->event;)
			k++;
		put_profile(w, rows + i, rows + k);
	}
	return w->path.oom ? -ENOMEM : 0;
}

static int write_speedscope(struct sink *s)
{
	struct speedscope w = { .t = s->priv, .session = s->session, .out = s->out };
	int ret;

	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"pysampled " PYSAMPLED_VERSION "\",\n\"shared\":{\"frames\":[",
	      w.out);
	put_frames(&w);
	fputs("]},\n\"profiles\":[", w.out);
	ret = put_profiles(&w);
	fputs("]}\n", w.out);
	buf_deinit(&w.path);
	return ret;
}

static int speedscope_copy(struct sink *s)
{
	return tree_copy(s, write_speedscope);
}

static const char *const extensions[] = { ".speedscope.json", NULL };

const struct sink_ops sink_speedscope = {
	.name = "speedscope",
	.extensions = extensions,
	.next = "open it at speedscope.app, or: speedscope ",
	.help = "JSON for speedscope: a profile for each thread",
	.needs = SINK_NEEDS_NAMES | SINK_KNOWS_STACKS | SINK_IS_RESULT,
	.priv_size = sizeof(struct tree),
	.begin = tree_begin,
	.side = tree_side,
	.sample = tree_sample,
	.round = copies_round,
	.copy = speedscope_copy,
	.finish = tree_places,
	.end = tree_end,
};
