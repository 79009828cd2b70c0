/* SPDX-License-Identifier: MIT
 *
 * report - tells of a recording in text or JSON: self and total of what it is asked for.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "../output/json.h"
#include "cmd.h"
#include "source.h"
#include "tally.h"

enum {
	OPT_BY = 256,
	OPT_CHILDREN,
	OPT_JSON,
	OPT_ANNOTATE,
	OPT_NO_CHILDREN,
	OPT_STDIO,
	OPT_PYTHON
};
enum { DEFAULT_ROWS = 20 };
enum { US = 1000, MS = 1000000 }; /* ns */

static const char help[] =
	"Usage: pysampled report [FILE] [options]\n\n"
	"FILE (default: perf.data) is a perf.data, of pysampled or of perf, a tape, or holds\n"
	"folded stacks; '-' is standard input.\n\n"
	"      --by WHAT        function (default), line, file, thread, process or event\n"
	"      --python         Python frames only: what native code takes is self of the\n"
	"                       Python function that called it, as at a recording's end\n"
	"  -s, --sort WHAT      self (default) or total\n"
	"      --children, --no-children  as --sort total, as --sort self\n"
	"  -e, --event NAME     of several events this one, not the first\n"
	"  -n, --rows N         so many rows, not 20 (of --json: not all); 0: all\n"
	"      --annotate FUNC  the source of a Python function, each line with its shares;\n"
	"                       without -e of each event\n"
	"      --json           rows as JSON, all without -n, with numbers of samples, or with\n"
	"                       microseconds of record --mode wall\n"
	"  -i, --input FILE     FILE, as for perf report, whose --stdio and --sort sym, srcline,\n"
	"                       sym,srcline, pid or tid are taken too\n"
	"  -h, --help\n"
	"  -V, --version\n";

static const struct option options[] = {
	{ "by", required_argument, NULL, OPT_BY },
	{ "python", no_argument, NULL, OPT_PYTHON },
	{ "sort", required_argument, NULL, 's' },
	{ "children", no_argument, NULL, OPT_CHILDREN },
	{ "no-children", no_argument, NULL, OPT_NO_CHILDREN },
	{ "stdio", no_argument, NULL, OPT_STDIO },
	{ "input", required_argument, NULL, 'i' },
	{ "event", required_argument, NULL, 'e' },
	{ "rows", required_argument, NULL, 'n' },
	{ "annotate", required_argument, NULL, OPT_ANNOTATE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

struct report_options {
	const char *path, *event, *annotate;
	enum tally_by by;
	bool total, python, json, by_given, order_given, rows_given;
	size_t rows;
};

static double share(double n, uint64_t of)
{
	return of ? 100 * n / (double)of : 0;
}

/* Of --mode wall @n are ns. */
static uint64_t shown(const struct session *s, double n, uint64_t unit_ns)
{
	return (uint64_t)(n + 0.5) / (s->flags & SESSION_WALL ? unit_ns : 1);
}

static void print_row(const struct tally *t, const struct session *s, const struct tally_row *r)
{
	char where[PATH_MAX + 32] = "", room[CMD_SHORT];

	if (*r->file && r->line)
		snprintf(where, sizeof(where), " (%s:%d)", r->file, r->line);
	else if (*r->file)
		snprintf(where, sizeof(where), " (%s)", r->file);
	cmd_line(stdout, "%6.2f%% %6.2f%% %8" PRIu64 "  %s%s", share(r->self, t->samples),
		 share(r->total, t->samples), shown(s, r->self, MS), cmd_short(r->name, room), where);
}

/* How many of @t's rows are printed. */
static size_t shown_rows(const struct report_options *o, const struct tally *t)
{
	size_t most = o->rows_given ? o->rows : o->json ? 0 : DEFAULT_ROWS;

	return most ? MIN(most, t->n) : t->n;
}

static void print_text(const struct report_options *o, const struct tally *t,
		       const struct session *s, const char *event)
{
	size_t n = shown_rows(o, t);
	const bool wall = s->flags & SESSION_WALL;
	const char *of = o->python ? "Python " : "";

	if (wall)
		cmd_line(stdout, "# %.1f s of all threads, by %s%s", (double)t->samples / 1e9, of,
			 tally_names[o->by]);
	else
		cmd_line(stdout, "# %" PRIu64 " samples of %s, by %s%s", t->samples, event, of,
			 tally_names[o->by]);
	if (s->n_events > 1 && o->by != TALLY_EVENT && !o->event)
		cmd_line(stdout, "# of %zu events: -e shows another, --by event tells them",
			 s->n_events);
	cmd_line(stdout, "#  self   total  %s  %s", wall ? "self ms" : "   self",
		 tally_names[o->by]);
	for (size_t i = 0; i < n; i++)
		print_row(t, s, &t->rows[i]);
	if (n < t->n)
		cmd_line(stdout, "# and %zu more: -n 0 shows all", t->n - n);
}

static void print_json(const struct report_options *o, const struct tally *t,
		       const struct session *s)
{
	size_t n = shown_rows(o, t);

	fputs("{\"events\":[", stdout);
	for (size_t i = 0; i < s->n_events; i++) {
		fputs(i ? "," : "", stdout);
		json_string(stdout, s->events[i].name);
	}
	fputs("],\"rows\":[", stdout);
	for (size_t i = 0; i < n; i++) {
		const struct tally_row *r = &t->rows[i];

		fputs(i ? ",\n{\"name\":" : "\n{\"name\":", stdout);
		json_string(stdout, r->name);
		json_key(stdout, "file", *r->file ? r->file : NULL);
		if (r->line)
			printf(",\"line\":%d", r->line);
		else
			fputs(",\"line\":null", stdout);
		printf(",\"self\":%" PRIu64 ",\"total\":%" PRIu64 ",\"kind\":\"%s\"}",
		       shown(s, r->self, US), shown(s, r->total, US), r->kind);
	}
	fputs("\n]}\n", stdout);
}

/* @t is of the first event; where none was asked for, one column an event. */
static int annotate(const struct report_options *o, struct recording *r, const struct tally *t,
		    int event)
{
	const struct session *s = recording_session(r);
	struct tally all[SESSION_MAX_EVENTS] = { *t };
	struct source_events e = { .t = all,
				   .n = 1,
				   .events = &s->events[event],
				   .folded = recording_is_folded(r),
				   .since = s->since };
	int code = EXIT_DONE;

	for (; !o->event && !code && e.n < s->n_events; e.n++)
		code = tally_other(&all[e.n], t, s, TALLY_LINE, (int)e.n);
	if (!code)
		code = source_print(&e, o->annotate);
	for (size_t i = 1; i < e.n; i++)
		tally_deinit(&all[i]);
	return code;
}

static int report(const struct report_options *o, struct recording *r, struct strtab *texts)
{
	const struct session *s = recording_session(r);
	int event = recording_event(r, o->event), code;
	struct tally t;

	if (event < 0)
		return cmd_fail(EXIT_USAGE,
				"%s has no event '%s'; --by event tells those it has", o->path,
				o->event);
	code = tally_read(&t, r, texts, o->by, o->python, o->by == TALLY_EVENT ? -1 : event);
	tally_sort(&t, o->total, o->annotate ? t.n : shown_rows(o, &t));
	if (code && !t.samples)
		; /* a table of nothing says nothing */
	else if (o->annotate)
		code = code ? code : annotate(o, r, &t, event);
	else if (o->json)
		print_json(o, &t, s);
	else
		print_text(o, &t, s,
			   o->by == TALLY_EVENT || !s->n_events ? "all events" :
								  s->events[event].name);
	tally_deinit(&t);
	return code;
}

/* perf's keys that say by what rows are. */
static const struct {
	const char *key;
	enum tally_by by;
} perf_keys[] = {
	{ "sym", TALLY_FUNCTION }, { "symbol", TALLY_FUNCTION }, { "srcline", TALLY_LINE },
	{ "pid", TALLY_PROCESS },  { "tid", TALLY_THREAD },	 { "sym,srcline", TALLY_LINE },
	{ "srcline,sym", TALLY_LINE },
};

static int take_sort(struct report_options *o, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(perf_keys); i++)
		if (!strcmp(word, perf_keys[i].key)) {
			o->by = perf_keys[i].by;
			o->by_given = true;
			return EXIT_DONE;
		}
	o->total = !strcmp(word, "total");
	if (o->total || !strcmp(word, "self"))
		return EXIT_DONE;
	return cmd_fail(EXIT_USAGE, "--sort takes self or total, not '%s'; --by says by what rows are",
			word);
}

/* EXIT_DONE, or an exit code after a sentence. */
static int take_option(void *into, int opt)
{
	struct report_options *o = into;
	int i;

	switch (opt) {
	case OPT_BY:
		i = cmd_word("--by", optarg, tally_names, TALLY_N);
		o->by = i < 0 ? o->by : (enum tally_by)i;
		o->by_given = true;
		return i < 0 ? EXIT_USAGE : EXIT_DONE;
	case 's':
		o->order_given = true;
		return take_sort(o, optarg);
	case OPT_CHILDREN:
	case OPT_NO_CHILDREN:
		o->total = opt == OPT_CHILDREN;
		o->order_given = true;
		return EXIT_DONE;
	case OPT_PYTHON:
		o->python = true;
		return EXIT_DONE;
	case OPT_STDIO: /* there is nothing else */
		return EXIT_DONE;
	case 'i':
		if (o->path)
			return cmd_fail(EXIT_USAGE, "report takes one FILE: '%s' or '%s'",
					o->path, optarg);
		o->path = optarg;
		return EXIT_DONE;
	case OPT_JSON:
		o->json = true;
		return EXIT_DONE;
	case OPT_ANNOTATE:
		o->annotate = optarg;
		return EXIT_DONE;
	case 'e':
		o->event = optarg;
		return EXIT_DONE;
	default:
		o->rows_given = true;
		return cmd_rows(optarg, &o->rows);
	}
}

static int run(struct report_options *o)
{
	struct recording r;
	struct strtab *texts;
	int code;

	if (o->annotate && (o->json || o->by_given || o->order_given || o->rows_given))
		return cmd_fail(EXIT_USAGE, "--annotate shows each line of a function in its "
					    "place: --json, --by, --sort, --children and -n don't "
					    "go with it");
	if (o->event && o->by == TALLY_EVENT)
		return cmd_fail(EXIT_USAGE, "--by event shows all events: leave -e out");
	if (o->python && o->by >= TALLY_THREAD)
		return cmd_fail(EXIT_USAGE, "--python goes with --by function, line and file, not "
					    "with --by %s",
				tally_names[o->by]);
	if (o->annotate)
		o->by = TALLY_LINE;
	code = recording_open(&r, o->path);
	texts = strtab_create();
	if (!code)
		code = report(o, &r, texts);
	recording_close(&r);
	strtab_destroy(texts);
	return code;
}

int cmd_report(int argc, char **argv)
{
	const struct cmd_syntax s = { ":e:n:s:i:hV", help, options, take_option };
	struct report_options o = { 0 };
	int code = cmd_parse(argc, argv, &s, &o);

	if (code != CMD_GO_ON)
		return code;
	if (argc - optind + !!o.path > 1)
		return cmd_fail(EXIT_USAGE, "report takes one FILE; see --help");
	if (!o.path)
		o.path = optind < argc ? argv[optind] : "perf.data";
	code = recording_guard(false);
	return code ? code : run(&o);
}
