/* SPDX-License-Identifier: MIT
 *
 * perf_names - event names and modifiers as perf has them, to event specs.
 *
 * Pure. Built so far: hardware, software, cache and raw events. Tracepoints,
 * uprobes, breakpoints, PMU-qualified names and groups are recognised and refused
 * by name, so that each has its place.
 */
#ifndef PERF_NAMES_H
#define PERF_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct perf_spec {
	char name[128]; /* as written */
	uint32_t type;	/* PERF_TYPE_* */
	uint64_t config;
	bool user, kernel; /* from :u and :k; both false: not said, so both */
	bool hv;
	uint8_t precise; /* number of p's */
};

/* The comma list @list (commas inside {} and // do not split) into at most @cap
 * specs. 0; -ENOENT there is no such event; -EINVAL malformed; -ENOTSUP a kind that is not
 * built yet; with a sentence naming the item. */
int perf_names_parse(const char *list, struct perf_spec *ret, size_t cap, size_t *n,
		     struct err *err);

/* Names of generic event @i with its type and config; NULL past the end. Aliases
 * ("cpu-cycles", "faults") follow their event. */
const char *perf_names_at(size_t i, uint32_t *type, uint64_t *config);

#endif
