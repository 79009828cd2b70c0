/* SPDX-License-Identifier: MIT
 *
 * outputs - picks the format of each output, and refuses what none can do.
 */
#include "outputs.h"

#include <string.h>

#include "lines/srcline.h"
#include "cmd.h"
#include "options.h"

#define BUILT "perf (.data), folded (.folded, .txt), tape (.tape)"

/* Formats of the contract that are not built yet must not become another one. */
static bool is_reserved(const char *path)
{
	static const char *const ends[] = { ".pb.gz",	   ".speedscope.json",
					    ".gecko.json", ".gecko.json.gz",
					    ".svg",	   ".html" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (sink_ends_with(path, ends[i]))
			return true;
	return false;
}

static int no_format(const char *name, const char *path)
{
	if (name)
		return cmd_fail(EXIT_USAGE, "there is no output format '%s'; there are " BUILT,
				name);
	if (is_reserved(path))
		return cmd_fail(EXIT_USAGE,
				"the format that '%s' ends in is not built into this version; "
				"there are " BUILT,
				path);
	return cmd_fail(EXIT_USAGE,
			"no format is known by the end of '%s': there are " BUILT
			"; or give --format",
			path);
}

static int pick_one(struct record_options *o, size_t i)
{
	const char *name = o->asked[i] ? o->asked[i] : o->asked_first, *path = o->path[i];

	o->format[i] = sink_pick(name, path);
	if (!o->format[i])
		return no_format(name, path);
	if (!strcmp(path, "-") && (o->format[i]->needs & SINK_NEEDS_FILE))
		return cmd_fail(EXIT_USAGE, "format '%s' can't go to stdout; name a file",
				o->format[i]->name);
	for (size_t k = 0; k < i; k++)
		if (!strcmp(path, o->path[k]))
			return cmd_fail(EXIT_USAGE, "output '%s' is named twice", path);
	return 0;
}

/* What only text outputs honour. */
static int check_text(const struct record_options *o)
{
	bool text = false;

	for (size_t i = 0; i < o->n_outputs; i++)
		text |= o->format[i]->needs & SINK_NEEDS_NAMES;
	if (o->text_option && !text)
		return cmd_fail(
			EXIT_USAGE,
			"%s is for a folded output, and there is none: perf.data keeps "
			"all, and perf's own options choose",
			o->text_option);
	if (o->debuginfod && !o->native_lines)
		return cmd_fail(EXIT_USAGE, "--debuginfod goes with --native-lines");
	if (o->native_lines && !srcline_built)
		return cmd_fail(EXIT_USAGE, "this pysampled was built without libdw: leave "
					    "--native-lines out");
	if (o->native_lines && (!text || !o->rec.native))
		return cmd_fail(EXIT_USAGE,
				"--native-lines is for the native frames of a folded output, "
				"and there %s none",
				text ? "are" : "is");
	return 0;
}

int outputs_pick(struct record_options *o)
{
	int r = 0;

	if (!o->n_outputs)
		o->path[o->n_outputs++] = "perf.data";
	for (size_t i = 0; r == 0 && i < o->n_outputs; i++)
		r = pick_one(o, i);
	return r ? r : check_text(o);
}
