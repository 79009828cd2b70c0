/* SPDX-License-Identifier: MIT
 *
 * events - what can be sampled here, and why not where it can't.
 */
#include <elf.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "base/base.h"
#include "events/event_resolve.h"
#include "perf_event.h"
#include "events/pfm.h"
#include "events/pmu.h"
#include "events/tracefs.h"
#include "sys/harden.h"
#include "cmd.h"

/* What is listed: names that this is a part of. */
struct list {
	const char *word;
	size_t n;
	struct err err; /* of tracepoints */
};

static void print_line(const char *name, const char *kind, const char *no)
{
	const char *near = strstr(no, "; nearest"); /* the others are listed, too */

	cmd_line(stdout, "%-28s %-10s %s%.*s", name, kind, *no ? "no: " : "yes",
		 near ? (int)(near - no) : (int)strlen(no), no);
}

/* 0, or why it can't be opened on ourselves. */
static int try_spec(const struct perf_spec *spec, struct err *err)
{
	struct perf_options o = { .value = 1000000 };
	struct perf_event_attr attr = perf_event_attr_of(spec, &o);
	int r = perf_event_try(&attr, 0, -1);

	return r < 0 ? perf_event_explain(r, spec->name, &attr, err) : 0;
}

/* All that a name stands for: on a hybrid machine several. */
static int try_name(const char *name, struct err *err)
{
	const struct event_help help = { 0 }; /* no file but ours is named */
	struct perf_spec specs[PMU_MAX_CORES];
	size_t n = 0;
	int r = perf_names_parse(name, specs, 1, &n, err);

	if (r == 0)
		r = event_resolve(specs, &n, ARRAY_SIZE(specs), &help, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = try_spec(&specs[i], err);
	return r;
}

static void print_event(struct list *l, const char *name, const char *kind)
{
	struct err err = { .text = "" };

	if (!strstr(name, l->word))
		return;
	try_name(name, &err);
	print_line(name, kind, err.text);
	l->n++;
}

static void print_generic(struct list *l)
{
	uint64_t config;
	const char *name;
	uint32_t type;

	for (size_t i = 0; (name = perf_names_at(i, &type, &config)); i++)
		print_event(l, name, type == PERF_TYPE_HARDWARE ? "hardware" : "software");
}

static void print_cache_events(struct list *l)
{
	static const char *const names[] = {
		"L1-dcache-loads",    "L1-dcache-load-misses",
		"L1-dcache-stores",   "L1-icache-load-misses",
		"LLC-loads",	      "LLC-load-misses",
		"LLC-stores",	      "dTLB-loads",
		"dTLB-load-misses",   "dTLB-store-misses",
		"iTLB-load-misses",   "branch-loads",
		"branch-load-misses", "node-loads",
		"node-load-misses",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		print_event(l, names[i], "cache");
}

static void print_pmu_event(void *list, const char *name)
{
	print_event(list, name, "pmu");
}

/* One is tried for all: to close one takes the kernel milliseconds. */
static void print_tracepoint(void *list, const char *name)
{
	struct list *l = list;

	if (!l->n++)
		try_name(name, &l->err);
	if (*l->word)
		print_line(name, "tracepoint", l->err.text);
}

static void print_tracepoints(struct list *l)
{
	struct list of = { .word = l->word };
	const char *events = tracefs_events(&of.err);
	char all[100];

	if (events)
		tracefs_each(events, l->word, print_tracepoint, &of);
	l->n += of.n;
	if (!events)
		l->err = of.err;
	if (*l->word && (events || !l->n))
		return;
	snprintf(all, sizeof(all), "SYSTEM:NAME (%zu)", of.n);
	print_line(events ? all : "SYSTEM:NAME", "tracepoint", of.err.text);
}

/* A place that nobody executes any more: this program's entry. */
static const char *own_entry(char *buf, size_t size)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/exe", "re");
	Elf64_Ehdr h = { 0 };

	if (f && fread(&h, sizeof(h), 1, f) == 1)
		snprintf(buf, size, "uprobe:/proc/self/exe:%#llx",
			 (unsigned long long)h.e_entry);
	else
		snprintf(buf, size, "uprobe:/proc/self/exe:main");
	return buf;
}

/* Of a kind of which there are as many as there are places. False: it is not to be listed. */
static bool print_place(struct list *l, const char *name, const char *kind, const char *no)
{
	if (!strstr(name, l->word))
		return false;
	print_line(name, kind, no);
	l->n++;
	return true;
}

/* One is tried for all, if any is listed: the kernel takes 0.1 s for it. */
static void print_probes(struct list *l)
{
	static const char *const names[] = { "uprobe:FILE:SYMBOL[+OFFSET]", "uretprobe:FILE:SYMBOL",
					     "usdt:[FILE:]PROVIDER:NAME" };
	struct err err = { .text = "" };
	bool tried = false;
	char own[64];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!tried && strstr(names[i], l->word))
			try_name(own_entry(own, sizeof(own)), &err);
		tried |= print_place(l, names[i], "probe", err.text);
	}
}

static void print_places(struct list *l)
{
	struct perf_spec mem = { .name = "mem:ADDR",
				 .type = PERF_TYPE_BREAKPOINT,
				 .bp_type = 3 /* read or write */,
				 .config2 = 4,
				 .user = true };
	struct err err = { .text = "" };

	mem.config1 = (uintptr_t)&mem & ~UINT64_C(7);
	print_probes(l);
	try_spec(&mem, &err);
	print_place(l, "mem:ADDR[/LEN][:rwx]", "breakpoint", err.text);
	print_place(l, "PMU::EVENT, EVENT:UNIT", "libpfm4",
		    pfm_here() ? "" : "libpfm.so.4 is not installed");
}

static const char help[] =
	"Usage: pysampled events [WORD]\n\n"
	"List the events that can be sampled here, and why not where they can't. With\n"
	"WORD those whose name it is a part of, tracepoints too.\n"
	"Raw events are written rNNNN (hexadecimal), what a PMU has PMU/TERM=VALUE,.../,\n"
	"groups {A,B} and {A,B}:S, modifiers :u :k :h :p :pp :ppp.\n\n"
	"  -h, --help\n"
	"  -V, --version\n";

int cmd_events(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' },
						 { "version", no_argument, NULL, 'V' },
						 { 0 } };
	const struct cmd_syntax s = { ":hV", help, options, NULL };
	struct list l = { .word = "" };
	struct err err;
	int code = cmd_parse(argc, argv, &s, NULL);

	if (code != CMD_GO_ON)
		return code;
	if (optind < argc) {
		l.word = argv[optind++];
		if (!*l.word)
			return cmd_fail(EXIT_USAGE, "WORD is empty: without one "
						    "all events are listed");
	}
	if (optind < argc)
		return cmd_fail(EXIT_USAGE, "events takes one word, not '%s' too",
				argv[optind]);
	if (harden_process(HARDEN_LOOK, 0, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	print_generic(&l);
	print_cache_events(&l);
	pmu_each(PMU_DEVICES, print_pmu_event, &l);
	print_tracepoints(&l);
	print_places(&l);
	if (!l.n)
		return cmd_fail(EXIT_EVENT, "no event here has '%s' in its name%s%s", l.word,
				*l.err.text ? "; whether a tracepoint has can't be told: " : "",
				l.err.text);
	return EXIT_DONE;
}
