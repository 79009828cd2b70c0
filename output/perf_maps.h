/* SPDX-License-Identifier: MIT
 *
 * perf_maps - names of code that processes of a recording made, from the /tmp/perf-PID.map
 * that each left: those of python -X perf are Python functions.
 *
 * The processes may be gone: what is there under that number is believed, as perf does, if it
 * was begun before the recording ended. Memory is bounded. One user thread.
 */
#ifndef PERF_MAPS_H
#define PERF_MAPS_H

#include <time.h>

#include "sample/sample.h"

struct perf_maps;

/* @end: when the recording ended. NULL: no memory. */
struct perf_maps *perf_maps_create(struct timespec end);
void perf_maps_destroy(struct perf_maps *m);

/* @pid is a copy of @parent, and has its code. */
void perf_maps_fork(struct perf_maps *m, pid_t pid, pid_t parent);

/* The frame of @pid's code at @ip; @index numbers functions. False: no file has a name for it,
 * or memory is out. */
bool perf_maps_frame(struct perf_maps *m, pid_t pid, uint64_t ip, uint32_t index,
		     struct frame *ret);

#endif
