/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/base.h"
#include "perf_event.h"
#include "unwind/others.h"
#include "lines/srcline.h"
#include "record/syscall_count.h"
#include "base/work.h"
#include "cmd.h"
#include "outputs.h"
#include "process.h"
#include "program.h"

static const char help[] =
	"Usage: pysampled [record] -p PID[,PID...] [options]\n"
	"       pysampled [record] [options] -- CMD [ARG...]\n\n"
	"What\n"
	"  -p, --pid PID,...        processes to attach to\n"
	"  -a, --all                instead of -p: every Python process; new ones join\n"
	"      --match REGEX        ... those whose command line matches\n"
	"  -u, --user USER          ... those of a user\n"
	"  -G, --cgroup PATH        ... those in a cgroup, or below it\n"
	"  -t, --tid TID,...        only these threads\n"
	"      --no-follow          not their child processes (default: --follow)\n"
	"      --any                also a process that is not Python, natively\n"
	"  -d, --duration SEC       seconds, or as in 2m; default: Ctrl-C, target's end\n"
	"Event\n"
	"  -e, --event EV,...       perf's names and modifiers; may be repeated; cycles\n"
	"  -F, --freq HZ            samples per second of CPU time; default 99\n"
	"  -c, --count N            one sample every N events\n"
	"      --kernel, --no-kernel  kernel events and frames; default: where allowed\n"
	"      --native[=full], --no-native\n"
	"                           native frames; full shows the interpreter's internals\n"
	"                           too; default --native\n"
	"      --mode cpu|wall|gil  CPU time; waits too, in microseconds; or time with the\n"
	"                           GIL; cpu\n"
	"      --events-on WHERE    auto, cpus, threads: where events count; auto\n"
	"      --unwinder NAME      of native frames: own, or libunwind; own\n"
	"Truth\n"
	"      --capture NAME       auto"
#define X(name) ", " #name
#include "captures.inc"
#undef X
	": how a thread is held; auto\n"
	"      --hold-budget PCT    most of a CPU's time that holding may take; 5\n"
	"      --hold-isolated      also on isolated CPUs (isolcpus, nohz_full)\n"
	"      --stack-size BYTES   of the C stack copied with each sample; 16384 (up to\n"
	"                           65528)\n"
	"      --max-frames N       cut deeper stacks; 1024, up to 8000\n"
	"      --provenance WHICH   exact, late or all: what text outputs keep; all\n"
	"      --memory SIZE        bound of rings, queues, readers, names, stacks; 256M\n"
	"Output\n"
	"  -o, --output FILE        perf.data, or by --format perf.html, ...; '-' is stdout;\n"
	"                           may be given several times\n"
	"      --format NAME        perf, folded, flamegraph, pprof, speedscope, gecko,\n"
	"                           tape; default: by FILE's extension\n"
	"  -z, --compress[=LEVEL]   perf.data: with zstd, 1 (fast) to 22; 3\n"
	"  -B, --no-buildid-cache   perf.data: no copy of its symbols in ~/.debug\n"
	"      --threads            folded: keep threads apart\n"
	"      --async[=names]      behind a running asyncio task those that await it;\n"
	"                           names: 'Task-2', ... not all as 'Task-*'\n"
	"      --folded-lines=no    folded: one frame a function, without line numbers\n"
	"      --full-paths         folded: whole paths of Python files\n"
	"      --native-lines       folded: native frames with source lines, and inlined\n"
	"                           functions, looked up at the end\n"
	"      --debuginfod         ... also from the servers in DEBUGINFOD_URLS\n"
	"      --weight samples|period  folded: what is counted; samples\n"
	"  -q, --quiet              errors and the summary only\n"
	"  -v, --verbose            every counter, and what was found\n"
	"      --work               what pysampled itself did, in counts\n"
	"  -h, --help\n"
	"  -V, --version\n";

enum {
	OPT_FORMAT = 256,
	OPT_CAPTURE,
	OPT_NATIVE,
	OPT_NO_NATIVE,
	OPT_KERNEL,
	OPT_NO_KERNEL,
	OPT_FOLLOW,
	OPT_NO_FOLLOW,
	OPT_THREADS,
	OPT_ASYNC,
	OPT_PROVENANCE,
	OPT_HOLD_BUDGET,
	OPT_HOLD_ISOLATED,
	OPT_MEMORY,
	OPT_STACK_SIZE,
	OPT_UNWINDER,
	OPT_MAX_FRAMES,
	OPT_ANY,
	OPT_LINES,
	OPT_WEIGHT,
	OPT_FULL_PATHS,
	OPT_NATIVE_LINES,
	OPT_DEBUGINFOD,
	OPT_EVENTS_ON,
	OPT_WORK,
	OPT_MATCH,
	OPT_MODE,
};

static const struct option options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "all", no_argument, NULL, 'a' },
	{ "match", required_argument, NULL, OPT_MATCH },
	{ "user", required_argument, NULL, 'u' },
	{ "cgroup", required_argument, NULL, 'G' },
	{ "tid", required_argument, NULL, 't' },
	{ "event", required_argument, NULL, 'e' },
	{ "freq", required_argument, NULL, 'F' },
	{ "count", required_argument, NULL, 'c' },
	{ "duration", required_argument, NULL, 'd' },
	{ "output", required_argument, NULL, 'o' },
	{ "compress", optional_argument, NULL, 'z' },
	{ "no-buildid-cache", no_argument, NULL, 'B' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "capture", required_argument, NULL, OPT_CAPTURE },
	{ "native", optional_argument, NULL, OPT_NATIVE },
	{ "no-native", no_argument, NULL, OPT_NO_NATIVE },
	{ "kernel", no_argument, NULL, OPT_KERNEL },
	{ "no-kernel", no_argument, NULL, OPT_NO_KERNEL },
	{ "follow", no_argument, NULL, OPT_FOLLOW },
	{ "no-follow", no_argument, NULL, OPT_NO_FOLLOW },
	{ "threads", no_argument, NULL, OPT_THREADS },
	{ "async", optional_argument, NULL, OPT_ASYNC },
	{ "provenance", required_argument, NULL, OPT_PROVENANCE },
	{ "hold-budget", required_argument, NULL, OPT_HOLD_BUDGET },
	{ "hold-isolated", no_argument, NULL, OPT_HOLD_ISOLATED },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "unwinder", required_argument, NULL, OPT_UNWINDER },
	{ "stack-size", required_argument, NULL, OPT_STACK_SIZE },
	{ "max-frames", required_argument, NULL, OPT_MAX_FRAMES },
	{ "any", no_argument, NULL, OPT_ANY },
	{ "folded-lines", required_argument, NULL, OPT_LINES },
	{ "weight", required_argument, NULL, OPT_WEIGHT },
	{ "full-paths", no_argument, NULL, OPT_FULL_PATHS },
	{ "native-lines", no_argument, NULL, OPT_NATIVE_LINES },
	{ "debuginfod", no_argument, NULL, OPT_DEBUGINFOD },
	{ "events-on", required_argument, NULL, OPT_EVENTS_ON },
	{ "work", no_argument, NULL, OPT_WORK },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ 0 },
};

/* What was said, before contradictions are looked for. */
struct said {
	struct record_options *o;
	bool freq, count, samples, native, full, no_native, kernel, no_kernel, follow, no_follow;
	bool graph, help, version;
	const char *native_option; /* one that only native frames honour, or NULL */
};

#define usage(...) cmd_fail(EXIT_USAGE, __VA_ARGS__)

static int parse_ids(const char *s, pid_t *ret, size_t *n, const char *what)
{
	bool known;

	for (;;) {
		char *end;
		long v = strtol(s, &end, 10);

		if (end == s && isalpha((unsigned char)*s))
			return usage("'%s' is not a process or thread number; --match "
				     "takes those of a command line",
				     what);
		if (end == s || v < 1 || v > PROCESS_MAX || (*end && *end != ','))
			return usage("'%s' is not a list of process or thread numbers", what);
		known = false;
		for (size_t i = 0; i < *n; i++)
			known = known || ret[i] == v;
		if (!known && *n == RECORDER_MAX_PIDS)
			return usage("too many numbers in '%s'", what);
		if (!known)
			ret[(*n)++] = (pid_t)v;
		if (!*end || !end[1]) /* a last comma, as tr '\n' , leaves one */
			return 0;
		s = end + 1;
	}
}

/* Seconds, or with a unit: 90, 1.5m. */
static int parse_duration(const char *s, uint64_t *ret)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "ms", 1e-3 }, { "m", 60 }, { "h", 3600 } };
	char *end;
	double v = strtod(s, &end), seconds = 0;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(end, units[i].unit))
			seconds = v * units[i].seconds;
	if (end == s || !(seconds >= 1e-9) || seconds > 1e9)
		return usage("-d takes a time above 0 in seconds, or as in 500ms, 2m, 1h; not "
			     "'%s'",
			     s);
	*ret = (uint64_t)(seconds * 1e9);
	return 0;
}

static int parse_value(struct said *s, char opt, const char *arg)
{
	long v = cmd_number(arg, opt == 'F' ? 1000000 : 1L << 60);

	if (v < 0 && opt == 'F')
		return usage("-F takes a frequency from 1 to %d Hz "
			     "(kernel.perf_event_max_sample_rate), not '%.100s'",
			     perf_event_max_rate(), arg);
	if (v < 0)
		return usage("-c takes a period of at least 1, not '%s'", arg);
	*(opt == 'F' ? &s->freq : &s->count) = true;
	s->o->rec.freq = opt == 'F';
	s->o->rec.value = (uint64_t)v;
	return 0;
}

static int parse_output(struct said *s, const char *arg)
{
	if (s->o->n_outputs == RESOLVER_MAX_SINKS - 1) /* one is record's own */
		return usage("too many outputs, at '%s'", arg);
	s->o->path[s->o->n_outputs++] = arg;
	return 0;
}

static int parse_provenance(struct record_options *o, const char *arg)
{
	static const char *const names[] = { "exact", "late", "all" };
	static const unsigned flags[] = { SESSION_ONLY_EXACT, SESSION_ONLY_LATE, 0 };
	int i = cmd_word("--provenance", arg, names, ARRAY_SIZE(names));

	o->session_flags &= ~(unsigned)(SESSION_ONLY_EXACT | SESSION_ONLY_LATE);
	o->session_flags |= flags[MAX(i, 0)];
	return i < 0 ? EXIT_USAGE : 0;
}

static int parse_lines(struct record_options *o, const char *arg)
{
	if (!strcmp(arg, "no"))
		o->session_flags &= ~(unsigned)SESSION_LINES;
	else if (strcmp(arg, "yes") != 0)
		return usage("--folded-lines is yes or no, not '%s'", arg);
	return 0;
}

static int parse_weight(struct said *s, const char *arg)
{
	bool period = !strcmp(arg, "period");

	if (!period && strcmp(arg, "samples") != 0)
		return usage("--weight is samples or period, not '%s'", arg);
	s->samples = !period;
	s->o->session_flags &= ~SESSION_PERIOD;
	s->o->session_flags |= period ? SESSION_PERIOD : 0;
	return 0;
}

static int parse_limit(const char *name, const char *arg, long max, long *ret)
{
	*ret = cmd_number(arg, max);
	if (*ret > 0)
		return 0;
	return usage("%s takes a number from 1 to %ld, not '%.100s'", name, max, arg);
}

/* What an option without a value switches on, or NULL. */
static bool *switch_of(struct said *s, int opt)
{
	switch (opt) {
	case OPT_NO_NATIVE:
		return &s->no_native;
	case OPT_KERNEL:
		return &s->kernel;
	case OPT_NO_KERNEL:
		return &s->no_kernel;
	case OPT_FOLLOW:
		return &s->follow;
	case OPT_NO_FOLLOW:
		return &s->no_follow;
	case OPT_ANY:
		return &s->o->rec.any;
	case OPT_HOLD_ISOLATED:
		return &s->o->rec.hold_isolated;
	case OPT_NATIVE_LINES:
		return &s->o->native_lines;
	case OPT_DEBUGINFOD:
		return &s->o->debuginfod;
	default:
		return NULL;
	}
}

static int parse_async(struct record_options *o, const char *arg)
{
	o->session_flags &= ~(unsigned)SESSION_ONE_NAME;
	o->session_flags |= SESSION_ASYNC | (arg ? 0 : SESSION_ONE_NAME);
	if (arg && strcmp(arg, "names"))
		return usage("--async takes nothing or 'names', not '%s'", arg);
	return 0;
}

static int parse_native(struct said *s, const char *arg)
{
	s->native = true;
	s->full = arg && !strcmp(arg, "full");
	if (arg && !s->full)
		return usage("--native takes nothing or 'full', not '%s'", arg);
	return 0;
}

static int parse_mode(struct record_options *o, const char *name)
{
	static const char *const names[] = { "cpu", "wall", "gil" };
	int i = cmd_word("--mode", name, names, ARRAY_SIZE(names));

	o->rec.mode = (enum recorder_mode)MAX(i, 0);
	return i < 0 ? EXIT_USAGE : 0;
}

static int parse_unwinder(struct record_options *o, const char *name)
{
	o->rec.unwinder = unwind_other_find(name);
	if (!o->rec.unwinder && strcmp(name, "own") != 0)
		return usage("--unwinder takes own, or libunwind where pysampled was built "
			     "with it (-V tells), not '%s'",
			     name);
	if (o->rec.unwinder && !unwind_other_here(o->rec.unwinder))
		return usage("--unwinder: %s is not installed", o->rec.unwinder->library);
	return 0;
}

static int parse_place(struct record_options *o, const char *name)
{
	static const char *const names[] = { "auto", "threads", "cpus" };
	int i = cmd_word("--events-on", name, names, ARRAY_SIZE(names));

	o->rec.place = (enum place_wish)MAX(i, 0);
	return i < 0 ? EXIT_USAGE : 0;
}

/* From here on: what the other options take is a part of it. */
static int count_work(struct record_options *o)
{
	struct err err;

	if (o->work)
		return 0;
	o->work = true;
	o->rec.origin.syscalls_fd = syscall_count_open(&err);
	if (o->rec.origin.syscalls_fd < 0)
		cmd_say("system calls are not counted: %s", err.text);
	return 0;
}

/* Options whose value is a number. */
static int parse_amount(struct record_options *o, int opt, const char *arg)
{
	long v = 0;
	int r = 0;

	switch (opt) {
	case OPT_HOLD_BUDGET:
		r = parse_limit("--hold-budget", arg, 100, &v);
		o->rec.hold_budget = (unsigned)v;
		break;
	case OPT_STACK_SIZE:
		r = parse_limit("--stack-size", arg, 65528, &v);
		o->rec.stack_bytes = ((uint32_t)v + 7) & ~7u;
		break;
	case OPT_MAX_FRAMES:
		r = parse_limit("--max-frames", arg, 8000, &v);
		o->rec.max_frames = (uint32_t)v;
		o->whole = true;
		break;
	case OPT_MEMORY:
		v = cmd_size(arg);
		o->rec.memory = (size_t)v;
		return v < 0 ? usage("--memory takes a size such as 256M, not '%s'", arg) : 0;
	}
	return r;
}

/* Options that only text outputs know. */
static int parse_text(struct said *s, int opt, const char *arg)
{
	struct record_options *o = s->o;

	switch (opt) {
	case OPT_THREADS:
		o->text_option = "--threads";
		o->session_flags |= SESSION_THREADS;
		return 0;
	case OPT_FULL_PATHS:
		o->session_flags |= SESSION_FULL_PATHS;
		return 0;
	case OPT_PROVENANCE:
		o->text_option = "--provenance";
		return parse_provenance(o, arg);
	case OPT_LINES:
		o->text_option = "--folded-lines";
		return parse_lines(o, arg);
	case OPT_WEIGHT:
		o->text_option = "--weight";
		return parse_weight(s, arg);
	}
	return 0;
}

static int parse_long(struct said *s, int opt, const char *arg)
{
	struct record_options *o = s->o;
	bool *on = switch_of(s, opt);

	if (on)
		*on = true;
	if (opt == OPT_UNWINDER || opt == OPT_STACK_SIZE)
		s->native_option = opt == OPT_UNWINDER ? "--unwinder" : "--stack-size";
	switch (opt) {
	case OPT_FORMAT:
		*(o->n_outputs ? &o->asked[o->n_outputs - 1] : &o->asked_first) = arg;
		return 0;
	case OPT_CAPTURE:
		o->rec.capture = arg;
		return 0;
	case OPT_MODE:
		return parse_mode(o, arg);
	case OPT_MATCH:
		return process_scope(&o->scope, 'm', arg);
	case OPT_NATIVE:
		return parse_native(s, arg);
	case OPT_ASYNC:
		return parse_async(o, arg);
	case OPT_EVENTS_ON:
		return parse_place(o, arg);
	case OPT_WORK:
		return count_work(o);
	case OPT_UNWINDER:
		return parse_unwinder(o, arg);
	case OPT_HOLD_BUDGET:
	case OPT_STACK_SIZE:
	case OPT_MAX_FRAMES:
	case OPT_MEMORY:
		return parse_amount(o, opt, arg);
	}
	return parse_text(s, opt, arg);
}

static const struct cmd_elsewhere events_elsewhere[] = {
	{ "cpu", "-e cpu-clock" },
	{ "itimer", "-e cpu-clock" },
	{ "wall", "--mode wall" },
	{ "gil", "--mode gil" },
	{ "off-cpu", "--mode wall" },
	{ "offcpu", "--mode wall" },
	{ "offcpu-time", "--mode wall" },
	{ 0 },
};

/* Several -e add up. */
static int parse_events(struct record_options *o, const char *list)
{
	struct err err;
	int r;

	if (cmd_elsewhere("event", list, events_elsewhere))
		return EXIT_EVENT;
	r = perf_names_parse(list, o->rec.events, SESSION_MAX_EVENTS, &o->rec.n_events, &err);
	if (r < 0)
		return cmd_fail(r == -ENOENT ? EXIT_EVENT : EXIT_USAGE, "%s", err.text);
	return 0;
}

static int parse_short(struct said *s, int opt, const char *arg)
{
	struct record_options *o = s->o;

	switch (opt) {
	case 'p':
		return parse_ids(arg, o->rec.pids, &o->rec.n_pids, arg);
	case 'a':
	case 'u':
	case 'G':
		return process_scope(&o->scope, opt, arg);
	case 't':
		return parse_ids(arg, o->rec.tids, &o->rec.n_tids, arg);
	case 'e':
		return parse_events(o, arg);
	case 'F':
	case 'c':
		return parse_value(s, (char)opt, arg);
	case 'd':
		return parse_duration(arg, &o->rec.duration_ns);
	case 'o':
		return parse_output(s, arg);
	case 'z':
		return cmd_level(arg, &o->compress);
	case 'B':
		o->no_cache = true;
		break;
	case 'q':
		o->verbose = -1;
		break;
	case 'v':
		o->verbose = 1;
		break;
	case 'h':
		s->help = true;
		break;
	case 'V':
		s->version = true;
		break;
	case 'g':
		s->graph = true;
		break;
	}
	return 0;
}

/* What a scope does not go with. */
static int scope_contradicts(const struct record_options *o)
{
	if (o->rec.n_pids)
		return usage("-p names processes, -a, --match, -u and -G find them: give one "
			     "or the other");
	if (o->command)
		return usage("-a, --match, -u and -G take processes that run, -- CMD starts "
			     "one: give one or the other; what limits the time is -d SEC");
	if (o->rec.n_tids)
		return usage("-t goes with one -p");
	if (o->rec.any)
		return usage("--any goes with -p: -a, --match, -u and -G take Python "
			     "processes");
	return 0;
}

static int contradictions(const struct said *s)
{
	if (s->freq && s->count)
		return usage("-F and -c contradict each other: give a frequency or a period");
	if (s->no_native && s->native)
		return usage("--native and --no-native contradict each other");
	if (s->kernel && s->no_kernel)
		return usage("--kernel and --no-kernel contradict each other");
	if (s->follow && s->no_follow)
		return usage("--follow and --no-follow contradict each other");
	if (s->no_native && s->native_option)
		return usage("%s is for native frames: leave --no-native out",
			     s->native_option);
	if (s->follow && s->o->rec.n_tids)
		return usage("-t takes threads, and what they start is not followed: leave "
			     "--follow out");
	if (scope_is_set(&s->o->scope))
		return scope_contradicts(s->o);
	if (!s->o->command && !s->o->rec.n_pids)
		return usage("name what to profile: -p PID, -a, --match, -u, -G, or -- "
			     "CMD");
	if (s->o->command && s->o->rec.n_pids)
		return usage("-p and -- CMD contradict each other; what limits the time is "
			     "-d SEC");
	if (s->o->rec.n_tids && s->o->rec.n_pids != 1)
		return usage("-t goes with one -p");
	return 0;
}

/* What an event counts in the kernel alone has no part that is not the kernel's. */
static int check_kernel(const struct said *s)
{
	const struct record_options *o = s->o;

	for (size_t i = 0; s->no_kernel && i < o->rec.n_events; i++)
		if (o->rec.events[i].kernel && !o->rec.events[i].user)
			return usage("-e %s counts in the kernel alone: leave --no-kernel out",
				     o->rec.events[i].name);
	return 0;
}

/* Time is measured by a clock. */
static int check_wall(const struct said *s)
{
	struct record_options *o = s->o;
	const struct perf_spec *e = &o->rec.events[0];

	if (s->samples)
		return usage("--mode wall counts time: leave --weight samples out");
	o->session_flags |= SESSION_WALL | SESSION_PERIOD;
	if (o->rec.n_events == 1 && e->type == PERF_TYPE_SOFTWARE &&
	    (e->config == PERF_COUNT_SW_CPU_CLOCK || e->config == PERF_COUNT_SW_TASK_CLOCK))
		return 0;
	return usage("--mode wall measures time: leave -e out, or name cpu-clock or "
		     "task-clock");
}

static void set_defaults(struct record_options *o)
{
	*o = (struct record_options){
		.rec = { .freq = true,
			 .value = 99,
			 .capture = "auto",
			 .max_frames = 1024,
			 .hold_budget = 5,
			 .stack_bytes = 16 << 10,
			 .kernel = true,
			 .native = true,
			 .follow = true,
			 .origin = { .ns = now_ns() } },
		.session_flags = SESSION_LINES,
	};
}

/* @word could be the value of the option @before, as -z, which takes it right behind it. */
static bool is_value_apart(const char *before, const char *word)
{
	bool number = strspn(word, "0123456789") == strlen(word);

	if (!strcmp(before, "-z") || !strcmp(before, "--compress"))
		return number;
	return (!strcmp(before, "--native") && !strcmp(word, "full")) ||
	       (!strcmp(before, "--async") && !strcmp(word, "names"));
}

static int not_an_option(const struct record_options *o, const char *before, const char *word)
{
	bool number = strspn(word, "0123456789") == strlen(word);

	if (is_value_apart(before, word))
		return usage("'%s' is not an option; a value stands right behind its option: "
			     "%s%s%s",
			     word, before, before[1] == '-' ? "=" : "", word);
	if (o->rec.n_pids || (scope_is_set(&o->scope) && !number))
		return usage(number ? "'%s' is not an option; several processes are -p 12,34" :
				      "'%s' is not an option; what limits the time is -d SEC",
			     word);
	if (number)
		return usage("'%s' is not an option; a process is -p 1234", word);
	return usage("'%s' is not an option; a command to start follows '--': -- %s%s", word,
		     program_python(word), word);
}

int options_parse(struct record_options *o, int argc, char **argv)
{
	struct said s = { .o = o };
	int opt, r = 0;

	set_defaults(o);
	while (r == 0 && (opt = getopt_long(argc, argv, "+:p:at:u:G:e:F:c:d:o:z::BgqvhV",
					    options, NULL)) != -1) {
		if (opt == '?' || opt == ':')
			return cmd_bad_option(argc, argv, options, opt) + 1;
		r = opt < 256 ? parse_short(&s, opt, optarg) : parse_long(&s, opt, optarg);
	}
	if (r)
		return r + 1;
	if (s.help) {
		fputs(help, stdout);
		return EXIT_DONE + 1;
	}
	if (s.version)
		return cmd_version() + 1;
	if (optind < argc && strcmp(argv[optind - 1], "--") != 0)
		return not_an_option(o, argv[optind - 1], argv[optind]) + 1;
	if (optind == argc && !strcmp(argv[argc - 1], "--"))
		return usage("no command follows '--'") + 1;
	o->command = optind < argc ? argv + optind : NULL;
	o->rec.native = !s.no_native;
	o->rec.full = s.full;
	o->rec.kernel = !s.no_kernel;
	o->rec.follow = !s.no_follow;
	r = contradictions(&s);
	if (r == 0)
		r = outputs_pick(o);
	if (r == 0 && !o->rec.n_events)
		r = parse_events(o, o->rec.mode == RECORDER_WALL ? "cpu-clock" : "cycles");
	if (r == 0)
		r = check_kernel(&s);
	if (r == 0 && o->rec.mode == RECORDER_WALL)
		r = check_wall(&s);
	if (r == 0 && s.graph && o->verbose >= 0)
		cmd_say("-g is implied: each sample has its stack");
	o->rec.said = s.freq || s.count;
	return r ? r + 1 : 0;
}
