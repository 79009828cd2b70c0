/* SPDX-License-Identifier: MIT
 *
 * perf_decode: records by hand, every prefix of them, and random damage.
 */
#include <errno.h>

#include "unit.h"
#include "perf_records.h"

enum { PERIOD_AT = 56 }; /* in what record_sample() makes */
static const uint64_t WITH_CHAIN = PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN;

static int side(struct record *r, struct side *s)
{
	return perf_decode_side(record_header(r), s);
}

static void sample(void **state)
{
	struct perf_sample s;
	struct record r;

	record_sample(&r, 123456789, 3, 0x7f0000401234);
	assert_int_equal(perf_decode_sample(record_header(&r), WITH_CHAIN, &s), 0);
	assert_int_equal(s.id, 1234);
	assert_int_equal(s.ip, 0x401000);
	assert_int_equal(s.pid, 70);
	assert_int_equal(s.tid, 71);
	assert_int_equal(s.time, 123456789);
	assert_int_equal(s.addr, 0xadd4);
	assert_int_equal(s.cpu, 5);
	assert_int_equal(s.period, 1000003);
	assert_int_equal(s.misc, PERF_RECORD_MISC_USER);
	assert_int_equal(s.n_kchain, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(load_u64(s.kchain + 8 * i) == 0xffffffff81000000u + i);
	assert_true(s.have_user);
	assert_int_equal(s.user_ip, 0x7f0000401234);
	assert_int_equal(s.user_sp, 0x7ffe0000);
	assert_ptr_equal(s.regs, r.bytes + r.n - 8 * (size_t)arch_host->n_regs);
}

static void sample_without_parts(void **state)
{
	struct perf_sample s;
	struct record r;

	record_sample(&r, 5, -1, 0x7f0000401234);
	assert_int_equal(perf_decode_sample(record_header(&r), PERF_SAMPLE_PERIOD, &s), 0);
	assert_int_equal(s.n_kchain, 0);
	assert_int_equal(s.user_ip, 0x7f0000401234);
	record_sample(&r, 5, -1, 0x7f0000401234);
	memmove(r.bytes + PERIOD_AT, r.bytes + PERIOD_AT + 8, r.n - PERIOD_AT - 8);
	record_header(&r)->size = (uint16_t)(r.n -= 8);
	assert_int_equal(perf_decode_sample(record_header(&r), 0, &s), 0);
	assert_int_equal(s.period, 0);
	assert_int_equal(s.user_ip, 0x7f0000401234);
	record_sample(&r, 5, 0, 0); /* a kernel thread has no user registers */
	assert_int_equal(perf_decode_sample(record_header(&r), WITH_CHAIN, &s), 0);
	assert_int_equal(s.n_kchain, 0);
	assert_false(s.have_user);
	assert_int_equal(s.user_ip, 0);
}

static void sample_with_a_stack(void **state)
{
	struct perf_sample s;
	struct record r;

	for (uint64_t there = 0; there <= 40; there += 8) {
		record_sample(&r, 5, 3, 0x7f0000401234);
		record_u64(&r, 32);
		for (uint64_t i = 0; i < 4; i++)
			record_u64(&r, 100 + i);
		record_u64(&r, there); /* that much of it is the stack's */
		assert_int_equal(perf_decode_sample(record_header(&r), WITH_CHAIN, &s),
				 there <= 32 ? 0 : -EBADMSG);
		assert_int_equal(s.stack.n, there <= 32 ? there : 0);
		assert_true(there == 0 || there > 32 || load_u64(s.stack.at) == 100);
	}
	record_sample(&r, 5, 3, 0x7f0000401234);
	record_u64(&r, 0); /* none, and no word behind it */
	assert_int_equal(perf_decode_sample(record_header(&r), WITH_CHAIN, &s), 0);
	assert_int_equal(s.stack.n, 0);
	record_sample(&r, 5, 3, 0x7f0000401234);
	record_u64(&r, UINT64_MAX - 7);
	record_u64(&r, 8);
	assert_int_equal(perf_decode_sample(record_header(&r), WITH_CHAIN, &s), -EBADMSG);
}

/* A group's counts lie between the period and the chain. */
static void sample_with_counts(void **state)
{
	const uint64_t counts[] = { 2, 5000, 4000, 11, 101, 12, 102 };
	const uint64_t type = WITH_CHAIN | PERF_SAMPLE_READ;
	struct perf_sample s;
	struct record r;

	for (uint64_t claimed = 0; claimed < 5; claimed++) {
		uint64_t n = claimed == 4 ? UINT64_MAX : claimed;
		unsigned char *at = r.bytes + PERIOD_AT + 8;

		record_sample(&r, 5, 3, 0x7f0000401234);
		memmove(at + sizeof(counts), at, r.n - PERIOD_AT - 8);
		memcpy(at, counts, sizeof(counts));
		memcpy(at, &n, 8);
		record_header(&r)->size = (uint16_t)(r.n += sizeof(counts));
		if (claimed == 2) {
			assert_int_equal(perf_decode_sample(record_header(&r), type, &s), 0);
			assert_int_equal(s.n_kchain, 3);
			assert_int_equal(s.user_ip, 0x7f0000401234);
			assert_int_equal(load_u64(s.reads + 16), 12);
			assert_int_equal(load_u64(s.reads + 24), 102);
		} else if (claimed == 4) {
			assert_int_equal(perf_decode_sample(record_header(&r), type, &s),
					 -EBADMSG);
		} else {
			perf_decode_sample(record_header(&r), type, &s);
		}
		assert_int_equal(s.n_reads, claimed == 4 ? 0 : claimed);
	}
}

/* The number of its event, whose it is, and when. */
static void begin_witness(struct record *r)
{
	record_begin(r, PERF_RECORD_SAMPLE, 0);
	record_u64(r, 7);
	record_u32(r, 10, 11);
	record_u64(r, 12345);
}

/* The witness's, with counts and without; and one that is another event's. */
static void witness(void **state)
{
	const uint64_t counts[] = { 1, 5000, 4000, 11, 101 };
	struct perf_sample s;
	struct record r;

	for (int read = 0; read < 2; read++) {
		begin_witness(&r);
		if (read)
			record_add(&r, counts, sizeof(counts));
		record_u64(&r, PERF_SAMPLE_REGS_ABI_64);
		for (unsigned i = 0; i < arch_host->n_regs; i++)
			record_u64(&r, i);
		assert_int_equal(perf_decode_witness(record_header(&r), !read, &s), -EBADMSG);
		assert_int_equal(perf_decode_witness(record_header(&r), read, &s), 0);
		assert_int_equal(s.tid, 11);
		assert_int_equal(s.time, 12345);
		assert_int_equal(s.n_reads, read);
		assert_int_equal(load_u64(s.regs + 8), 1);
		if (read)
			assert_int_equal(load_u64(s.reads), 11);
	}
}

/* What claims more counts than there are is none, also where the rest would do without them. */
static void counts_that_are_not_there(void **state)
{
	struct perf_sample s;
	struct record r;

	begin_witness(&r);
	record_u64(&r, 1);
	record_u64(&r, 5000);
	record_u64(&r, 4000);
	record_u64(&r, PERF_SAMPLE_REGS_ABI_NONE);
	assert_int_equal(perf_decode_witness(record_header(&r), true, &s), -EBADMSG);
	assert_int_equal(s.n_reads, 0);
	assert_null(s.reads);
}

/* Chains that claim more than there is. */
static void sample_with_a_wrong_chain(void **state)
{
	const uint64_t claims[] = { 4, 21, 1 << 16, UINT32_MAX, 1ull << 61, UINT64_MAX };
	struct perf_sample s;
	struct record r;

	for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
		record_sample(&r, 5, 3, 0);
		memcpy(r.bytes + 8 + 56, &claims[i], 8);
		memset(r.bytes + 8 + 64, 0, 16); /* would do as "no registers, no stack" */
		/* 4 leaves nothing for the registers, the others are too long. */
		assert_int_equal(perf_decode_sample(record_header(&r), WITH_CHAIN, &s),
				 -EBADMSG);
		assert_int_equal(s.n_kchain, claims[i] == 4 ? 4 : 0);
	}
}

static void side_mmap(void **state)
{
	struct record r;
	struct side s;

	record_begin(&r, PERF_RECORD_MMAP2, 0);
	record_u32(&r, 10, 11);
	record_u64(&r, 0x7f0000000000);
	record_u64(&r, 0x2000);
	record_u64(&r, 0x1000);
	record_u32(&r, 8, 1);
	record_u64(&r, 4242);
	record_u64(&r, 7);
	record_u32(&r, 5, 2);
	record_str(&r, "/usr/lib/libx.so");
	record_trailer(&r, 71, 99);
	assert_int_equal(side(&r, &s), 0);
	assert_int_equal(s.kind, SIDE_MMAP);
	assert_int_equal(s.pid, 10);
	assert_int_equal(s.tid, 11);
	assert_int_equal(s.time, 99);
	assert_int_equal(s.cpu, 3);
	assert_int_equal(s.u.mmap.addr, 0x7f0000000000);
	assert_int_equal(s.u.mmap.len, 0x2000);
	assert_int_equal(s.u.mmap.pgoff, 0x1000);
	assert_int_equal(s.u.mmap.maj, 8);
	assert_int_equal(s.u.mmap.min, 1);
	assert_int_equal(s.u.mmap.ino, 4242);
	assert_int_equal(s.u.mmap.ino_generation, 7);
	assert_int_equal(s.u.mmap.prot, 5);
	assert_int_equal(s.u.mmap.flags, 2);
	assert_string_equal(s.u.mmap.path, "/usr/lib/libx.so");
	assert_null(s.u.mmap.build_id);
}

static void side_mmap_with_build_id(void **state)
{
	struct record r;
	struct side s;

	for (uint8_t n = 0; n < 40; n += 13) {
		unsigned char id[24] = { n };

		memset(id + 4, 0x77, 20);
		record_begin(&r, PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID);
		record_u32(&r, 10, 11);
		record_u64(&r, 1);
		record_u64(&r, 2);
		record_u64(&r, 3);
		record_add(&r, id, sizeof(id));
		record_u32(&r, 5, 2);
		record_str(&r, "x");
		record_trailer(&r, 71, 99);
		assert_int_equal(side(&r, &s), 0);
		assert_int_equal(s.u.mmap.build_id_n, MIN(n, 20));
		assert_ptr_equal(s.u.mmap.build_id, r.bytes + 8 + 32 + 4);
		assert_int_equal(s.u.mmap.ino, 0);
		assert_string_equal(s.u.mmap.path, "x");
	}
}

static void side_comm(void **state)
{
	struct record r;
	struct side s;

	record_comm(&r, 0, "worker", 5);
	assert_int_equal(side(&r, &s), 0);
	assert_int_equal(s.kind, SIDE_COMM);
	assert_int_equal(s.pid, 70);
	assert_int_equal(s.tid, 71);
	assert_string_equal(s.u.comm.name, "worker");
	assert_false(s.u.comm.exec);
	record_comm(&r, PERF_RECORD_MISC_COMM_EXEC, "", 5);
	assert_int_equal(side(&r, &s), 0);
	assert_string_equal(s.u.comm.name, "");
	assert_true(s.u.comm.exec);
}

/* What the program calls a thread: until when it did stands behind the name, however long. */
static void names_of_programs(void **state)
{
	static const char *const names[] = { "w-0", "1234567", "12345678",
					     "Thread-67 (worker)", "" };
	struct record r;
	struct side s;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		record_begin(&r, PERF_RECORD_COMM, PERF_MISC_THREAD_NAME);
		record_u32(&r, 70, 71);
		record_str(&r, names[i]);
		record_u64(&r, 0x123456789abc);
		record_trailer(&r, 71, 5);
		assert_int_equal(side(&r, &s), 0);
		assert_string_equal(s.u.comm.name, names[i]);
		assert_true(s.u.comm.thread);
		assert_int_equal(s.u.comm.until, 0x123456789abc);
		assert_int_equal(s.time, 5);
	}
}

/* What we write ourselves of what was there before us is of no event. */
static void announced(void **state)
{
	for (uint64_t id = 0; id < 2; id++) {
		struct record r;
		struct side s;

		record_begin(&r, PERF_RECORD_COMM, 0);
		record_u32(&r, 70, 71);
		record_str(&r, "name");
		record_u32(&r, 70, 71);
		record_u64(&r, 5); /* time */
		record_u32(&r, 1, 0);
		record_u64(&r, id);
		assert_int_equal(0, side(&r, &s));
		assert_int_equal(71, s.tid);
		assert_int_equal(5, s.time);
		assert_int_equal(!id, s.announced);
	}
}

/* Before an end of another size nothing says who and when but the record itself. */
static void side_before_another_end(void **state)
{
	enum { END = 24 };
	struct record r;
	struct side s;

	record_begin(&r, PERF_RECORD_COMM, 0);
	record_u32(&r, 70, 71);
	record_str(&r, "worker");
	record_add(&r, (const char[END]){ 1 }, END);
	assert_int_equal(0, perf_decode_side_before(record_header(&r), END, &s));
	assert_int_equal(SIDE_COMM, s.kind);
	assert_int_equal(70, s.pid);
	assert_int_equal(71, s.tid);
	assert_int_equal(0, s.time);
	assert_int_equal(0, s.cpu);
	assert_string_equal("worker", s.u.comm.name);
	/* The end is none of the name's. */
	record_begin(&r, PERF_RECORD_COMM, 0);
	record_u32(&r, 70, 71);
	record_add(&r, "12345678", 8);
	record_add(&r, (const char[END]){ 0 }, END);
	assert_int_equal(-EBADMSG, perf_decode_side_before(record_header(&r), END, &s));
	record_begin(&r, PERF_RECORD_LOST_SAMPLES, 0);
	record_add(&r, (const char[END]){ 0 }, END - 8);
	assert_int_equal(-EBADMSG, perf_decode_side_before(record_header(&r), END, &s));
	record_begin(&r, 4096, 0);
	record_add(&r, (const char[END]){ 0 }, END);
	assert_int_equal(-ENOENT, perf_decode_side_before(record_header(&r), END, &s));
}

/* The witness's that has nothing in it, or that is cut. */
static void cut_witness(void **state)
{
	struct perf_sample s;
	struct record r;

	begin_witness(&r);
	record_u64(&r, PERF_SAMPLE_REGS_ABI_NONE);
	for (size_t n = r.n; n >= sizeof(struct perf_event_header); n--) {
		record_header(&r)->size = (uint16_t)n;
		assert_int_equal(n == r.n ? 0 : -EBADMSG,
				 perf_decode_witness(record_header(&r), false, &s));
		assert_false(s.have_user);
		/* What is not there is 0. */
		assert_int_equal(n >= 16 ? 7 : 0, s.id);
	}
	record_header(&r)->size = 0; /* less than its own head */
	assert_int_equal(-EBADMSG, perf_decode_witness(record_header(&r), false, &s));
	assert_int_equal(0, s.id);
}

/* A string without an end in the record is not read into the trailer. */
static void string_without_end(void **state)
{
	struct record r;
	struct side s;

	record_begin(&r, PERF_RECORD_COMM, 0);
	record_u32(&r, 70, 71);
	record_add(&r, "12345678", 8);
	record_trailer(&r, 71, 5);
	assert_int_equal(side(&r, &s), -EBADMSG);
	assert_string_equal(s.u.comm.name, "");
}

static void side_tasks(void **state)
{
	const uint32_t types[] = { PERF_RECORD_FORK, PERF_RECORD_EXIT };

	for (size_t i = 0; i < 2; i++) {
		struct record r;
		struct side s;

		record_begin(&r, types[i], 0);
		record_u32(&r, 20, 10);
		record_u32(&r, 21, 11);
		record_u64(&r, 4000);
		record_trailer(&r, 71, 5000);
		assert_int_equal(side(&r, &s), 0);
		assert_int_equal(s.kind, i ? SIDE_EXIT : SIDE_FORK);
		assert_int_equal(s.pid, 20);
		assert_int_equal(s.tid, 21);
		assert_int_equal(s.u.fork.ppid, 10);
		assert_int_equal(s.u.fork.ptid, 11);
		assert_int_equal(s.time, 4000); /* its own, not the trailer's */
	}
}

static void side_lost_and_throttled(void **state)
{
	struct record r;
	struct side s;

	record_begin(&r, PERF_RECORD_LOST, 0);
	record_u64(&r, 1);
	record_u64(&r, 500);
	record_trailer(&r, 71, 5);
	assert_int_equal(side(&r, &s), 0);
	assert_int_equal(s.kind, SIDE_LOST);
	assert_int_equal(s.u.lost.n, 500);
	assert_int_equal(s.pid, 70); /* as each record's end says */
	assert_int_equal(s.tid, 71);
	assert_int_equal(s.time, 5);
	assert_int_equal(s.cpu, 3);
	record_begin(&r, PERF_RECORD_LOST_SAMPLES, 0);
	record_u64(&r, 600);
	record_trailer(&r, 71, 5);
	assert_int_equal(side(&r, &s), 0);
	assert_int_equal(s.u.lost.n, 600);
	record_begin(&r, PERF_RECORD_THROTTLE, 0);
	record_u64(&r, 1);
	record_u64(&r, 2);
	record_u64(&r, 3);
	record_trailer(&r, 71, 5);
	assert_int_equal(side(&r, &s), 0);
	assert_int_equal(s.kind, SIDE_THROTTLE);
	record_switch(&r, 0, 71, 5);
	assert_int_equal(side(&r, &s), -ENOENT);
	record_begin(&r, 4096, 0);
	record_trailer(&r, 71, 5);
	assert_int_equal(side(&r, &s), -ENOENT);
}

/* Any event of a ring may tell what it lost, also the witness, whose records end without a CPU. */
static void side_of_the_witness(void **state)
{
	static const uint32_t types[] = { PERF_RECORD_LOST, PERF_RECORD_THROTTLE };
	struct record r;
	struct side s;

	for (size_t i = 0; i < 2; i++) {
		record_begin(&r, types[i], 0);
		record_u64(&r, 1);
		record_u64(&r, 500);
		if (i)
			record_u64(&r, 3);
		record_u32(&r, 70, 71);
		record_u64(&r, 5);
		record_u64(&r, 99);
		assert_int_equal(side(&r, &s), 0);
		assert_int_equal(s.kind, i ? SIDE_THROTTLE : SIDE_LOST);
		if (!i)
			assert_int_equal(s.u.lost.n, 500);
		assert_int_equal(s.pid, 70);
		assert_int_equal(s.tid, 71);
		assert_int_equal(s.time, 5);
		assert_int_equal(s.cpu, 0);
		assert_false(s.announced);
	}
}

/*
 * Damage. Each record lies in memory of exactly its size: sanitizers watch.
 */

static size_t make(struct record *r, unsigned i)
{
	switch (i) {
	case 0:
		record_sample(r, 5, 3, 0x7f0000401234);
		return r->n;
	case 1:
		record_comm(r, 0, "worker", 5);
		return r->n;
	case 2:
		record_begin(r, PERF_RECORD_MMAP2, 0);
		for (int k = 0; k < 8; k++)
			record_u64(r, 0x1111);
		record_str(r, "/usr/lib/libx.so");
		record_trailer(r, 71, 5);
		return r->n;
	case 3:
		record_begin(r, PERF_RECORD_FORK, 0);
		record_u64(r, 1);
		record_u64(r, 2);
		record_u64(r, 3);
		record_trailer(r, 71, 5);
		return r->n;
	default:
		return 0;
	}
}

/* Returns whether one of the decoders took it. */
static bool decode(const unsigned char *bytes, size_t n)
{
	unsigned char *exact = malloc(n);
	struct perf_event_header *h = (void *)exact;
	struct perf_sample sample;
	struct side s;
	bool good;

	memcpy(exact, bytes, n);
	h->size = (uint16_t)n;
	if (h->type == PERF_RECORD_SAMPLE) {
		good = perf_decode_sample(h, WITH_CHAIN, &sample) == 0;
		for (uint32_t i = 0; good && i < sample.n_kchain; i++)
			(void)*(volatile const unsigned char *)(sample.kchain + 8 * i + 7);
	} else {
		good = perf_decode_side(h, &s) == 0;
		if (good && s.kind == SIDE_COMM)
			good = strlen(s.u.comm.name) < n;
		else if (good && s.kind == SIDE_MMAP)
			good = strlen(s.u.mmap.path) < n;
	}
	free(exact);
	return good;
}

static void every_prefix(void **state)
{
	struct record r;

	for (unsigned i = 0; make(&r, i); i++) {
		unsigned taken = 0;

		assert_true(decode(r.bytes, r.n));
		for (size_t n = sizeof(struct perf_event_header); n < r.n; n++)
			taken += decode(r.bytes, n);
		/* A sample has no end of its own but the registers'. */
		if (i == 0)
			assert_int_equal(taken, 0);
		assert_true(taken < 8);
	}
}

static void random_flips(void **state)
{
	uint64_t seed = 1;
	struct record r;
	unsigned refused = 0;

	for (unsigned i = 0; make(&r, i); i++) {
		for (int k = 0; k < 20000; k++) {
			struct record bad = r;

			for (int j = 0; j <= k % 3; j++) {
				seed = seed * 6364136223846793005u + 1442695040888963407u;
				bad.bytes[(seed >> 33) % r.n] ^=
					(unsigned char)(1u << (seed >> 61));
			}
			refused += !decode(bad.bytes, r.n);
		}
	}
	assert_in_range(refused, 1000, 60000);
}

static void trailer(void **state)
{
	struct perf_trailer t;
	struct record r;

	record_switch(&r, 0, 71, 12345);
	perf_decode_trailer(r.bytes + r.n - PERF_TRAILER, &t);
	assert_int_equal(t.pid, 70);
	assert_int_equal(t.tid, 71);
	assert_int_equal(t.time, 12345);
	assert_int_equal(t.cpu, 3);
	assert_int_equal(t.id, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample),
		cmocka_unit_test(sample_without_parts),
		cmocka_unit_test(sample_with_a_stack),
		cmocka_unit_test(sample_with_a_wrong_chain),
		cmocka_unit_test(sample_with_counts),
		cmocka_unit_test(counts_that_are_not_there),
		cmocka_unit_test(witness),
		cmocka_unit_test(side_mmap),
		cmocka_unit_test(side_mmap_with_build_id),
		cmocka_unit_test(side_comm),
		cmocka_unit_test(side_before_another_end),
		cmocka_unit_test(cut_witness),
		cmocka_unit_test(string_without_end),
		cmocka_unit_test(side_tasks),
		cmocka_unit_test(side_lost_and_throttled),
		cmocka_unit_test(side_of_the_witness),
		cmocka_unit_test(every_prefix),
		cmocka_unit_test(random_flips),
		cmocka_unit_test(names_of_programs),
		cmocka_unit_test(trailer),
		cmocka_unit_test(announced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
