/* SPDX-License-Identifier: MIT
 *
 * pysampled - main: pick the command.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/base.h"
#include "../lib/capture/capture.h"
#include "../lib/demangle.h"
#include "../lib/inflate.h"
#include "../lib/unwind/others.h"
#include "../lib/offsets/pylayout.h"
#include "../lib/srcline.h"
#include "../lib/sparse.h"
#include "../lib/xz.h"
#include "../output/sink.h"
#include "cmd.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "record", cmd_record, "sample a process into a file (the default command)" },
	{ "dump", cmd_dump, "print the stack of every thread now" },
	{ "events", cmd_events, "list what can be sampled here, and why not where it can't" },
	{ "doctor", cmd_doctor, "what this kernel, these rights and this target allow" },
};

int cmd_fail(int code, const char *fmt, ...)
{
	va_list ap;

	fputs("pysampled: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
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

int cmd_bad_option(int argc, char **argv, int result)
{
	const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
	char one[3] = { '-', (char)optopt, 0 };

	if (optopt && optopt < 256 && strncmp(word, "--", 2) != 0)
		word = one;
	if (result == ':')
		return cmd_fail(EXIT_USAGE, "option %s needs a value; see --help", word);
	return cmd_fail(EXIT_USAGE,
			"there is no option %s (or not with this value); see --help", word);
}

static int print_help(FILE *f)
{
	fprintf(f, "Usage: pysampled [record] -p PID [options]\n"
		   "       pysampled [record] [options] -- CMD [ARG...]\n"
		   "       pysampled COMMAND [options]\n\n"
		   "Sample running Python processes by any perf event, from outside.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].help);
	fprintf(f,
		"\n'pysampled COMMAND --help' tells a command's options; man pysampled tells "
		"all.\n");
	return EXIT_DONE;
}

static int print_version(void)
{
	const struct pylayout *const *l;
	size_t n;

	printf("pysampled %s\nCPython:", PYSAMPLED_VERSION);
	l = pylayout_all(&n);
	for (size_t i = 0; i < n; i++)
		printf(" %d.%d", l[i]->version >> 8, l[i]->version & 0xff);
	printf("\nformats:");
	for (size_t i = 0; sink_formats[i]; i++)
		printf(" %s", sink_formats[i]->name);
	printf("\ncaptures:");
	for (size_t i = 0; captures[i]; i++)
		printf(" %s", captures[i]->name);
	printf("\nbuilt with: libelf zstd seccomp%s%s%s%s", demangle_built ? " libiberty" : "",
	       xz_built ? " lzma" : "", inflate_zlib_built ? " zlib" : "",
	       srcline_built ? " libdw" : "");
	for (size_t i = 0; unwind_others[i]; i++)
		printf(" %s", unwind_others[i]->name);
	printf("\n");
	return EXIT_DONE;
}

int main(int argc, char **argv)
{
	/* A closed pipe or a full quota is an error of the write that meets it, not our
	 * end. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	opterr = 0;
	sparse_init();
	if (argc < 2)
		return print_help(stderr), EXIT_USAGE;
	if (!strcmp(argv[1], SRCLINE_COMMAND))
		return srcline_main();
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return print_help(stdout);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return print_version();
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	if (argv[1][0] == '-')
		return cmd_record(argc, argv);
	return cmd_fail(EXIT_USAGE, "there is no command '%s'; see --help", argv[1]);
}
