/* SPDX-License-Identifier: MIT
 *
 * perf_frames - what stands at the addresses of a perf.data: frames with names.
 *
 * Part of perf_read. Python functions have the names of the symbol file, of the recording or
 * beside it; native ones those of the mapped files; the kernel's where the same one runs; code
 * that a process made those of its /tmp/perf-PID.map.
 */
#ifndef PERF_FRAMES_H
#define PERF_FRAMES_H

#include <stdio.h>

#include "perf_head.h"
#include "perf_layout.h"

struct perf_frames;
struct perf_maps;

/* All borrowed; @path may be NULL. NULL: no memory. */
struct perf_frames *perf_frames_create(const struct perf_head *head, FILE *in,
				       const char *path);
void perf_frames_destroy(struct perf_frames *f);

/* Intern @text: as long as @f. NULL: no memory. */
const char *perf_frames_keep(struct perf_frames *f, const char *text);

/* A PERF_RECORD_MMAP, or MMAP2 of kernel mode: the first is the kernel's. */
void perf_frames_kernel(struct perf_frames *f, const struct perf_event_header *h);

/* What happened to processes and their memory. 0 or -errno. */
int perf_frames_side(struct perf_frames *f, struct side *side);

/* A number that is another whenever addresses of @pid may mean something else. */
uint64_t perf_frames_state(const struct perf_frames *f, pid_t pid);

/* The frames of a sample, innermost first, at most @cap; how many. Native ones come from the
 * stack's bytes where the event @a has them. Python functions without a name are markers. */
size_t perf_frames_take(struct perf_frames *f, const struct perf_event_attr *a, uint16_t misc,
			const struct perf_taken *t, struct frame *ret, size_t cap);

/* Frames of Python that had no name; whether there was a symbol file. */
uint64_t *perf_frames_unnamed(struct perf_frames *f);
bool perf_frames_have_python(const struct perf_frames *f);

#endif
