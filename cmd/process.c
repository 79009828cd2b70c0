/* SPDX-License-Identifier: MIT */
#include "process.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "../lib/probe.h"
#include "../lib/proc.h"
#include "cmd.h"

enum { PROBE_MS = 5000, PID_MAX = 1 << 22 };

static pid_t done(int code)
{
	return -1 - code;
}

int process_done(pid_t answer)
{
	return -1 - answer;
}

static const struct option plain[] = { { "pid", required_argument, NULL, 'p' },
				       { "help", no_argument, NULL, 'h' },
				       { 0 } };
static const struct option with_native[] = { { "pid", required_argument, NULL, 'p' },
					     { "help", no_argument, NULL, 'h' },
					     { "native", optional_argument, NULL, 'n' },
					     { "no-native", no_argument, NULL, 'N' },
					     { 0 } };

pid_t process_option(int argc, char **argv, const char *help, enum process_native *native)
{
	long pid = 0;
	int opt;

	while ((opt = getopt_long(argc, argv, ":p:h", native ? with_native : plain, NULL)) !=
	       -1) {
		if (opt == 'n' && (!optarg || !strcmp(optarg, "full"))) {
			*native = optarg ? PROCESS_NATIVE_FULL : PROCESS_NATIVE;
			continue;
		}
		if (opt == 'n')
			return done(cmd_fail(EXIT_USAGE,
					     "--native takes nothing or 'full', not '%s'",
					     optarg));
		if (opt == 'N') {
			*native = PROCESS_NO_NATIVE;
			continue;
		}
		if (opt == 'h') {
			puts(help);
			return done(EXIT_DONE);
		}
		if (opt != 'p')
			return done(cmd_bad_option(argc, argv, opt));
		pid = cmd_number(optarg, PID_MAX);
		if (pid < 0)
			return done(
				cmd_fail(EXIT_USAGE, "'%s' is not a process number", optarg));
	}
	if (optind < argc)
		return done(cmd_fail(EXIT_USAGE, "'%s' is not an option; %s takes -p PID",
				     argv[optind], argv[0]));
	return (pid_t)pid;
}

int process_find(pid_t pid, struct pyproc *ret, struct err *err)
{
	struct probe *probe;
	int code;

	if (!proc_exists(pid))
		return err_set(err, -ESRCH, "there is no process %d", pid);
	probe = probe_start(pid, -1);
	if (!probe)
		return err_set(err, -ENOMEM, "out of memory");
	if (!probe_wait(probe, PROBE_MS)) {
		probe_release(probe);
		return err_set(err, -EIO, "reading the memory of process %d hangs", pid);
	}
	probe_done(probe, &code, ret, err);
	probe_release(probe);
	return code;
}
