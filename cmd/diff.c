/* SPDX-License-Identifier: MIT
 *
 * diff - tells what took more, and what less, in one recording than in another.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../output/folded_names.h"
#include "../output/kept.h"
#include "../output/short_files.h"
#include "../output/sink.h"
#include "base/array.h"
#include "base/base.h"
#include "cmd.h"
#include "pairs.h"
#include "tally.h"

enum { OPT_BY = 256, OPT_PYTHON, DEFAULT_ROWS = 20 };

static const char help[] =
	"Usage: pysampled diff A B [options]\n\n"
	"A and B are each a perf.data, a tape, or hold folded stacks; one may be '-', standard\n"
	"input. Shares of samples are compared (self): what grew most from A to B comes first,\n"
	"what shrank most last.\n\n"
	"      --by WHAT        function (default), line or file\n"
	"      --python         Python frames only: what native code takes is self of the\n"
	"                       Python function that called it\n"
	"  -e, --event NAME     of several events this one, not the first that both have\n"
	"  -n, --rows N         so many rows, not 20: of both ends; 0: all\n"
	"  -o, --output FILE    a .html page instead: B's flame graph, coloured by change\n"
	"  -h, --help\n"
	"  -V, --version\n";

static const struct option options[] = {
	{ "by", required_argument, NULL, OPT_BY },
	{ "python", no_argument, NULL, OPT_PYTHON },
	{ "event", required_argument, NULL, 'e' },
	{ "rows", required_argument, NULL, 'n' },
	{ "output", required_argument, NULL, 'o' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

struct diff_options {
	const char *event, *out;
	enum tally_by by;
	size_t rows;
	bool python;
	const char *table; /* an option that only a table has, if one was given */
};

struct diff {
	const struct diff_options *o;
	char **paths;
	struct recording r[2];
	struct session session[2]; /* of what was read and closed */
	int event[2];
	uint64_t samples[2];
	struct strtab *texts;
	struct pair *pairs;
	size_t n, cap;
};

/* The text as folded stacks have it. NULL: no memory. */
static const char *fit(const struct tally *t, const char *text)
{
	char buf[PYFUNC_NAME_MAX + 1];

	folded_names_fit(buf, sizeof(buf), text);
	return tally_keep(t, buf);
}

static int fit_rows(const struct tally *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct tally_row *r = &t->rows[i];

		r->name = fit(t, r->name);
		r->file = fit(t, strcmp(r->kind, "native") && strcmp(r->kind, "gc") ? r->file : "");
		if (!r->name || !r->file)
			return -ENOMEM;
	}
	return 0;
}

/* Give all rows of @t what folded stacks have: names fit for these, and their files' short ones, of
 * native code none. 0 or -ENOMEM. */
static int fold(const struct tally *t)
{
	const char **whole = calloc(2 * t->n + 1, sizeof(*whole)), **name = whole + t->n;
	size_t n = 0;
	int ret = whole ? fit_rows(t) : -ENOMEM;

	for (size_t i = 0; !ret && i < t->n; i++)
		whole[i] = t->rows[i].file;
	if (!ret && t->n)
		qsort(whole, t->n, sizeof(*whole), cmd_by_text);
	for (size_t i = 0; !ret && i < t->n; i++)
		if (!n || strcmp(whole[n - 1], whole[i]) != 0)
			whole[n++] = whole[i];
	if (!ret)
		ret = short_files(whole, n, name);
	for (size_t i = 0; !ret && i < t->n; i++) {
		const char **f = bsearch(&t->rows[i].file, whole, n, sizeof(*whole), cmd_by_text);

		t->rows[i].file = tally_keep(t, name[f - whole]);
		ret = t->rows[i].file ? 0 : -ENOMEM;
	}
	free(whole);
	return ret;
}

static double change(const struct pair *p)
{
	return p->share[1] - p->share[0];
}

/* What grew most is the first. */
static int by_change(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return COMPARE(change(y), change(x)) ?:
	       strcmp(x->name, y->name) ?:
	       strcmp(x->file, y->file) ?:
	       COMPARE(x->kind, y->kind) ?:
	       COMPARE(x->line, y->line);
}

static int by_change_turned(const void *a, const void *b)
{
	return by_change(b, a);
}

/* Each row of @t becomes a pair of this side only. 0 or -ENOMEM. */
static int add_pairs(struct diff *d, size_t side, const struct tally *t)
{
	if (!array_reserve(&d->pairs, &d->cap, d->n + t->n, sizeof(*d->pairs)))
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		const struct tally_row *r = &t->rows[i];
		struct pair *p = &d->pairs[d->n++];

		*p = (struct pair){ .name = r->name,
				    .file = r->file,
				    .kind = *r->kind,
				    .sides = side ? PAIRS_B : PAIRS_A };
		p->share[side] = r->self / (double)t->samples;
		p->line = d->o->by == TALLY_LINE ? r->line : 0;
	}
	return 0;
}

static void print_pair(const struct diff *d, const struct pair *p)
{
	char where[PATH_MAX + 32] = "", room[CMD_SHORT];

	if (*p->file && p->line)
		snprintf(where, sizeof(where), " (%s:%d)", p->file, p->line);
	else if (*p->file)
		snprintf(where, sizeof(where), " (%s)", p->file);
	cmd_line(stdout, "%+7.2f%% %6.2f%% %6.2f%%  %s%s", 100 * change(p), 100 * p->share[0],
		 100 * p->share[1], cmd_short(p->name, room), where);
}

static const char *event_of(const struct diff *d, size_t side)
{
	return d->session[side].events[d->event[side]].name;
}

static void print_head(struct diff *d, size_t side)
{
	const struct session *s = &d->session[side];
	const uint64_t n = d->samples[side];
	const char *path = d->paths[side];
	const char letter = "AB"[side];

	if (s->flags & SESSION_WALL)
		cmd_line(stdout, "# %c: %.1f s of all threads of %s", letter, (double)n / 1e9,
			 path);
	else if (s->n_events > 1 || strcmp(event_of(d, 0), event_of(d, 1)) != 0)
		cmd_line(stdout, "# %c: %" PRIu64 " samples of %s, %s", letter, n,
			 event_of(d, side), path);
	else
		cmd_line(stdout, "# %c: %" PRIu64 " samples of %s", letter, n, path);
}

/* How many pairs grew, or (@sign -1) shrank. */
static size_t count_changed(const struct diff *d, int sign)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += sign * change(&d->pairs[i]) > 0;
	return n;
}

static void print_diff(struct diff *d)
{
	bool all = !d->o->rows || d->o->rows >= d->n;
	size_t grew = count_changed(d, 1), shrank = count_changed(d, -1);
	size_t most = all ? d->n : MIN(d->o->rows, grew + shrank);
	size_t last = MIN(most / 2, shrank), first = MIN(most - last, grew);

	last = most - first;
	if (all)
		first = most, last = 0;
	tally_sort_by(d->pairs, d->n, sizeof(*d->pairs), first, by_change);
	tally_sort_by(d->pairs + first, d->n - first, sizeof(*d->pairs), last, by_change_turned);
	print_head(d, 0);
	print_head(d, 1);
	cmd_line(stdout, "# change  self A  self B  %s", tally_names[d->o->by]);
	for (size_t i = 0; i < first; i++)
		print_pair(d, &d->pairs[i]);
	if (!most && d->n)
		cmd_line(stdout, "# no change in %zu: -n 0 shows them", d->n);
	else if (most < d->n)
		cmd_line(stdout, "# and %zu between: -n 0 shows all", d->n - most);
	for (size_t i = first + last; i-- > first;)
		print_pair(d, &d->pairs[i]);
}

/* The first event of A's that B has, too, else the first of each. */
static void pick_events(struct recording r[2], int event[2])
{
	const struct session *a = recording_session(&r[0]);

	event[0] = event[1] = 0;
	for (size_t i = 0; i < a->n_events; i++) {
		int e = recording_event(&r[1], a->events[i].name);

		if (e < 0)
			continue;
		event[0] = (int)i;
		event[1] = e;
		return;
	}
}

/* What of each recording is compared. EXIT_DONE, or an exit code after a sentence. */
static int find_events(struct recording r[2], const char *name, int event[2])
{
	if (!name)
		return pick_events(r, event), EXIT_DONE;
	for (size_t side = 0; side < 2; side++) {
		event[side] = recording_event(&r[side], name);
		if (event[side] < 0)
			return cmd_fail(EXIT_USAGE, "%s has no event '%s'", r[side].path, name);
	}
	return EXIT_DONE;
}

static int no_samples(const struct recording *r)
{
	return cmd_fail(EXIT_FAILED, "%s has no samples", r->path);
}

/* One recording makes room for the other: of it only pairs and texts stay. With @unlike they have
 * what folded stacks have. EXIT_DONE, or an exit code after a sentence. */
static int read_side(struct diff *d, size_t side, bool unlike)
{
	struct recording *r = &d->r[side];
	struct tally t;
	int code = tally_read(&t, r, d->texts, d->o->by, d->o->python, d->event[side]);

	if (!code && !t.samples)
		code = no_samples(r);
	d->session[side] = *recording_session(r);
	d->samples[side] = t.samples;
	recording_close(r);
	tree_deinit(&t.tree);
	if (!code && ((unlike && fold(&t) < 0) || add_pairs(d, side, &t) < 0))
		code = cmd_fail(EXIT_FAILED, "out of memory");
	tally_deinit(&t);
	return code;
}

/* True: one calls its files as folded stacks do, and the other does not. */
static bool are_unlike(const struct recording r[2])
{
	return recording_is_folded(&r[0]) != recording_is_folded(&r[1]);
}

static int diff(const struct diff_options *o, char **paths)
{
	struct diff d = { .o = o, .paths = paths, .texts = strtab_create() };
	int code = recording_open(&d.r[0], paths[0]);
	bool unlike, folded;

	if (!code)
		code = recording_open(&d.r[1], paths[1]);
	unlike = are_unlike(d.r);
	folded = unlike || recording_is_folded(&d.r[0]);
	if (!code)
		code = find_events(d.r, o->event, d.event);
	for (size_t side = 0; side < 2 && !code; side++)
		code = read_side(&d, side, unlike);
	d.n = pairs_join(d.pairs, d.n);
	if (!code && folded)
		pairs_tell_twice(d.pairs, d.n);
	else if (!code && pairs_join_moved(d.pairs, &d.n) < 0)
		code = cmd_fail(EXIT_FAILED, "out of memory");
	if (!code)
		print_diff(&d);
	free(d.pairs);
	strtab_destroy(d.texts);
	recording_close(&d.r[0]);
	recording_close(&d.r[1]);
	return code;
}

/* ---- the page ---- */

/* Hands on what one recording has of one event, as event @as of another sink. */
struct hand_on {
	struct sink *to;
	uint32_t event, as;
	bool any; /* there were samples */
};

static int hand_side(struct sink *s, const struct side *side)
{
	const struct hand_on *h = s->priv;

	return h->to->ops->side(h->to, side);
}

static int hand_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct hand_on *h = s->priv;
	struct sample copy = *smp;
	struct stack whole = *stk;

	if (smp->event != h->event)
		return 0;
	h->any |= kept_weight(s->session, smp) > 0;
	copy.event = h->as;
	whole.same = 0; /* the first of a number may be another event's */
	return h->to->ops->sample(h->to, &copy, &whole);
}

static const struct sink_ops hand_on = {
	.name = "diff", .needs = SINK_NEEDS_NAMES, .side = hand_side, .sample = hand_sample
};

static int hand_all(struct recording *r, struct sink *to, uint32_t event, uint32_t as)
{
	struct hand_on h = { to, event, as, false };
	struct sink s = { .ops = &hand_on,
			  .session = recording_session(r),
			  .path = r->path,
			  .folder = -1,
			  .priv = &h };
	int code = recording_feed(r, &s);

	return code || h.any ? code : no_samples(r);
}

/* The two recordings' events become the page's: B's, then A's. */
static void name_events(struct recording r[2], const int event[2], struct session *both)
{
	for (size_t side = 0; side < 2; side++) {
		const struct event_info *e = &recording_session(&r[side])->events[event[side]];

		both->events[1 - side] = *e;
		both->how[1 - side] = recording_session(&r[side])->how[event[side]];
		snprintf(both->events[1 - side].name, sizeof(both->events[0].name),
			 "%s: %.200s", side ? "B" : "A", e->name);
	}
}

/* Which recordings have which functions, of which @p has one each. */
static void find_sides(const struct tree *t, struct pair *p)
{
	struct buf path = { 0 };

	for (size_t i = 0; i < tree_n_rows(t); i++) {
		const struct tree_row *r = tree_row(t, i);
		size_t n = tree_path(t, r->node, &path);

		for (size_t k = 0; k < n; k++) {
			uint32_t func = tree_frame(t, load_u32(path.at + 4 * k))->func;

			p[func].sides |= r->event ? PAIRS_A : PAIRS_B;
			p[func].share[r->event ? 0 : 1] = 1;
		}
	}
	buf_deinit(&path);
}

static void tell_twice_on_page(const struct tree *t, bool folded)
{
	size_t n = tree_n_funcs(t);
	struct pair *p = calloc(n + 1, sizeof(*p));

	for (uint32_t i = 0; p && i < n; i++) {
		const struct tree_func *f = tree_func(t, i);

		p[i].name = tree_text(t, f->name);
		p[i].file = tree_text(t, f->file);
		p[i].kind = *tree_kind(t, i);
	}
	if (p)
		find_sides(t, p);
	if (p && folded)
		pairs_tell_twice(p, n);
	else if (p)
		pairs_tell_moved(p, n);
	free(p);
}

static int write_page(const struct diff_options *o, struct recording r[2],
		      const struct session *both, const int event[2])
{
	bool folded = recording_is_folded(&r[0]);
	struct sink out;
	struct err err;
	int code;

	if (sink_open(&out, sink_pick("flamegraph", o->out), o->out, both, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	recording_begins();
	code = hand_all(&r[0], &out, (uint32_t)event[0], 1);
	tree_other(out.priv);
	recording_close(&r[0]); /* Nothing points into A's reader from here on. */
	if (!code)
		code = hand_all(&r[1], &out, (uint32_t)event[1], 0);
	if (!code)
		tell_twice_on_page(out.priv, folded);
	if (sink_close(&out, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	return code;
}

static int diff_page(const struct diff_options *o, char **paths)
{
	struct stats stats = { 0 };
	struct session both = { .n_events = 2,
				.capture = "",
				.capture_why = "",
				.flags = SESSION_COMPARED,
				.stats = &stats };
	struct recording r[2] = { 0 };
	int event[2], code = EXIT_DONE;

	if (!sink_ends_with(o->out, ".html"))
		return cmd_fail(EXIT_USAGE, "diff writes a page: name an output that ends in "
					    ".html");
	for (size_t side = 0; side < 2 && !code; side++) {
		code = recording_apart(paths[side], o->out);
		if (!code)
			code = recording_open(&r[side], paths[side]);
		if (!code)
			both.flags |= recording_session(&r[side])->flags & SESSION_WALL;
	}
	if (both.flags & SESSION_WALL)
		both.flags |= SESSION_PERIOD; /* a clock's are times, too */
	/* Each Python frame would be one that the other has not: folded stacks have short paths. */
	if (!code && are_unlike(r))
		code = cmd_fail(EXIT_USAGE, "folded stacks call files otherwise: write the other "
					    "recording as such, too (pysampled convert FILE -o "
					    "FILE.folded), or leave -o out");
	if (!code)
		code = find_events(r, o->event, event);
	if (!code) {
		name_events(r, event, &both);
		code = write_page(o, r, &both, event);
	}
	recording_close(&r[0]);
	recording_close(&r[1]);
	return code;
}

/* EXIT_DONE, or an exit code after a sentence. */
static int take_option(void *into, int opt)
{
	struct diff_options *o = into;
	int i;

	if (opt == 'e') {
		o->event = optarg;
		return EXIT_DONE;
	}
	if (opt == 'o') {
		if (o->out)
			return cmd_fail(EXIT_USAGE, "diff writes one page: '%s' or '%s'", o->out,
					optarg);
		o->out = optarg;
		return EXIT_DONE;
	}
	o->table = opt == 'n' ? "-n" : opt == OPT_PYTHON ? "--python" : "--by";
	o->python |= opt == OPT_PYTHON;
	if (opt == OPT_PYTHON)
		return EXIT_DONE;
	if (opt == 'n')
		return cmd_rows(optarg, &o->rows);
	i = cmd_word("--by", optarg, tally_names, TALLY_FILE + 1);
	o->by = i < 0 ? o->by : (enum tally_by)i;
	return i < 0 ? EXIT_USAGE : EXIT_DONE;
}

int cmd_diff(int argc, char **argv)
{
	const struct cmd_syntax s = { ":e:n:o:hV", help, options, take_option };
	struct diff_options o = { .rows = DEFAULT_ROWS };
	int code = cmd_parse(argc, argv, &s, &o);

	if (code != CMD_GO_ON)
		return code;
	if (optind + 2 != argc)
		return cmd_fail(EXIT_USAGE, "diff takes two FILEs; see --help");
	if (!strcmp(argv[optind], "-") && !strcmp(argv[optind + 1], "-"))
		return cmd_fail(EXIT_USAGE, "A or B is standard input, not both");
	if (o.out && o.table)
		return cmd_fail(EXIT_USAGE, "%s is for a table, and -o writes a page: leave one "
					    "out",
				o.table);
	code = recording_guard(o.out);
	if (code)
		return code;
	return o.out ? diff_page(&o, argv + optind) : diff(&o, argv + optind);
}
