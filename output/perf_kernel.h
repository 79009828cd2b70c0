/* SPDX-License-Identifier: MIT
 *
 * perf_kernel - where the running kernel and its modules are, as perf.data has it.
 */
#ifndef PERF_KERNEL_H
#define PERF_KERNEL_H

#include <stdbool.h>
#include <stdio.h>

#include "buildid.h"
#include "sample/sample.h"

struct perf_kernel_map {
	uint64_t addr, len, pgoff;
	const char *path; /* as a PERF_RECORD_MMAP names it */
	const char *dso;  /* as the build-id table names it */
	struct buildid id;
};

/* Pure: the kernel's map from the text of /proc/kallsyms, which is read up to the end of
 * the code or, where its @size is known (not 0), up to its start. False where the addresses
 * are hidden. */
bool perf_kernel_parse(FILE *kallsyms, uint64_t size, struct perf_kernel_map *ret);

/* Pure: one line of /proc/modules; @name holds the name. */
bool perf_kernel_parse_module(const char *line, char name[64], struct perf_kernel_map *ret);

/* Pure: the path of module @name among the lines of a modules.dep (relative to its
 * folder), or NULL; @n is its length. */
const char *perf_kernel_find_module(const char *dep, const char *name, size_t *n);

/* The maps belong into the recording, for an event may sample the kernel, of which perf then wants
 * to know; not into one that is made of another, which has told them. */
bool perf_kernel_is_wanted(const struct session *s);

/* All maps, the kernel's first; @each returns nonzero to stop, and that is
 * returned. 0 also where the addresses are hidden. */
int perf_kernel_maps(int (*each)(void *ctx, const struct perf_kernel_map *map), void *ctx);

#endif
