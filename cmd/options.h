/* SPDX-License-Identifier: MIT
 *
 * options - the command line of record.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "record/recorder.h"
#include "targets/scope.h"
#include "../output/sink.h"

struct record_options {
	struct recorder_options rec;
	const char *path[RESOLVER_MAX_SINKS];
	const struct sink_ops *format[RESOLVER_MAX_SINKS];
	const char *asked[RESOLVER_MAX_SINKS]; /* the --format that follows an -o */
	const char *asked_first; /* the --format before all -o: of those without one */
	size_t n_outputs;
	char unnamed[32]; /* the output without -o, which path[0] then is */
	const char *text_option; /* one that was given and that only text outputs honour */
	struct scope scope; /* of rec.scope, if that is not NULL */
	unsigned session_flags;
	bool whole;   /* --max-frames was given: perf.data keeps stacks that perf won't show
			 whole */
	int compress; /* level of zstd; 0: none */
	bool no_cache;
	bool native_lines, debuginfod;
	int verbose;	/* -1 quiet */
	bool work;	/* what the recording took is printed, system calls too */
	char **command; /* -- CMD, or NULL */
};

/* 0: go on. Else the exit code + 1, after the sentence (or the help) was printed. */
int options_parse(struct record_options *ret, int argc, char **argv);

#endif
