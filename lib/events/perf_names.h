/* SPDX-License-Identifier: MIT
 *
 * perf_names - event names and modifiers as perf has them, to event specs.
 *
 * Pure. Generic, cache, raw and breakpoint events are complete then; of the others the name is
 * taken apart here, and event_resolve finds out what it means on this machine.
 */
#ifndef PERF_NAMES_H
#define PERF_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/cpus.h"
#include "base/err.h"

enum perf_kind {
	PERF_KIND_READY,      /* type and config say it all */
	PERF_KIND_WORD,	      /* perhaps a PMU's, or libpfm4's */
	PERF_KIND_PMU,	      /* PMU/TERM,.../ */
	PERF_KIND_TRACEPOINT, /* SYSTEM:NAME */
	PERF_KIND_UPROBE,     /* uprobe:FILE:SYMBOL[+OFFSET] */
	PERF_KIND_URETPROBE,  /* uretprobe:FILE:SYMBOL */
	PERF_KIND_USDT,	      /* usdt:[FILE:]PROVIDER:NAME */
};

struct perf_spec {
	char name[256]; /* as written; of a hybrid CPU's events with the PMU */
	size_t n_base;	/* bytes of it that are not modifiers */
	char label[64]; /* name=: what outputs call it; "": the same */
	enum perf_kind kind;
	uint32_t type; /* PERF_TYPE_*, or a PMU's number */
	uint32_t bp_type;
	uint64_t config, config1, config2;
	uint64_t period, freq; /* period= and freq=: of this event alone; 0: not said */
	char file[32];	       /* where a uprobe is, for the kernel; else "" */
	uint64_t file_ino;     /* the inode's number of that file */
	bool jumps;	       /* a uprobe's instruction goes elsewhere */
	bool user, kernel;     /* from :u and :k; both false: not said, so both */
	bool hv;
	bool each;	 /* a trigger: unless something else is said, each one is a sample */
	uint8_t precise; /* number of p's */
	uint8_t leader;	 /* of its group: index + 1, also the leader's own; 0: no group */
	bool led;	 /* {...}:S: not sampled, but read with its leader */
	bool read;	 /* leads one that is read so */
	bool some_cpus;	 /* of a hybrid machine: only on these */
	struct cpus cpus;
};

/* The comma list @list (commas inside {} and // do not split) into at most @cap
 * specs, after the *@n that are there; one that is named again outside of groups is one. 0;
 * -ENOENT there is no such event; -EINVAL malformed; with a sentence naming the item. */
int perf_names_parse(const char *list, struct perf_spec *ret, size_t cap, size_t *n,
		     struct err *err);

/* Names of generic event @i with its type and config; NULL past the end. Aliases
 * ("cpu-cycles", "faults") follow their event. */
const char *perf_names_at(size_t i, uint32_t *type, uint64_t *config);

/* Type and config of the generic event whose name is the @n bytes at @s, in any case, into *@ret.
 * False: there is none. */
bool perf_names_find(const char *s, size_t n, struct perf_spec *ret);

/* Does it happen in the kernel only, whatever mode the thread was in: tracepoints, and the
 * scheduler's events? The kernel never counts it as user mode's (perf_swevent_event(), with
 * the registers of the caller). */
bool perf_names_in_kernel(const struct perf_spec *s);

#endif
