/* SPDX-License-Identifier: MIT
 *
 * perf_decode - perf record bytes to structs. Pure; every byte may be hostile.
 *
 * Knows the sample_type that perf_event_attr_of() asks for, and the witness's. Layouts:
 * include/uapi/linux/perf_event.h, "struct perf_event_header" and below.
 */
#ifndef PERF_DECODE_H
#define PERF_DECODE_H

#include "base/base.h"
#include "sample/sample.h"

/* A PERF_RECORD_SAMPLE; views point into the record. */
struct perf_sample {
	uint64_t id, ip, time, addr, period;
	pid_t pid, tid;
	uint32_t cpu;
	uint16_t misc;
	const unsigned char *reads; /* n_reads pairs of value and id */
	uint32_t n_reads;
	const unsigned char *kchain; /* n_kchain addresses, markers included */
	uint32_t n_kchain;
	bool have_user; /* user_ip and user_sp are valid */
	uint64_t user_ip, user_sp;
	const unsigned char *regs; /* arch_host->n_regs user registers, or NULL */
	struct bytes stack;	   /* at user_sp; may be empty */
};

/* The trailer that sample_id_all puts behind every other record. */
struct perf_trailer {
	pid_t pid, tid;
	uint64_t time;
	uint32_t cpu;
	uint64_t id;
};
enum { PERF_TRAILER = 32 };

/* misc of a COMM record that we made (announce_name): what the program calls the thread.
 * Behind the name stands a u64: when it was read. */
enum { PERF_MISC_THREAD_NAME = 1 << 12 };

/* @sample_type: the events'; with or without CALLCHAIN, READ and PERIOD (0 then). 0,
 * or -EBADMSG. */
int perf_decode_sample(const struct perf_event_header *h, uint64_t sample_type,
		       struct perf_sample *ret);

/* The same of perf_event_witness(), with or without READ: id, pid, tid, time, reads and
 * registers alone are set; -EBADMSG also for a record with more in it. */
int perf_decode_witness(const struct perf_event_header *h, bool read, struct perf_sample *ret);

/* Of a record of @size bytes in all, whose last PERF_TRAILER bytes are @end. */
void perf_decode_trailer(const unsigned char *end, struct perf_trailer *ret);

/* MMAP2, COMM, FORK, EXIT, LOST, LOST_SAMPLES, THROTTLE to a struct side; strings
 * and build-id point into the record. 0; -ENOENT another type; -EBADMSG. */
int perf_decode_side(const struct perf_event_header *h, struct side *ret);
/* The same of a record that ends in @n other bytes: the time is 0 but of FORK and EXIT, and
 * who and where is what the record itself says. */
int perf_decode_side_before(const struct perf_event_header *h, size_t n, struct side *ret);

#endif
