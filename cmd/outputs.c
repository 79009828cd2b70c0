/* SPDX-License-Identifier: MIT
 *
 * outputs - picks the format of each output, and refuses what none can do.
 */
#include "outputs.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "../output/outfile.h"
#include "base/base.h"
#include "lines/srcline.h"
#include "cmd.h"
#include "options.h"

/* "perf (.data), folded (.folded, .txt)". */
static const char *formats_text(char *buf, size_t cap)
{
	size_t n = 0;

	*buf = '\0';
	for (size_t i = 0; sink_formats[i] && n < cap; i++) {
		const char *const *x = sink_formats[i]->extensions;

		n += (size_t)snprintf(buf + n, cap - n, "%s%s (", i ? ", " : "",
				      sink_formats[i]->name);
		for (size_t k = 0; x[k] && n < cap; k++)
			n += (size_t)snprintf(buf + n, cap - n, "%s%s", k ? ", " : "", x[k]);
		n += n < cap ? (size_t)snprintf(buf + n, cap - n, ")") : 0;
	}
	return buf;
}

static const struct cmd_elsewhere formats_elsewhere[] = {
	{ "raw", "--format folded" },
	{ "collapsed", "--format folded" },
	{ "html", "--format flamegraph" },
	{ "svg", "-o FILE.svg, without --format" },
	{ "json", "--format speedscope or gecko" },
	{ "chrometrace", "--format speedscope or gecko" },
	{ "firefox", "--format gecko" },
	{ "data", "--format perf" },
	{ 0 },
};

static int no_format(const char *name, const char *path)
{
	char built[512];

	if (name && cmd_elsewhere("output format", name, formats_elsewhere))
		return EXIT_USAGE;
	formats_text(built, sizeof(built));
	if (name)
		return cmd_fail(EXIT_USAGE, "there is no output format '%s'; there are %s",
				name, built);
	return cmd_fail(EXIT_USAGE,
			"no format is known by the end of '%s': there are %s; or give "
			"--format",
			path, built);
}

/* Of the folder that @path's file lies in. */
static bool stat_folder(const char *path, struct stat *st)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s.", (int)(base_name(path) - path), path);
	return stat(folder, st) == 0;
}

/* Do both lead to one file? Where there is none yet: to one name in one folder. */
static bool is_same(const char *a, const char *b)
{
	struct stat x, y;
	bool there = !stat(a, &x) && !stat(b, &y);

	if (!strcmp(a, b))
		return true;
	if (there && !S_ISREG(x.st_mode))
		return false;
	if (!there && (strcmp(base_name(a), base_name(b)) != 0 || !stat_folder(a, &x) ||
		       !stat_folder(b, &y)))
		return false;
	return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int pick_one(struct record_options *o, size_t i)
{
	const char *name = o->asked[i] ? o->asked[i] : o->asked_first, *path = o->path[i];

	o->format[i] = sink_pick(name, path);
	if (!o->format[i])
		return no_format(name, path);
	for (size_t k = 0; k < i; k++)
		if (is_same(path, o->path[k]))
			return cmd_fail(EXIT_USAGE, "output '%s' is named twice%s%s", path,
					strcmp(path, o->path[k]) ? ", also as " : "",
					strcmp(path, o->path[k]) ? o->path[k] : "");
	return 0;
}

/* An output where what another one finds in its place is kept would be moved away, or replaced. */
static int check_old(const struct record_options *o)
{
	char old[PATH_MAX + 4];

	for (size_t i = 0; i < o->n_outputs; i++) {
		snprintf(old, sizeof(old), "%s.old", o->path[i]);
		for (size_t k = 0; o->format[i]->needs & SINK_KEEPS_OLD && k < o->n_outputs; k++)
			if (is_same(old, o->path[k]))
				return cmd_fail(EXIT_USAGE,
						"output '%s' is where an old '%s' is kept: "
						"name it otherwise",
						o->path[k], o->path[i]);
	}
	return 0;
}

/* perf.data goes there as down a pipe: to what a link in /dev leads to, too, whatever that is. */
static bool is_stream(const char *path)
{
	struct stat st;

	return !strcmp(path, "-") || (!strncmp(path, "/dev/", 5) && lstat(path, &st) == 0 &&
				      (S_ISLNK(st.st_mode) || S_ISFIFO(st.st_mode)));
}

/* What only perf.data honours. */
static int check_perf(const struct record_options *o)
{
	bool perf = false;

	for (size_t i = 0; i < o->n_outputs; i++) {
		bool is = !strcmp(o->format[i]->name, "perf");

		perf |= is;
		if (is && o->no_cache && is_stream(o->path[i]))
			return cmd_fail(EXIT_USAGE,
					"who reads perf.data from a pipe finds its "
					"symbols in ~/.debug: leave -B out");
	}
	if (o->no_cache && !perf)
		return cmd_fail(EXIT_USAGE, "-B is about perf.data's symbols, and no output "
					    "is one: leave it out");
	if (o->compress && !perf)
		return cmd_fail(EXIT_USAGE,
				"-z packs perf.data, and no output is one: leave it out");
	return 0;
}

/* What a recording of waits, or of the GIL's holders, does not go with. */
static int check_mode(const struct record_options *o)
{
	bool tape = false;

	for (size_t i = 0; i < o->n_outputs; i++)
		tape |= o->format[i]->needs & SINK_NEEDS_READS;
	if (o->rec.mode != RECORDER_CPU && tape)
		return cmd_fail(EXIT_USAGE, "a tape keeps all that readers see: --mode cpu");
	if (o->rec.mode == RECORDER_GIL && o->rec.any)
		return cmd_fail(EXIT_USAGE, "--mode gil keeps samples of threads that hold "
					    "Python's GIL: leave --any out");
	return 0;
}

/* What only text outputs honour. */
static int check_text(const struct record_options *o)
{
	bool text = false, folded = false, threads = false;

	for (size_t i = 0; i < o->n_outputs; i++) {
		text |= o->format[i]->needs & SINK_IS_RESULT;
		folded |= !strcmp(o->format[i]->name, "folded");
		threads |= o->format[i]->needs & SINK_IS_RESULT && !sink_ends_with(o->path[i], ".svg");
	}
	if (o->session_flags & SESSION_FULL_PATHS && !folded)
		return cmd_fail(EXIT_USAGE, "--full-paths is for folded stacks: other outputs "
					    "have whole paths anyway");
	if (o->text_option && !text)
		return cmd_fail(EXIT_USAGE,
				"%s is for outputs with names, such as folded, and there is "
				"none: perf.data keeps "
				"all, and perf's own options choose",
				o->text_option);
	if (o->session_flags & SESSION_THREADS && text && !threads)
		return cmd_fail(EXIT_USAGE, "an .svg shows all threads as one: --threads is for "
					    "other outputs, such as an .html");
	if (o->debuginfod && !o->native_lines)
		return cmd_fail(EXIT_USAGE, "--debuginfod goes with --native-lines");
	if (o->native_lines && !srcline_built)
		return cmd_fail(EXIT_USAGE, "this pysampled was built without libdw: leave "
					    "--native-lines out");
	if (o->native_lines && (!text || !o->rec.native))
		return cmd_fail(
			EXIT_USAGE,
			"--native-lines is for the native frames of outputs with names, "
			"and there %s none",
			text ? "are" : "is");
	return 0;
}

/* perf.data, or what --format makes of it: perf.folded. */
static void name_output(struct record_options *o)
{
	const struct sink_ops *f = sink_pick(o->asked_first, "perf.data");

	snprintf(o->unnamed, sizeof(o->unnamed), "perf%s", f ? f->extensions[0] : "");
	o->path[o->n_outputs++] = o->unnamed;
}

int outputs_pick(struct record_options *o)
{
	int r = 0;

	if (!o->n_outputs)
		name_output(o);
	for (size_t i = 0; r == 0 && i < o->n_outputs; i++)
		r = pick_one(o, i);
	if (r == 0)
		r = check_old(o);
	if (r == 0)
		r = check_mode(o);
	if (r == 0)
		r = check_perf(o);
	return r ? r : check_text(o);
}
