/* SPDX-License-Identifier: MIT
 *
 * noted - an exec, told of by a record.
 */
#ifndef NOTED_H
#define NOTED_H

#include <string.h>

#include "perf_records.h"
#include "targets/births.h"

static inline void note_exec(struct births *b, pid_t pid, uint64_t time)
{
	_Alignas(8) unsigned char data[4096];
	struct perf_event_mmap_page page = { 0 };
	struct perf_ring ring = { .page = &page, .data = data, .size = sizeof(data) };
	struct record r;

	record_exec(&r, (uint32_t)pid, (uint32_t)pid, time, 0, 0);
	memcpy(data, r.bytes, r.n);
	births_note(b, &ring, 0, (const struct perf_event_header *)(const void *)r.bytes,
		    r.bytes + r.n - PERF_TRAILER);
	assert_int_equal(births_execed(b, pid), time);
}

#endif
