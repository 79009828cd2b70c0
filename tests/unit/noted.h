/* SPDX-License-Identifier: MIT
 *
 * noted - an exec, a fork, or that a process mapped an interpreter, told of by a record.
 */
#ifndef NOTED_H
#define NOTED_H

#include <string.h>

#include "perf_records.h"
#include "targets/births.h"

static inline void note_record(struct births *b, const struct record *r)
{
	_Alignas(8) unsigned char data[4096];
	struct perf_event_mmap_page page = { 0 };
	struct perf_ring ring = { .page = &page, .data = data, .size = sizeof(data) };

	memcpy(data, r->bytes, r->n);
	births_note(b, &ring, 0, (const struct perf_event_header *)(const void *)r->bytes,
		    r->bytes + r->n - PERF_TRAILER);
}

/* The trailer of @pid's main thread, and note it. */
static inline void note_ended(struct births *b, struct record *r, pid_t pid, uint64_t time)
{
	record_u32(r, (uint32_t)pid, (uint32_t)pid);
	record_u64(r, time);
	record_u64(r, 0);
	record_u64(r, 0);
	note_record(b, r);
}

static inline void note_exec(struct births *b, pid_t pid, uint64_t time)
{
	struct record r;

	record_exec(&r, (uint32_t)pid, (uint32_t)pid, time, 0, 0);
	note_record(b, &r);
	assert_int_equal(births_execed(b, pid), time);
}

static inline void note_fork(struct births *b, pid_t pid, pid_t parent, uint64_t time)
{
	struct record r;

	record_begin(&r, PERF_RECORD_FORK, 0);
	record_u32(&r, (uint32_t)pid, (uint32_t)parent);
	record_u32(&r, (uint32_t)pid, (uint32_t)parent);
	record_u64(&r, time);
	note_ended(b, &r, pid, time);
	assert_int_equal(births_parent(b, pid), parent);
}

static inline void note_python(struct births *b, pid_t pid, uint64_t time)
{
	/* Address, length, offset, device, inode, its age, rights. */
	static const uint64_t at[] = { 0x400000, 0x1000, 0, 8 | UINT64_C(1) << 32, 2, 0, 5 };
	struct record r;

	record_begin(&r, PERF_RECORD_MMAP2, 0);
	record_u32(&r, (uint32_t)pid, (uint32_t)pid);
	record_add(&r, at, sizeof(at));
	record_str(&r, "/usr/bin/python3");
	note_ended(b, &r, pid, time);
	assert_int_equal(births_python(b, pid), time);
}

#endif
