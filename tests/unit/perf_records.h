/* SPDX-License-Identifier: MIT
 *
 * perf_records - perf records by hand, for tests: a sample as perf_event_attr_of()
 * asks for it, and the others with their trailer.
 */
#ifndef PERF_RECORDS_H
#define PERF_RECORDS_H

#include "arch/arch.h"
#include "sample/perf_decode.h"

struct record {
	size_t n;
	_Alignas(8) unsigned char bytes[1024];
};

static inline struct perf_event_header *record_header(struct record *r)
{
	return (struct perf_event_header *)(void *)r->bytes;
}

static inline void record_add(struct record *r, const void *p, size_t n)
{
	uint16_t size = (uint16_t)(r->n + n);

	if (n)
		memcpy(r->bytes + r->n, p, n);
	r->n += n;
	memcpy(r->bytes + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

static inline void record_u64(struct record *r, uint64_t v)
{
	record_add(r, &v, 8);
}

static inline void record_u32(struct record *r, uint32_t a, uint32_t b)
{
	record_u64(r, a | (uint64_t)b << 32);
}

/* A string, padded with NULs to a multiple of 8. */
static inline void record_str(struct record *r, const char *s)
{
	char room[512] = "";

	strcpy(room, s);
	record_add(r, room, (strlen(s) + 8) & ~(size_t)7);
}

static inline void record_begin(struct record *r, uint32_t type, uint16_t misc)
{
	struct perf_event_header h = { .type = type, .misc = misc, .size = sizeof(h) };

	*r = (struct record){ .n = sizeof(h) };
	memcpy(r->bytes, &h, sizeof(h)); /* the compiler may not move it before that */
}

/* Where every record but samples ends: pid 70, tid 71, CPU 3, id 99. */
static inline void record_trailer(struct record *r, uint32_t tid, uint64_t time)
{
	record_u32(r, 70, tid);
	record_u64(r, time);
	record_u32(r, 3, 0);
	record_u64(r, 99);
}

static inline void record_switch(struct record *r, uint16_t misc, uint32_t tid, uint64_t time)
{
	record_begin(r, PERF_RECORD_SWITCH, misc);
	record_trailer(r, tid, time);
}

static inline void record_comm(struct record *r, uint16_t misc, const char *name,
			       uint64_t time)
{
	record_begin(r, PERF_RECORD_COMM, misc);
	record_u32(r, 70, 71);
	record_str(r, name);
	record_trailer(r, 71, time);
}

/* A page of code at @at, of the file with inode @ino: all but the trailer. */
static inline void record_map(struct record *r, uint16_t misc, uint32_t pid, uint32_t tid,
			      uint64_t at, uint64_t ino, const char *path)
{
	record_begin(r, PERF_RECORD_MMAP2, misc);
	record_u32(r, pid, tid);
	record_u64(r, at);
	record_u64(r, 0x1000);
	record_u64(r, 0x3000); /* pgoff */
	record_u32(r, 8, 1);
	record_u64(r, ino);
	record_u64(r, 0);
	record_u32(r, 5, 2);
	record_str(r, path);
}

/* @tid of @pid has become another program at @time, as event @id of @cpu tells. */
static inline void record_exec(struct record *r, uint32_t pid, uint32_t tid, uint64_t time,
			       uint32_t cpu, uint64_t id)
{
	record_begin(r, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	record_u32(r, pid, tid);
	record_str(r, "x");
	record_u32(r, pid, tid);
	record_u64(r, time);
	record_u32(r, cpu, 0);
	record_u64(r, id);
}

/* A sample with @n_chain kernel addresses (-1: without a chain) and, where @user_ip is
 * not 0, user registers. */
static inline void record_sample(struct record *r, uint64_t time, int n_chain,
				 uint64_t user_ip)
{
	record_begin(r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	record_u64(r, 1234); /* id */
	record_u64(r, 0x401000);
	record_u32(r, 70, 71);
	record_u64(r, time);
	record_u64(r, 0xadd4);
	record_u32(r, 5, 0);
	record_u64(r, 1000003); /* period */
	if (n_chain >= 0)
		record_u64(r, (uint64_t)n_chain);
	for (int i = 0; i < n_chain; i++)
		record_u64(r, 0xffffffff81000000u + (uint64_t)i);
	record_u64(r, user_ip ? PERF_SAMPLE_REGS_ABI_64 : PERF_SAMPLE_REGS_ABI_NONE);
	for (int i = 0; user_ip && i < arch_host->n_regs; i++)
		record_u64(r, i == arch_host->ip ? user_ip :
			      i == arch_host->sp ? 0x7ffe0000 :
						   0xbad);
}

#endif
