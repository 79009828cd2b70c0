/* SPDX-License-Identifier: MIT
 *
 * convert - writes a recording in another format.
 */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "../output/sink.h"
#include "cmd.h"
#include "recording.h"

static const char help[] =
	"Usage: pysampled convert FILE -o OUT [--format NAME]\n\n"
	"FILE is a perf.data, of pysampled or of perf, a tape, or holds folded stacks, also\n"
	"of another tool; '-' is standard input.\n\n"
	"  -o, --output FILE         .html, .svg, .pb.gz, .speedscope.json, .gecko.json,\n"
	"                            .folded; of a tape .data, too\n"
	"      --format NAME         folded, flamegraph, pprof, speedscope, gecko or perf;\n"
	"                            default: by OUT's extension\n"
	"      --full-paths          .folded: whole paths of Python files\n"
	"      --threads             .folded: keep threads apart\n"
	"  -z, --compress[=LEVEL]    .data: with zstd, 1 (fast) to 22; 3\n"
	"  -h, --help\n"
	"  -V, --version\n";

static const struct option options[] = {
	{ "output", required_argument, NULL, 'o' }, { "format", required_argument, NULL, 'f' },
	{ "full-paths", no_argument, NULL, 'P' },   { "threads", no_argument, NULL, 't' },
	{ "compress", optional_argument, NULL, 'z' },
	{ "help", no_argument, NULL, 'h' },	    { "version", no_argument, NULL, 'V' },
	{ 0 },
};

static int convert(struct recording *in, const struct sink_ops *format, const char *out)
{
	struct sink sink;
	struct err err;
	int code;

	if (sink_open(&sink, format, out, recording_session(in), &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	recording_begins();
	code = recording_feed(in, &sink);
	if (sink_close(&sink, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	return code;
}

struct wish {
	const char *out, *format;
	bool full_paths, threads;
	int compress; /* level of zstd; 0: none */
};

/* A perf.data has addresses and what is mapped there, which only tapes keep besides. */
static int check_perf(struct recording *in)
{
	const char *why = "has folded stacks, which have names and no addresses";

	if (recording_session(in)->told.n)
		return EXIT_DONE;
	if (in->perf)
		why = "is one already, and is not written anew";
	if (in->tape)
		why = "is one of an older pysampled, which kept no addresses";
	return cmd_fail(EXIT_USAGE, "a perf.data is made of a tape: %s %s", in->path, why);
}

static int take_wish(struct recording *in, const struct wish *w)
{
	struct session *s = recording_session(in);

	if (w->threads && recording_is_folded(in) && !(s->flags & SESSION_THREADS))
		return cmd_fail(EXIT_USAGE, "%s does not tell threads apart: leave --threads out",
				in->path);
	if (w->full_paths && recording_is_short(in))
		return cmd_fail(EXIT_USAGE, "%s has short names of Python files, without their "
					    "folders: leave --full-paths out",
				in->path);
	s->compress = w->compress;
	s->flags |= (w->full_paths ? SESSION_FULL_PATHS : 0u) | (w->threads ? SESSION_THREADS : 0u);
	return EXIT_DONE;
}

/* Neither OUT nor where an old OUT is kept may be what is read. */
static int check_apart(const char *path, const char *out, const struct sink_ops *format)
{
	char old[PATH_MAX + 4];
	int code = recording_apart(path, out);

	if (code || !(format->needs & SINK_KEEPS_OLD))
		return code;
	snprintf(old, sizeof(old), "%s.old", out);
	return recording_apart(path, old);
}

/* What @format honours. */
static int check_wish(const struct wish *w, const struct sink_ops *format)
{
	bool folded = !strcmp(format->name, "folded"), perf = !strcmp(format->name, "perf");

	if (w->full_paths && !folded)
		return cmd_fail(EXIT_USAGE, "--full-paths is for folded stacks: other outputs "
					    "have whole paths anyway");
	if (w->threads && !folded)
		return cmd_fail(EXIT_USAGE, "--threads is for folded stacks: other outputs know "
					    "threads anyway, but an .svg shows them as one");
	if (w->compress && !perf)
		return cmd_fail(EXIT_USAGE, "-z packs perf.data: leave it out");
	return EXIT_DONE;
}

static int open_and_convert(const char *path, const struct wish *w)
{
	const char *name = w->format, *out = w->out;
	const struct sink_ops *format = sink_pick(name, out);
	struct recording in;
	int code;

	if (!format || format->needs & SINK_NEEDS_READS)
		return cmd_fail(
			EXIT_USAGE,
			"a recording can't become '%s'%s%s%s: name an output that ends in "
			".html, .svg, .pb.gz, .speedscope.json, .gecko.json, .folded or .data",
			name ? name : out, format ? " (only record writes " : "",
			format ? format->name : "", format ? ")" : "");
	code = check_apart(path, out, format);
	if (!code)
		code = check_wish(w, format);
	if (code)
		return code;
	code = recording_open(&in, path);
	if (!code && format->needs & SINK_NEEDS_IDS)
		code = check_perf(&in);
	if (!code)
		code = take_wish(&in, w);
	if (!code)
		code = convert(&in, format, out);
	recording_close(&in);
	return code;
}

static int take_option(void *into, int opt)
{
	struct wish *w = into;

	if (opt == 'z')
		return cmd_level(optarg, &w->compress);
	if (opt == 'P' || opt == 't') {
		*(opt == 'P' ? &w->full_paths : &w->threads) = true;
		return EXIT_DONE;
	}
	if (opt == 'o' && w->out)
		return cmd_fail(EXIT_USAGE, "convert writes one OUT: '%s' or '%s'", w->out,
				optarg);
	*(opt == 'o' ? &w->out : &w->format) = optarg;
	return EXIT_DONE;
}

int cmd_convert(int argc, char **argv)
{
	const struct cmd_syntax s = { ":o:z::hV", help, options, take_option };
	struct wish w = { 0 };
	int code = cmd_parse(argc, argv, &s, &w);

	if (code != CMD_GO_ON)
		return code;
	if (optind + 1 != argc || !w.out)
		return cmd_fail(EXIT_USAGE, "convert takes one FILE and -o OUT; see --help");
	code = recording_guard(true);
	return code ? code : open_and_convert(argv[optind], &w);
}
