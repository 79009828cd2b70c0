/* SPDX-License-Identifier: MIT
 *
 * tape_test - what is written plays; every cut and every flip ends cleanly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <zstd.h>

#include "tape.h"

#include "sink.h"

extern const struct sink_ops sink_tape;

enum { BIG = 1 << 20, PLENTY = 64 << 20 };

struct memory_file {
	FILE *f;
	char *data;
	size_t n;
};

static struct bytes text(const char *s)
{
	return (struct bytes){ (const unsigned char *)s, strlen(s) };
}

static struct bytes file_bytes(const struct memory_file *m)
{
	return (struct bytes){ (const unsigned char *)m->data, m->n };
}

/* @n samples: a record of 40 + i % 7 bytes, a read with a body, a verdict. */
static void write_samples(struct tape_writer *w, unsigned n)
{
	struct tape_verdict v = { 0 };
	char body[64];

	for (unsigned i = 0; i < n; i++) {
		struct tape_record r = { .event = i, .cpu = i * 7 };
		struct tape_read rd = { .at = i, .n = 3 };

		memset(body, (int)(i * 31), sizeof(body));
		assert_int_equal(0, tape_write(w, TAPE_RECORD,
					       (struct bytes){ (void *)&r, sizeof(r) },
					       (struct bytes){ (void *)body, 32 + i % 7 }));
		assert_int_equal(0, tape_write(w, TAPE_READ,
					       (struct bytes){ (void *)&rd, sizeof(rd) },
					       text("abc")));
		v.late_ns = i;
		assert_int_equal(0, tape_write(w, TAPE_VERDICT,
					       (struct bytes){ (void *)&v, sizeof(v) },
					       (struct bytes){ 0 }));
	}
}

/* Check the records of write_samples() as far as they go; how many there are. */
static unsigned check_samples(const struct tape *t)
{
	size_t pos = 0, before = 0;
	enum tape_type type;
	struct bytes b;
	unsigned n = 0;

	for (; tape_next(t, &pos, &type, &b); n++) {
		unsigned i = n / 3;

		assert_true(pos > before && pos <= t->n);
		before = pos;
		switch (n % 3) {
		case 0:
			assert_int_equal(TAPE_RECORD, type);
			assert_int_equal(sizeof(struct tape_record) + 32 + i % 7, b.n);
			assert_int_equal(i, load_u32(b.at));
			assert_int_equal(i * 7, load_u32(b.at + 4));
			assert_int_equal((i * 31) & 0xff, b.at[b.n - 1]);
			break;
		case 1:
			assert_int_equal(TAPE_READ, type);
			assert_int_equal(sizeof(struct tape_read) + 3, b.n);
			assert_memory_equal("abc", b.at + sizeof(struct tape_read), 3);
			break;
		default:
			assert_int_equal(TAPE_VERDICT, type);
			assert_int_equal(sizeof(struct tape_verdict), b.n);
			assert_int_equal(i, load_u64(b.at + b.n - 8));
		}
	}
	return n;
}

static struct memory_file make_tape(unsigned samples)
{
	struct memory_file m = { 0 };
	struct tape_writer *w;

	m.f = open_memstream(&m.data, &m.n);
	w = tape_writer_create(m.f, NULL);
	assert_non_null(w);
	write_samples(w, samples);
	assert_int_equal(0, tape_writer_finish(w));
	assert_int_equal(0, tape_writer_finish(w));
	assert_int_equal(-EINVAL, tape_write(w, TAPE_READ, text("x"), text("y")));
	tape_writer_destroy(w);
	fclose(m.f);
	return m;
}

static void test_round_trip(void **state)
{
	struct memory_file m = make_tape(500);
	struct tape t;

	assert_int_equal(0, tape_load(&t, file_bytes(&m), PLENTY, NULL));
	assert_false(t.cut);
	assert_int_equal(0, t.n % 8);
	assert_int_equal(1500, check_samples(&t));
	tape_deinit(&t);
	free(m.data);
}

static void test_every_prefix(void **state)
{
	struct memory_file m = make_tape(300);
	unsigned last = 0;
	struct tape t;

	for (size_t n = 0; n < m.n; n++) {
		struct bytes prefix = { malloc(n + 1), n }; /* so that ASan sees its end */
		unsigned now;

		memcpy((void *)(uintptr_t)prefix.at, m.data, n);
		if (tape_load(&t, prefix, PLENTY, NULL) == 0) {
			assert_true(t.cut);
			now = check_samples(&t);
			assert_true(now >= last);
			last = now;
			tape_deinit(&t);
		}
		free((void *)(uintptr_t)prefix.at);
	}
	/* Flushed every 64 samples, so most of it played before the last byte. */
	assert_true(last >= 3 * 256);
	free(m.data);
}

/* A recording that is killed: what was flushed is on the file without finish. */
static void test_killed(void **state)
{
	struct memory_file m = { 0 };
	struct tape_writer *w;
	struct tape t;

	m.f = open_memstream(&m.data, &m.n);
	w = tape_writer_create(m.f, NULL);
	write_samples(w, 130);
	assert_int_equal(0, tape_load(&t, file_bytes(&m), PLENTY, NULL));
	assert_true(t.cut);
	assert_int_equal(3 * 128, check_samples(&t));
	tape_deinit(&t);
	tape_writer_destroy(w);
	fclose(m.f);
	free(m.data);
}

static void test_flips(void **state)
{
	struct memory_file m = make_tape(100);
	unsigned seed = 1;
	struct tape t;

	for (unsigned round = 0; round < 3000; round++) {
		size_t at = (size_t)rand_r(&seed) % m.n;
		char was = m.data[at];
		enum tape_type type;
		struct bytes b;
		size_t pos = 0, sum = 0;

		m.data[at] = (char)rand_r(&seed);
		if (tape_load(&t, file_bytes(&m), BIG, NULL) == 0) {
			while (tape_next(&t, &pos, &type, &b))
				for (size_t i = 0; i < b.n; i++)
					sum += b.at[i];
			assert_true(pos <= t.n && sum <= 255 * t.n);
			tape_deinit(&t);
		}
		m.data[at] = was;
	}
	free(m.data);
}

/* Records that lie about themselves, unpacked. */
static void test_broken_records(void **state)
{
	static const struct {
		uint32_t type, n;
		size_t have;
		bool good;
	} cases[] = {
		{ TAPE_READ, 4, 16, true },
		{ TAPE_READ, 4, 12, true },
		{ TAPE_READ, 8, 16, true },
		{ TAPE_READ, 9, 16, false },
		{ TAPE_READ, UINT32_MAX, 16, false },
		{ 0, 4, 16, false },
		{ TAPE_VERDICT + 1, 4, 16, false },
		{ TAPE_READ, 0, 7, false },
		{ TAPE_READ, 0, 8, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t words[4] = { cases[i].type, cases[i].n };
		struct tape t = { .data = malloc(cases[i].have), .n = cases[i].have };
		enum tape_type type;
		struct bytes b;
		size_t pos = 0;

		memcpy(t.data, words, cases[i].have);
		assert_int_equal(cases[i].good, tape_next(&t, &pos, &type, &b));
		assert_int_equal(cases[i].good ? t.n : 0, pos);
		assert_false(tape_next(&t, &pos, &type, &b));
		tape_deinit(&t);
	}
}

static void test_not_a_tape(void **state)
{
	char packed[256];
	struct err err = { 0 };
	struct tape t;
	size_t n = ZSTD_compress(packed, sizeof(packed), "PYSTAPE2 and more", 17, 1);

	assert_int_equal(-EBADMSG, tape_load(&t, text("hello, world"), BIG, &err));
	assert_string_equal("not a tape", err.text);
	assert_int_equal(-EBADMSG, tape_load(&t, text(""), BIG, &err));
	assert_int_equal(-EBADMSG,
			 tape_load(&t, (struct bytes){ (void *)packed, n }, BIG, &err));
	assert_null(t.data);
}

static void test_too_large(void **state)
{
	struct memory_file m = make_tape(500);
	struct tape t;
	size_t whole;

	assert_int_equal(0, tape_load(&t, file_bytes(&m), PLENTY, NULL));
	whole = t.n;
	tape_deinit(&t);
	assert_int_equal(-EFBIG, tape_load(&t, file_bytes(&m), whole - 1, NULL));
	assert_null(t.data);
	assert_int_equal(0, tape_load(&t, file_bytes(&m), whole, NULL));
	assert_int_equal(whole, t.n);
	tape_deinit(&t);
	free(m.data);
}

static void test_file(void **state)
{
	char path[] = "/tmp/pysampled-tape-XXXXXX";
	struct memory_file m = make_tape(20);
	int fd = mkstemp(path);
	struct err err = { 0 };
	struct tape t;

	assert_true(fd >= 0);
	assert_int_equal(m.n, write(fd, m.data, m.n));
	close(fd);
	assert_int_equal(0, tape_load_file(&t, path, BIG, &err));
	assert_int_equal(60, check_samples(&t));
	tape_deinit(&t);
	unlink(path);
	assert_int_equal(-ENOENT, tape_load_file(&t, path, BIG, &err));
	assert_non_null(strstr(err.text, "No such file"));
	assert_int_equal(-EBADMSG, tape_load_file(&t, "/dev/null", BIG, &err));
	free(m.data);
}

static void test_disk_full(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct tape_writer *w = tape_writer_create(full, NULL);
	struct tape_verdict v = { 0 };
	int r = 0;

	for (unsigned i = 0; i < 1000 && r == 0; i++)
		r = tape_write(w, TAPE_VERDICT, (struct bytes){ (void *)&v, sizeof(v) },
			       (struct bytes){ 0 });
	assert_int_equal(-ENOSPC, r);
	assert_int_equal(-ENOSPC, tape_writer_finish(w));
	tape_writer_destroy(w);
	fclose(full);
}

static void test_sink(void **state)
{
	struct session session = { .n_events = 2,
				   .events = { { .name = "cycles" }, { .name = "faults" } } };
	char priv[64] = { 0 };
	struct memory_file m = { 0 };
	struct sink s = {
		.ops = &sink_tape, .session = &session, .path = "x.tape", .priv = priv
	};
	struct sample smp = { 0 };
	struct stack stk = { 0 };
	enum tape_type type;
	struct bytes b;
	struct tape t;
	size_t pos = 0;

	assert_true(sink_tape.priv_size <= sizeof(priv));
	assert_true(sink_tape.needs & SINK_NEEDS_READS);
	assert_string_equal(".tape", sink_tape.extensions[0]);
	m.f = s.out = open_memstream(&m.data, &m.n);
	assert_int_equal(0, sink_tape.begin(&s, NULL));
	assert_int_equal(0, sink_tape.raw(&s, TAPE_READ, text("head"), text("body")));
	assert_int_equal(0, sink_tape.sample(&s, &smp, &stk));
	assert_int_equal(0, sink_tape.end(&s, NULL));
	assert_int_equal(0, sink_tape.end(&s, NULL));
	assert_int_equal(1, s.samples);
	fclose(m.f);
	assert_int_equal(0, tape_load(&t, file_bytes(&m), BIG, NULL));
	assert_true(tape_next(&t, &pos, &type, &b));
	assert_int_equal(TAPE_SESSION, type);
	assert_int_equal(4 + 2 * sizeof(struct event_info), b.n);
	assert_int_equal(2, load_u32(b.at));
	assert_memory_equal("faults", b.at + 4 + sizeof(struct event_info), 7);
	assert_true(tape_next(&t, &pos, &type, &b));
	assert_int_equal(8, b.n);
	assert_memory_equal("headbody", b.at, 8);
	assert_false(tape_next(&t, &pos, &type, &b));
	tape_deinit(&t);
	free(m.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_every_prefix),
		cmocka_unit_test(test_killed),	       cmocka_unit_test(test_flips),
		cmocka_unit_test(test_broken_records), cmocka_unit_test(test_not_a_tape),
		cmocka_unit_test(test_too_large),      cmocka_unit_test(test_file),
		cmocka_unit_test(test_disk_full),      cmocka_unit_test(test_sink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
