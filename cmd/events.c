/* SPDX-License-Identifier: MIT
 *
 * events - what can be sampled here, and why not where it can't.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "../lib/base.h"
#include "../lib/perf_event.h"
#include "cmd.h"

static const char *kind(uint32_t type)
{
	return type == PERF_TYPE_HARDWARE ? "hardware" :
	       type == PERF_TYPE_SOFTWARE ? "software" :
					    "cache";
}

static void print_event(const char *name, uint32_t type, uint64_t config)
{
	struct perf_spec spec = { .type = type, .config = config };
	struct perf_options o = { .value = 1000000 };
	struct perf_event_attr attr = perf_event_attr_of(&spec, &o);
	_cleanup_close_ int fd = perf_event_open_fd(&attr, 0, -1);
	struct err err;

	if (fd >= 0) {
		printf("%-28s %-9s yes\n", name, kind(type));
		return;
	}
	perf_event_explain(fd, name, &attr, &err);
	printf("%-28s %-9s no: %s\n", name, kind(type), err.text);
}

static void print_cache_events(void)
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

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct perf_spec spec;
		size_t n = 0;

		if (perf_names_parse(names[i], &spec, 1, &n, NULL) == 0)
			print_event(names[i], spec.type, spec.config);
	}
}

int cmd_events(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	uint64_t config;
	const char *name;
	uint32_t type;
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt != 'h')
			return cmd_bad_option(argc, argv, opt);
		puts("Usage: pysampled events\n\n"
		     "List the events that can be sampled here, and why not where they "
		     "can't.\n"
		     "Raw events are written rNNNN (hexadecimal), modifiers :u :k :p :pp "
		     ":ppp.");
		return EXIT_DONE;
	}
	if (optind < argc)
		return cmd_fail(EXIT_USAGE, "events takes no '%s'", argv[optind]);
	for (size_t i = 0; (name = perf_names_at(i, &type, &config)); i++)
		print_event(name, type, config);
	print_cache_events();
	return EXIT_DONE;
}
