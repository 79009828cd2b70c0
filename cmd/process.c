/* SPDX-License-Identifier: MIT */
#include "process.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "elf/file_helper.h"
#include "lines/srcline.h"
#include "cmd.h"

enum { PROBE_MS = 5000 };

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
				       { "version", no_argument, NULL, 'V' },
				       { 0 } };
static const struct option with_native[] = {
	{ "pid", required_argument, NULL, 'p' },    { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },	    { "native", optional_argument, NULL, 'n' },
	{ "no-native", no_argument, NULL, 'N' },    { "native-lines", no_argument, NULL, 'l' },
	{ "debuginfod", no_argument, NULL, 'd' },   { "json", no_argument, NULL, 'j' },
	{ "async", no_argument, NULL, 's' },	    { "all", no_argument, NULL, 'a' },
	{ "match", required_argument, NULL, 'm' },  { "user", required_argument, NULL, 'u' },
	{ "cgroup", required_argument, NULL, 'G' }, { 0 }
};

/* 0, or the exit code after a sentence. */
static int parse_native(struct process_shows *shows, const char *arg)
{
	if (arg && strcmp(arg, "full") != 0)
		return cmd_fail(EXIT_USAGE, "--native takes nothing or 'full', not '%s'", arg);
	shows->native = arg ? PROCESS_NATIVE_FULL : PROCESS_NATIVE;
	shows->with_native = true;
	return 0;
}

static int check_lines(const struct process_shows *shows)
{
	if (shows->debuginfod && !shows->lines)
		return cmd_fail(EXIT_USAGE, "--debuginfod goes with --native-lines");
	if (shows->lines && !srcline_built)
		return cmd_fail(EXIT_USAGE, "this pysampled was built without libdw: leave "
					    "--native-lines out");
	if (shows->lines && shows->native == PROCESS_NO_NATIVE)
		return cmd_fail(EXIT_USAGE, "--native-lines and --no-native contradict each "
					    "other");
	return 0;
}

static int add_pid(struct process_shows *shows, pid_t pid)
{
	for (size_t i = 0; i < shows->n_pids; i++)
		if (shows->pid[i] == pid)
			return 0;
	if (shows->n_pids == PROCESS_PIDS)
		return cmd_fail(EXIT_USAGE, "at most %d processes at once", PROCESS_PIDS);
	shows->pid[shows->n_pids++] = pid;
	return 0;
}

/* "12,34", or "12,34,", as tr '\n' , makes it. 0, or the exit code after a sentence. */
static int parse_pids(struct process_shows *shows, const char *list)
{
	char one[16];
	int r = 0;

	for (const char *s = list; r == 0 && s; s = *s && s[1] ? s + 1 : NULL) {
		size_t n = strcspn(s, ",");
		long pid;

		snprintf(one, sizeof(one), "%.*s", (int)MIN(n, sizeof(one) - 1), s);
		pid = cmd_number(one, PROCESS_MAX);
		if (pid < 0)
			return cmd_fail(EXIT_USAGE, "'%s' is not a process number",
					*one ? one : list);
		r = add_pid(shows, (pid_t)pid);
		s += n;
	}
	return r;
}

/* Of a command that looks at one process. */
static int parse_pid(const char *arg, long *ret)
{
	if (*ret)
		return cmd_fail(EXIT_USAGE, "one process at a time: %ld or '%s'", *ret, arg);
	*ret = cmd_number(arg, PROCESS_MAX);
	return *ret < 0 ? cmd_fail(EXIT_USAGE, "'%s' is not a process number", arg) : 0;
}

/* One that only commands with @shows take. */
static int take_shown(struct process_shows *shows, int opt)
{
	switch (opt) {
	case 'n':
		return parse_native(shows, optarg);
	case 'N':
		shows->native = PROCESS_NO_NATIVE;
		shows->no_native = true;
		break;
	case 'l':
		shows->lines = true;
		break;
	case 'd':
		shows->debuginfod = true;
		break;
	case 'j':
		shows->json = true;
		break;
	case 's':
		shows->async = true;
		break;
	default:
		return process_scope(&shows->scope, opt, optarg);
	}
	return 0;
}

/* 0, or EXIT_USAGE after a sentence: options in @shows contradict each other. */
static int check_shows(const struct process_shows *shows)
{
	int r = check_lines(shows);

	if (r == 0 && shows->with_native && shows->no_native)
		r = cmd_fail(EXIT_USAGE, "--native and --no-native contradict each other");
	if (r == 0 && shows->n_pids && scope_is_set(&shows->scope))
		r = cmd_fail(EXIT_USAGE, "-p names processes, -a, --match, -u and -G find "
					 "them: give one or the other");
	return r;
}

pid_t process_option(int argc, char **argv, const char *help, struct process_shows *shows)
{
	const struct option *options = shows ? with_native : plain;
	long pid = 0;
	int opt, r = 0;

	while (r == 0 && (opt = getopt_long(argc, argv, shows ? ":p:au:G:hV" : ":p:hV",
					    options, NULL)) != -1) {
		switch (opt) {
		case 'h':
			puts(help);
			return done(EXIT_DONE);
		case 'V':
			return done(cmd_version());
		case 'p':
			r = shows ? parse_pids(shows, optarg) : parse_pid(optarg, &pid);
			break;
		case '?':
		case ':':
			r = cmd_bad_option(argc, argv, options, opt);
			break;
		default:
			r = take_shown(shows, opt);
		}
	}
	for (; r == 0 && optind < argc; optind++)
		r = shows ? parse_pids(shows, argv[optind]) : parse_pid(argv[optind], &pid);
	if (r == 0 && shows)
		r = check_shows(shows);
	if (r == 0 && shows && shows->n_pids)
		pid = shows->pid[0];
	return r ? done(r) : (pid_t)pid;
}

/* A part of a scope is one: all parts that are given must fit, and two of a kind could mean either
 * that or the contrary. */
static int twice(const struct scope *s, int opt, const char *arg)
{
	if (opt == 'm' && s->match)
		return cmd_fail(EXIT_USAGE,
				"--match is given twice: for either give one, as in --match "
				"'%.80s|%.80s'",
				s->match, arg);
	if (opt == 'u' && s->user)
		return cmd_fail(EXIT_USAGE, "-u is given twice: one user at a time, %s or %s",
				s->user, arg);
	if (opt == 'G' && s->cgroup)
		return cmd_fail(EXIT_USAGE,
				"-G is given twice: one cgroup at a time, with all that is below "
				"it, %s or %s",
				s->cgroup, arg);
	return 0;
}

int process_scope(struct scope *s, int opt, const char *arg)
{
	struct err err;
	int r = 0;

	if (opt != 'a' && !*arg)
		return cmd_fail(EXIT_USAGE, "nothing is named: an empty text stands behind %s",
				opt == 'm' ? "--match" : opt == 'u' ? "-u" : "-G");
	r = twice(s, opt, arg);
	if (r)
		return r;
	if (opt == 'a')
		s->all = true;
	else if (opt == 'm')
		r = scope_match(s, arg, &err);
	else
		r = opt == 'u' ? scope_user(s, arg, &err) : scope_cgroup(s, arg, &err);
	if (r == 0)
		return 0;
	return cmd_fail(opt == 'G' && r == -ENOENT ? EXIT_NO_PROCESS : EXIT_USAGE, "%s",
			err.text);
}

void process_say_slow(struct file_helper *files)
{
	char path[PATH_MAX];

	if (files && file_helper_was_slow(files, path))
		cmd_say("'%s' does not answer: what is in it is not known", path);
}

int process_find(pid_t pid, struct file_helper *files, struct lookup *ret, struct err *err)
{
	struct probers *crew = probers_create(1, false);
	int code;

	*ret = (struct lookup){
		.crew = crew, .kick = -1, .files = files, .wait_ms = PROBE_MS, .children = true
	};
	code = crew ? lookup(ret, pid, err) : err_set(err, -ENOMEM, "out of memory");
	probers_release(crew);
	if (code != -EINPROGRESS)
		return code;
	probe_release(ret->hanging);
	return err->code = -EIO;
}
