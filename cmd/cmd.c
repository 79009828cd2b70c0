/* SPDX-License-Identifier: MIT
 *
 * cmd - what all commands share: how they fail, and how they read numbers.
 */
#include "cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
