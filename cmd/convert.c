/* SPDX-License-Identifier: MIT
 *
 * convert - writes a recording of folded stacks in another format.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "../output/folded_read.h"
#include "base/stats.h"
#include "cmd.h"

static const char help[] =
	"Usage: pysampled convert FILE -o OUT [--format NAME]\n\n"
	"FILE holds folded stacks, of pysampled or another tool.\n\n"
	"  -o, --output OUT   .html, .svg, .pb.gz, .speedscope.json, .folded\n"
	"      --format NAME  default: by OUT's extension\n"
	"  -h, --help\n"
	"  -V, --version\n";

static const struct option options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "format", required_argument, NULL, 'f' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

/* Is that a perf.data, or another file that is no text? */
static bool is_binary(FILE *in)
{
	int c = getc(in), next = getc(in);
	bool perf = c == 'P' && next == 'E';
	char rest[6] = "";

	if (perf && fread(rest, 1, sizeof(rest), in) == sizeof(rest))
		perf = !memcmp(rest, "RFILE2", sizeof(rest));
	rewind(in);
	return perf || (c != EOF && c < ' ');
}

static int convert(const char *path, FILE *in, const struct sink_ops *format, const char *out)
{
	struct stats stats = { 0 };
	struct session session = { .n_events = 1,
				   .capture = "",
				   .capture_why = "",
				   .flags = SESSION_LINES | SESSION_PERIOD | SESSION_THREADS,
				   .stats = &stats };
	struct sink sink;
	struct err err;
	size_t line;
	int ret;

	strcpy(session.events[0].name, "folded");
	if (sink_open(&sink, format, out, &session, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	ret = folded_read(in, &sink, &line);
	if (sink_close(&sink, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	if (ret == -EBADMSG)
		return cmd_fail(EXIT_FAILED,
				"%s:%zu: not a folded stack, 'frame;frame COUNT': "
				"%s has what stands before it",
				path, line, out);
	if (ret || ferror(in))
		return cmd_fail(EXIT_FAILED, "reading %s: %s", path,
				strerror(ret ? -ret : EIO));
	return EXIT_DONE;
}

static int open_and_convert(const char *path, const char *name, const char *out)
{
	const struct sink_ops *format = sink_pick(name, out);
	_cleanup_fclose_ FILE *in = NULL;

	if (!format || !(format->needs & SINK_NEEDS_NAMES))
		return cmd_fail(EXIT_USAGE,
				"folded stacks can't become '%s': name an output that ends in "
				".html, .svg, .pb.gz, .speedscope.json or .folded",
				name ? name : out);
	if (!strcmp(path, out))
		return cmd_fail(EXIT_USAGE, "'%s' is both what is read and what is written",
				out);
	in = fopen(path, "re");
	if (!in)
		return cmd_fail(EXIT_FAILED, "opening %s: %s", path, strerror(errno));
	if (is_binary(in))
		return cmd_fail(EXIT_USAGE,
				"%s is not text: only folded stacks can be converted", path);
	return convert(path, in, format, out);
}

int cmd_convert(int argc, char **argv)
{
	const char *out = NULL, *format = NULL;
	int opt;

	while ((opt = getopt_long(argc, argv, ":o:hV", options, NULL)) != -1) {
		if (opt == 'h')
			return fputs(help, stdout), EXIT_DONE;
		if (opt == 'V')
			return cmd_version();
		if (opt == '?' || opt == ':')
			return cmd_bad_option(argc, argv, options, opt);
		*(opt == 'o' ? &out : &format) = optarg;
	}
	if (optind + 1 != argc || !out)
		return cmd_fail(EXIT_USAGE, "convert takes one FILE and -o OUT; see --help");
	return open_and_convert(argv[optind], format, out);
}
