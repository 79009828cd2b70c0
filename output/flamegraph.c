/* SPDX-License-Identifier: MIT
 *
 * flamegraph - pictures of stacks: a page that searches, zooms and filters by itself
 * (flamegraph.html, to which the data is added here), or one SVG image.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "comms.h"
#include "copies.h"
#include "json.h"
#include "sources.h"
#include "tree.h"

struct flamegraph {
	struct tree tree; /* first: it is what the tree's own callbacks get */
	char *sources;	  /* JSON; NULL: none, or not read yet */
	bool elsewhere;	  /* a process has files of its own */
};

static const char page[] = {
#include "flamegraph_page.inc"
};

/* --- the page --- */

static void begin_list(FILE *out, const char *key)
{
	fprintf(out, ",\n\"%s\":[", key);
}

static void put_funcs(const struct tree *t, FILE *out)
{
	begin_list(out, "funcs");
	for (uint32_t i = 0; i < tree_n_funcs(t); i++) {
		const struct tree_func *f = tree_func(t, i);

		fputs(i ? ",\n[" : "\n[", out);
		json_string(out, tree_text(t, f->name));
		putc(',', out);
		json_string(out, tree_text(t, f->file));
		fprintf(out, ",\"%s\"]", tree_kind(t, i));
	}
	fputs("]", out);
}

static void put_pair(FILE *out, const char *before, uint32_t a, uint32_t b)
{
	fputs_unlocked(before, out);
	json_number(out, a);
	putc_unlocked(',', out);
	json_number(out, b);
}

static void put_numbers(const struct tree *t, FILE *out, bool weighed)
{
	bool more = false;

	begin_list(out, "frames");
	for (uint32_t i = 0; i < tree_n_frames(t); i++)
		fprintf(out, "%s[%" PRIu32 ",%d]", i ? "," : "", tree_frame(t, i)->func,
			tree_frame(t, i)->line);
	fputs("],\n\"nodes\":[", out);
	for (uint32_t i = 0; i < tree_n_nodes(t); i++)
		put_pair(out, i ? "," : "", tree_node(t, i)->parent, tree_node(t, i)->frame);
	fputs("],\n\"rows\":[", out);
	for (size_t i = 0; i < tree_n_rows(t); i++) {
		const struct tree_row *r = tree_row(t, i);

		if (!r->count)
			continue;
		put_pair(out, more ? ",\n[" : "[", r->node, r->thread);
		put_pair(out, ",", r->event, r->prov);
		fprintf(out, ",%" PRIu64, r->count);
		if (weighed)
			fprintf(out, ",%" PRIu64, r->samples);
		fputs("]", out);
		more = true;
	}
	fputs("]", out);
}

static void put_threads(const struct tree *t, FILE *out)
{
	char name[600];

	begin_list(out, "threads");
	for (uint32_t i = 0; i < tree_n_threads(t); i++) {
		tree_thread_text(t, i, name, sizeof(name));
		fputs(i ? "," : "", out);
		json_string(out, name);
	}
	fputs("]", out);
}

/* What the first event's rows count, and in how many samples. */
static uint64_t event_total(const struct tree *t, uint64_t *samples)
{
	uint64_t n = 0;

	*samples = 0;
	for (size_t i = 0; i < tree_n_rows(t); i++) {
		const struct tree_row *r = tree_row(t, i);

		n += r->event ? 0 : r->count;
		*samples += r->event ? 0 : r->samples;
	}
	return n;
}

/* What amounts of @event are, unless they are times. */
static const char *unit(const struct session *s, uint32_t event)
{
	bool weighed = s->flags & SESSION_PERIOD && !(s->flags & SESSION_COMPARED);

	return weighed ? s->events[event].name : "samples";
}

enum { AMOUNT = 64 + sizeof(((struct event_info *)0)->name) };

/* "3 samples", "1.5 ms", "7 page-faults". */
static const char *amount(const struct session *s, uint64_t n, char buf[AMOUNT])
{
	if (tree_is_time(s, 0))
		snprintf(buf, AMOUNT, "%.1f ms", (double)n / 1e6);
	else
		snprintf(buf, AMOUNT, "%" PRIu64 " %s", n, unit(s, 0));
	return buf;
}

/* The amount of all: "3 samples of cycles", "7 page-faults". */
static const char *whole(const struct session *s, uint64_t n, char buf[2 * AMOUNT])
{
	const char *of = s->flags & SESSION_WALL ? "all threads" : s->events[0].name;
	bool told = !tree_is_time(s, 0) && unit(s, 0) == of;
	char all[AMOUNT];

	snprintf(buf, 2 * AMOUNT, "%s%s%s", amount(s, n, all), told ? "" : " of ", told ? "" : of);
	return buf;
}

static void put_units(const struct session *s, FILE *out)
{
	begin_list(out, "times");
	for (uint32_t i = 0; i < s->n_events; i++)
		fprintf(out, "%s%d", i ? "," : "", tree_is_time(s, i));
	fputs("]", out);
	begin_list(out, "units");
	for (uint32_t i = 0; i < s->n_events; i++) {
		fputs(i ? "," : "", out);
		json_string(out, unit(s, i));
	}
	fputs("]", out);
}

static int write_page(struct sink *s)
{
	static const char mark[] = "/*DATA*/";
	const char *at = strstr(page, mark);
	const struct flamegraph *f = s->priv;
	const struct tree *t = &f->tree;
	char title[2 * AMOUNT + 16], all[2 * AMOUNT];
	uint64_t samples;

	snprintf(title, sizeof(title), "pysampled: %s",
		 whole(s->session, event_total(t, &samples), all));
	fwrite(page, 1, (size_t)(at - page), s->out);
	fputs("{\"title\":", s->out);
	json_string(s->out, title);
	begin_list(s->out, "events");
	for (size_t i = 0; i < s->session->n_events; i++) {
		fputs(i ? "," : "", s->out);
		json_string(s->out, s->session->events[i].name);
	}
	fputs("]", s->out);
	put_units(s->session, s->out);
	if (s->session->flags & SESSION_COMPARED)
		fputs(",\n\"compared\":true", s->out);
	if (s->session->flags & SESSION_WALL)
		fputs(",\n\"wall\":true", s->out);
	put_threads(t, s->out);
	put_funcs(t, s->out);
	put_numbers(t, s->out, s->session->flags & SESSION_PERIOD);
	if (f->sources)
		fprintf(s->out, ",\n\"sources\":%s", f->sources);
	fputs("}", s->out);
	fputs(at + strlen(mark), s->out);
	return 0;
}

/* --- the image --- */

enum { WIDTH = 1200, ROW_HEIGHT = 17, MARGIN = 10, HEAD = 50 };
#define LEAST 0.3  /* narrower boxes, in pixels, are left out */
#define LETTER 6.7 /* a letter's width */

struct box {
	uint64_t n, x, next; /* samples; those to the left; ... of its next child */
	uint32_t depth;
};

static const char svg_head[] =
	"<style>text{font:11px monospace;pointer-events:none}rect:hover{stroke:#000}"
	".python rect{fill:#f2b35e}.native rect{fill:#8fb8e8}.kernel rect{fill:#e58a7b}"
	".gc rect{fill:#b7a0e0}.marker rect{fill:#c8c8c8}</style>\n"
	"<script><![CDATA[\n"
	"function zoom(g){var r=g.querySelector('rect'),x0=+r.dataset.x,w0=+r.dataset.w;\n"
	"document.querySelectorAll('g.f').forEach(function(g){\n"
	"var "
	"r=g.querySelector('rect'),t=g.querySelector('text'),x=(+r.dataset.x-x0)/w0*1180,\n"
	"e=Math.min(x+r.dataset.w/w0*1180,1180);x=Math.max(x,0);var w=e-x;\n"
	"g.style.display=w>.1?'':'none';if(w<=.1)return;\n"
	"r.setAttribute('x',10+x);r.setAttribute('width',w);\n"
	"var n=Math.floor((w-4)/6.7),s=t.dataset.n;t.setAttribute('x',12+x);\n"
	"t.textContent=n<3?'':s.length<=n?s:s.slice(0,n-2)+'..'})}\n"
	"]]></script>\n";

/* What nobody should get, and what XML can't hold, becomes '?'. */
static bool is_xml(uint32_t c)
{
	return !printable_is_control(c) && c != 0xfffe && c != 0xffff;
}

/* Text of XML, at most @max letters. */
static void put_xml(FILE *out, const char *text, size_t max)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at && max--) {
		uint32_t c = 0;
		size_t n = printable_decode(at, &c);

		if (!n || !is_xml(c))
			putc('?', out);
		else if (n == 1 && strchr("<>&\"", *at)) /* "]]>" is not text */
			fprintf(out, "&#%d;", *at);
		else
			fwrite(at, 1, n, out);
		at += n ? n : 1;
	}
}

static struct box *make_boxes(const struct tree *t)
{
	size_t n = tree_n_nodes(t);
	struct box *box = calloc(n, sizeof(*box));

	if (!box)
		return NULL;
	for (size_t i = 0; i < tree_n_rows(t); i++)
		if (tree_row(t, i)->event == 0)
			box[tree_row(t, i)->node].n += tree_row(t, i)->count;
	for (uint32_t i = (uint32_t)n; --i > 0;)
		box[tree_node(t, i)->parent].n += box[i].n;
	for (uint32_t i = 1; i < n; i++) {
		struct box *up = &box[tree_node(t, i)->parent];

		box[i].x = box[i].next = up->next;
		box[i].depth = up->depth + 1;
		up->next += box[i].n;
	}
	return box;
}

/* "spin (/srv/work.py:7)". */
static void frame_text(const struct tree *t, uint32_t node, char *buf, size_t cap)
{
	const struct tree_frame *fr = tree_frame(t, tree_node(t, node)->frame);
	const struct tree_func *f = tree_func(t, fr->func);
	const char *file = tree_text(t, f->file);
	char line[16] = "";

	if (fr->line)
		snprintf(line, sizeof(line), ":%d", fr->line);
	if (*file)
		snprintf(buf, cap, "%s (%s%s)", tree_text(t, f->name), file, line);
	else
		snprintf(buf, cap, "%s", tree_text(t, f->name));
}

/* Of all also the number of samples, where amounts are something else. */
static void put_amount(const struct sink *s, uint64_t n, bool all)
{
	char buf[AMOUNT];
	const char *text = amount(s->session, n, buf);
	uint64_t samples;

	if (!all && !strcmp(text, "1 samples"))
		text = "1 sample"; /* that of all is read by programs */
	put_xml(s->out, text, SIZE_MAX);
	if (!all || !(s->session->flags & SESSION_PERIOD))
		return;
	event_total(s->priv, &samples);
	fprintf(s->out, ", %" PRIu64 " samples", samples);
}

static void put_box(const struct sink *s, const struct box *all, uint32_t i, uint32_t deepest)
{
	const struct tree *t = s->priv;
	FILE *out = s->out;
	const struct box *b = &all[i];
	double unit = (double)(WIDTH - 2 * MARGIN) / (double)all->n, w = (double)b->n * unit;
	double x = MARGIN + (double)b->x * unit;
	uint32_t y = HEAD + (deepest - b->depth) * ROW_HEIGHT;
	char text[PYFUNC_NAME_MAX + PYFUNC_FILE_MAX + 64];

	if (w < LEAST)
		return;
	if (i)
		frame_text(t, i, text, sizeof(text));
	else
		strcpy(text, "all");
	fprintf(out, "<g class=\"f %s\" onclick=\"zoom(this)\"><title>",
		i ? tree_kind(t, tree_frame(t, tree_node(t, i)->frame)->func) : "marker");
	put_xml(out, text, SIZE_MAX);
	fputs(": ", out);
	put_amount(s, b->n, !i);
	fprintf(out,
		", %.1f %%</title><rect x=\"%.1f\" y=\"%" PRIu32
		"\" width=\"%.1f\" height=\"16\" data-x=\"%" PRIu64 "\" data-w=\"%" PRIu64
		"\"/><text x=\"%.1f\" y=\"%" PRIu32 "\" data-n=\"",
		100 * (double)b->n / (double)all->n, x, y, w, b->x, b->n, x + 2, y + 12);
	put_xml(out, text, WIDTH / (size_t)LETTER);
	fputs("\">", out);
	put_xml(out, w > 3 * LETTER ? text : "", (size_t)((w - 4) / LETTER));
	fputs("</text></g>\n", out);
}

static void put_legend(FILE *out)
{
	static const char *const kinds[] = { "python", "native", "kernel", "gc", "marker" };

	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++)
		fprintf(out,
			"<g class=\"%s\"><rect x=\"%u\" y=\"30\" width=\"60\" height=\"14\"/>"
			"<text x=\"%u\" y=\"41\">%s</text></g>\n",
			kinds[i], MARGIN + 70 * i, MARGIN + 4 + 70 * i, kinds[i]);
}

static int write_image(struct sink *s)
{
	const struct tree *t = s->priv;
	_cleanup_free_ struct box *box = make_boxes(t);
	uint32_t deepest = 0;
	char all[2 * AMOUNT];

	if (!box)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree_n_nodes(t); i++)
		deepest = MAX(deepest, box[i].depth);
	fprintf(s->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%" PRIu32
		"\">\n%s<text x=\"10\" y=\"20\">",
		WIDTH, HEAD + (deepest + 1) * ROW_HEIGHT + MARGIN, svg_head);
	put_xml(s->out, whole(s->session, box->n, all), SIZE_MAX);
	fprintf(s->out, "%s</text>\n",
		s->session->n_events > 1 ? "; other events are in an .html output" : "");
	put_legend(s->out);
	for (uint32_t i = 0; box->n && i < tree_n_nodes(t); i++)
		put_box(s, box, i, deepest);
	fputs("</svg>\n", s->out);
	return 0;
}

static bool is_image(const char *path)
{
	return sink_ends_with(path, ".svg");
}

static int flamegraph_copy(struct sink *s)
{
	return tree_copy(s, is_image(s->path) ? write_image : write_page);
}

static int flamegraph_side(struct sink *s, const struct side *side)
{
	struct flamegraph *f = s->priv;

	f->elsewhere = f->elsewhere || comms_elsewhere(s->session, side);
	return tree_side(s, side);
}

static int flamegraph_finish(struct sink *s)
{
	struct flamegraph *f = s->priv;
	int ret = tree_places(s);

	if (!ret && !is_image(s->path))
		f->sources = sources_read(&f->tree, s->session->since, f->elsewhere);
	return ret;
}

static int flamegraph_end(struct sink *s, struct err *err)
{
	struct flamegraph *f = s->priv;

	free(f->sources);
	return tree_end(s, err);
}

static const char *const extensions[] = { ".html", ".svg", NULL };

const struct sink_ops sink_flamegraph = {
	.name = "flamegraph",
	.extensions = extensions,
	.next = "open it in a browser: ",
	.help = "a page that searches and zooms (.html), or an image (.svg)",
	.needs = SINK_NEEDS_NAMES | SINK_KNOWS_STACKS | SINK_IS_RESULT,
	.priv_size = sizeof(struct flamegraph),
	.begin = tree_begin,
	.side = flamegraph_side,
	.sample = tree_sample,
	.round = copies_round,
	.copy = flamegraph_copy,
	.finish = flamegraph_finish,
	.end = flamegraph_end,
};
