/* SPDX-License-Identifier: MIT
 *
 * cmd - what all commands share: how they fail, and how they read numbers.
 */
#include "cmd.h"

#include <errno.h>
#include <limits.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../output/perf_zstd.h"
#include "base/base.h"
#include "base/nearest.h"
#include "base/printable.h"

static bool live; /* a line that is to be replaced stands on the terminal */
static int unwritten; /* errno of the first part of standard output that could not be written */

void cmd_live(const char *text)
{
	if (text || live)
		fprintf(stderr, "\r\033[K%s", text ? text : "");
	live = text;
}

static void print_line(FILE *to, const char *before, const char *fmt, va_list ap)
{
	_cleanup_free_ char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		fputs("pysampled: out of memory\n", stderr);
		return;
	}
	printable(text, strlen(text) + 1, text);
	cmd_live(NULL);
	fprintf(to, "%s%s\n", before, text);
}

void cmd_line(FILE *to, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(to, "", fmt, ap);
	va_end(ap);
}

/* @before and, between quotes, of which one that is in it stands outside, @path. */
static char *quoted(const char *before, const char *path)
{
	char *ret = malloc(strlen(before) + 4 * strlen(path) + 3), *to = ret;

	if (!ret)
		return NULL;
	to = stpcpy(to, before);
	*to++ = '\'';
	for (; *path; path++)
		if (*path == '\'')
			to = stpcpy(to, "'\\''");
		else
			*to++ = *path;
	strcpy(to, "'");
	return ret;
}

int cmd_by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *cmd_quoted(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./,:=@%+-";

	if (*path == '-') /* no option */
		return quoted("./", path);
	return *path && !path[strspn(path, plain)] ? strdup(path) : quoted("", path);
}

void cmd_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(stderr, "pysampled: ", fmt, ap);
	va_end(ap);
}

int cmd_fail(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(stderr, "pysampled: ", fmt, ap);
	va_end(ap);
	return code;
}

void cmd_flush_part(void)
{
	if ((fflush(stdout) || ferror(stdout)) && !unwritten)
		unwritten = errno;
}

int cmd_flush(int code)
{
	bool failed = ferror(stdout);
	int why = unwritten;

	if (fflush(stdout) && !why)
		why = errno;
	if (!why && !failed)
		return code;
	cmd_say("writing standard output: %s",
		why ? strerror(why) : "not all could be written");
	clearerr(stdout);
	return code == EXIT_DONE ? EXIT_FAILED : code;
}

int cmd_exit_code(int code)
{
	switch (-code) {
	case 0:
		return EXIT_DONE;
	case ESRCH:
	case ENOEXEC:
	case ENOTSUP:
	case EAGAIN:
		return EXIT_NO_PROCESS;
	case EACCES:
	case EPERM:
		return EXIT_PERMISSION;
	case ENOENT:
		return EXIT_EVENT;
	case EINVAL:
		return EXIT_USAGE;
	default:
		return EXIT_FAILED;
	}
}

long cmd_number(const char *s, long max)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(s, &end, 10);
	return errno || *end || end == s || v < 1 || v > max ? -1 : v;
}

int cmd_rows(const char *s, size_t *rows)
{
	long n = strcmp(s, "0") ? cmd_number(s, INT_MAX) : 0;

	*rows = (size_t)n;
	return n < 0 ? cmd_fail(EXIT_USAGE, "-n takes a number, not '%s'", s) : EXIT_DONE;
}

int cmd_level(const char *s, int *level)
{
	long n = s ? cmd_number(s, PERF_ZSTD_BEST) : PERF_ZSTD_DEFAULT;

	*level = (int)n;
	return n < 1 ? cmd_fail(EXIT_USAGE,
				"-z takes a level of zstd from 1 to 22, as in -z9; not '%s'", s) :
		       EXIT_DONE;
}

long cmd_size(const char *s)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;
	long v;

	errno = 0;
	v = strtol(s, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (errno || end == s || v < 1 || v > 1L << 32 || (*end && (!unit || end[1])))
		return -1;
	return unit ? v << 10 * (unit - units + 1) : v;
}

const char *cmd_short(const char *name, char room[CMD_SHORT])
{
	enum { HEAD = 120, TAIL = 40 };
	size_t n = strlen(name), head = HEAD, tail = n - TAIL;

	if (n < CMD_SHORT)
		return name;
	while (head && ((unsigned char)name[head] & 0xc0) == 0x80)
		head--; /* not within a letter */
	while (((unsigned char)name[tail] & 0xc0) == 0x80)
		tail++;
	snprintf(room, CMD_SHORT, "%.*s\u2026%s", (int)head, name, name + tail);
	return room;
}

int cmd_word(const char *option, const char *word, const char *const *words, size_t n)
{
	char text[512] = "";
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(word, words[i]))
			return (int)i;
		if (at < sizeof(text))
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
					       !i	 ? "" :
					       i + 1 < n ? ", " :
							   " or ",
					       words[i]);
	}
	cmd_fail(EXIT_USAGE, "%s takes %s, not '%s'", option, text, word);
	return -1;
}

/* The options whose names are near @word, "--NAME" or "--NAME=VALUE". */
static void near_options(const char *word, const struct option *options, struct nearest *n,
			 char *want, size_t size)
{
	snprintf(want, size, "%.*s", (int)strcspn(word, "="), word);
	*n = (struct nearest){ .want = want };
	for (; options->name; options++) {
		char name[NEAREST_NAME];

		snprintf(name, sizeof(name), "--%s", options->name);
		if (strncmp(word, "--", 2) == 0 && strcmp(name, want) != 0)
			nearest_offer(n, name);
	}
}

bool cmd_elsewhere(const char *what, const char *word, const struct cmd_elsewhere *known)
{
	for (; known->there; known++) {
		if (strcmp(word, known->there) != 0)
			continue;
		cmd_say("there is no %s '%s': here it is %s", what, word, known->here);
		return true;
	}
	return false;
}

/* "--freq, --format", which all begin with @want; how many. */
static size_t list_prefixed(const char *want, const struct option *options, char *to, size_t size)
{
	size_t n = 0, at = 0;

	for (; options->name; options++) {
		if (strncmp(want, "--", 2) != 0 ||
		    strncmp(options->name, want + 2, strlen(want) - 2) != 0)
			continue;
		if (at < size)
			at += (size_t)snprintf(to + at, size - at, "%s--%s", n ? ", " : "",
					       options->name);
		n++;
	}
	return n;
}

static bool has_option(const struct option *options, const char *name)
{
	for (; options->name; options++)
		if (strcmp(options->name, name) == 0)
			return true;
	return false;
}

/* What answers a word of perf, py-spy or austin. */
#define HERE "here it is "
#define NO_BRANCHES "branches are not recorded, but each sample has its whole stack"
#define NO_DELAY "sampling begins at once; attach with -p PID when it shall begin"
#define IN_EACH "leave it out, each sample of a perf.data has its time, period and CPU"
#define ONE_FILE "a recording is one file; end each with -d SEC, and name the next one"

/* What to do instead of @word, an option of others, where @options have @name; or NULL. */
static const char *known_elsewhere(const char *word, const struct option *options)
{
	static const struct {
		const char *there, *name, *here;
	} known[] = {
		{ "--rate", "freq", HERE "-F HZ" },
		{ "-r", "freq", HERE "-F HZ" },
		{ "-f", "format", HERE "--format" },
		{ "--subprocesses", "follow", HERE "--follow, the default" },
		{ "-s", "follow", HERE "--follow, the default" },
		{ "-C", "follow", HERE "--follow, the default, for child processes; CPUs can't be chosen" },
		{ "--per-thread", "events-on", HERE "--events-on threads" },
		{ "-m", "memory", HERE "--memory SIZE; a module is -- python3 -m MODULE" },
		{ "--percent-limit", "rows", HERE "-n ROWS" },
		{ "--call-graph", "native", HERE "--native, the default" },
		{ "--idle", "mode", HERE "--mode wall" },
		{ "--gil", "mode", HERE "--mode gil" },
		{ "--nolineno", "folded-lines", HERE "--folded-lines=no" },
		{ "--function", "folded-lines", HERE "--folded-lines=no" },
		{ "--nonblocking", "capture", HERE "--capture async" },
		{ "--exposure", "duration", HERE "-d SEC" },
		{ "-x", "duration", HERE "-d SEC" },
		{ "--all-cpus", "all", HERE "-a" },
		{ "-i", "freq", HERE "-F HZ: -i 100us is -F 10000; perf's -i is --no-follow" },
		{ "--interval", "freq", HERE "-F HZ: one each 10 ms is -F 100" },
		{ "-i", "output", HERE "the file's name alone" },
		{ "-o", "annotate", HERE "> FILE: a report goes to standard output" },
		{ "-n", "native", HERE "--native, the default" },
		{ "--full-filenames", "full-paths", HERE "--full-paths" },
		{ "--no-native", "python", HERE "--python" },
		{ "-j", "json", HERE "--json" },
		{ "--threads", "children", HERE "--by thread" },
		{ "-g", "children", HERE "--children; callers are in 'convert FILE -o OUT.html'" },
		{ "-b", "events-on", NO_BRANCHES },
		{ "-j", "events-on", NO_BRANCHES },
		{ "--branch-any", "events-on", NO_BRANCHES },
		{ "--branch-filter", "events-on", NO_BRANCHES },
		{ "-D", "events-on", NO_DELAY },
		{ "--delay", "events-on", NO_DELAY },
		{ "-T", "events-on", IN_EACH },
		{ "--timestamp", "events-on", IN_EACH },
		{ "-P", "events-on", IN_EACH },
		{ "--period", "events-on", IN_EACH },
		{ "--sample-cpu", "events-on", IN_EACH },
		{ "-k", "events-on", "leave it out, times are CLOCK_MONOTONIC's" },
		{ "--clockid", "events-on", "leave it out, times are CLOCK_MONOTONIC's" },
		{ "--switch-output", "events-on", ONE_FILE },
		{ "--switch-max-files", "events-on", ONE_FILE },
		{ "--timestamp-filename", "events-on", ONE_FILE },
		{ "--max-size", "events-on", "-d SEC limits a perf.data, -z packs it; folded stays small" },
		{ "--overwrite", "events-on", "no last part is kept; folded adds up and stays small" },
		{ "--no-inherit", "follow", HERE "--no-follow" },
		{ "--off-cpu", "mode", HERE "--mode wall" },
		{ "--mmap-pages", "memory", HERE "--memory SIZE, of all rings and more" },
		{ "--realtime", "events-on", "leave it out, readers have SCHED_FIFO where it is granted" },
		{ "-N", "no-buildid-cache", HERE "-B" },
		{ "--cpu", "mode", HERE "--mode cpu, the default; CPUs can't be chosen" },
		{ "--all-user", "events-on", HERE "-e EVENT:u" },
		{ "--all-kernel", "events-on", HERE "-e EVENT:k" },
		{ "--filter", "events-on", "events are not filtered: -p and -t choose whose are sampled" },
		{ "--uid", "user", HERE "-u USER" },
		{ "--group", "event", HERE "-e '{A,B}'" },
		{ "--force", "events-on", "leave it out, what is there becomes FILE.old" },
		{ "--hideprogress", "quiet", HERE "-q" },
		{ "--children", "follow", HERE "--follow, the default" },
		{ "--sleepless", "mode", HERE "--mode cpu, the default" },
		{ "-w", "events-on", HERE "pysampled dump PID" },
		{ "--where", "events-on", HERE "pysampled dump PID" },
		{ "--pipe", "output", HERE "-o -" },
		{ "--gc", "events-on", "leave it out, the garbage collector is the frame [gc]" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].there, word) == 0 && has_option(options, known[i].name))
			return known[i].here;
	return NULL;
}

/* @word is "--NAME=VALUE" of the option that getopt(3) refused for its value. */
static bool is_refused_value(const char *word, const struct option *options)
{
	size_t n = strcspn(word, "=");

	for (; options->name; options++)
		if (options->val == optopt && n > 2 && word[n] &&
		    strncmp(word, "--", 2) == 0 &&
		    strncmp(options->name, word + 2, n - 2) == 0)
			return true;
	return false;
}

int cmd_bad_option(int argc, char **argv, const struct option *options, int result)
{
	struct nearest near;
	char want[NEAREST_NAME], text[512];
	const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
	char one[3] = { '-', (char)optopt, 0 };
	const char *here;

	if (result == '?' && is_refused_value(word, options))
		return cmd_fail(EXIT_USAGE, "option %.*s takes no value; see --help",
				(int)strcspn(word, "="), word);
	if (optopt && optopt < 256 && (result == '?' || strncmp(word, "--", 2) != 0))
		word = one;
	if (result == ':')
		return cmd_fail(EXIT_USAGE, "option %s needs a value; see --help", word);
	near_options(word, options, &near, want, sizeof(want));
	if (list_prefixed(want, options, text, sizeof(text)) > 1)
		return cmd_fail(EXIT_USAGE, "%s may be short for %s", want, text);
	here = known_elsewhere(want, options);
	if (here)
		return cmd_fail(EXIT_USAGE, "there is no option %s: %s", want, here);
	return cmd_fail(EXIT_USAGE,
			"there is no option %s%s; see --help", word,
			nearest_text(&near, text, sizeof(text)));
}

int cmd_parse(int argc, char **argv, const struct cmd_syntax *s, void *into)
{
	int opt, code = EXIT_DONE;

	while (code == EXIT_DONE &&
	       (opt = getopt_long(argc, argv, s->letters, s->options, NULL)) != -1) {
		if (opt == 'h')
			return fputs(s->help, stdout), EXIT_DONE;
		if (opt == 'V')
			return cmd_version();
		if (opt == '?' || opt == ':')
			return cmd_bad_option(argc, argv, s->options, opt);
		code = s->take(into, opt);
	}
	return code == EXIT_DONE ? CMD_GO_ON : code;
}
