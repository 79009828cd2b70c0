/* SPDX-License-Identifier: MIT
 *
 * tape_test - what is written plays; every cut and every flip ends cleanly.
 */

#include <errno.h>
#include <sys/utsname.h>
#include <zstd.h>

#include "unit.h"
#include "../tapes/whole.h"
#include "targets/tape_target.h"

#include "sample/sink.h"

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

/* @n samples: bytes of a ring, a read, a judgement. */
static void write_samples(struct tape_writer *w, unsigned n)
{
	char body[64];

	for (unsigned i = 0; i < n; i++) {
		struct tape_head ring = { .n = 0 }, read = { .n = 0 }, judged = { .n = 0 };

		memset(body, (int)(i * 31), sizeof(body));
		tape_put(&ring, TAPE_SLOT_INDEX, i * 7);
		tape_put_body(&ring, TAPE_BYTES, 32 + i % 7);
		assert_int_equal(0, tape_write(w, TAPE_RING, tape_head_bytes(&ring),
					       (struct bytes){ (void *)body, 32 + i % 7 }));
		tape_put(&read, TAPE_AT, i);
		tape_put_bytes(&read, TAPE_BYTES, "abc", 3);
		assert_int_equal(0, tape_write(w, TAPE_READ, tape_head_bytes(&read),
					       (struct bytes){ 0 }));
		tape_put(&judged, TAPE_POS, i);
		assert_int_equal(0, tape_write(w, TAPE_JUDGED, tape_head_bytes(&judged),
					       (struct bytes){ 0 }));
	}
}

/* How many chunks are as they were written. */
static unsigned check_samples(const struct tape *t)
{
	struct bytes chunk, b;
	uint32_t type;
	unsigned n = 0;
	size_t pos = 0;

	for (; tape_next(t, &pos, &type, &chunk); n++) {
		unsigned i = n / 3;

		if (n % 3 == 0) {
			assert_int_equal(TAPE_RING, type);
			assert_int_equal(i * 7, tape_get(chunk, TAPE_SLOT_INDEX, 99));
			assert_true(tape_field(chunk, TAPE_BYTES, &b));
			assert_int_equal(32 + i % 7, b.n);
			assert_int_equal((i * 31) & 0xff, b.at[31]);
		} else if (n % 3 == 1) {
			assert_int_equal(TAPE_READ, type);
			assert_int_equal(i, tape_get(chunk, TAPE_AT, 99));
			assert_true(tape_field(chunk, TAPE_BYTES, &b));
			assert_int_equal(3, b.n);
			assert_memory_equal("abc", b.at, 3);
		} else {
			assert_int_equal(TAPE_JUDGED, type);
			assert_int_equal(i, tape_get(chunk, TAPE_POS, 99));
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
		uint32_t type;
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
		{ 0, 4, 16, true }, /* of another version, as may be the next */
		{ 60000, 4, 16, true },
		{ TAPE_READ, 0, 7, false },
		{ TAPE_READ, 0, 8, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t words[4] = { cases[i].type, cases[i].n };
		struct tape t = { .data = malloc(cases[i].have), .n = cases[i].have };
		uint32_t type;
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
	size_t n = ZSTD_compress(packed, sizeof(packed), "PYSTAPE9 and more", 17, 1);

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
	int r = 0;

	for (unsigned i = 0; i < 1000 && r == 0; i++)
		r = tape_write(w, TAPE_JUDGED, text("judged"), (struct bytes){ 0 });
	assert_int_equal(-ENOSPC, r);
	assert_int_equal(-ENOSPC, tape_writer_finish(w));
	tape_writer_destroy(w);
	fclose(full);
}

static void test_sink(void **state)
{
	struct session session = { .n_events = 2,
				   .flags = 5,
				   .shown = 9,
				   .events = { { .name = "cycles", .attr.exclude_kernel = 1 },
					       { .name = "faults",
						 .attr.config = 7,
						 .attr.exclude_kernel = 1 } },
				   .how = { { 0 }, { .probe = true, .leader = 3 } } };
	struct perf_event_attr attr;
	struct utsname u;
	char name[4];
	struct memory_file m = { 0 };
	struct sink s = { .ops = &sink_tape,
			  .session = &session,
			  .path = "x.tape",
			  .priv = calloc(1, sink_tape.priv_size) };
	struct sample smp = { 0 };
	struct stack stk = { 0 };
	uint32_t type;
	struct bytes b, field;
	struct tape t;
	size_t pos = 0;

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
	assert_int_equal(TAPE_EVENT, type);
	assert_true(tape_next(&t, &pos, &type, &b));
	assert_int_equal(TAPE_EVENT, type);
	assert_int_equal(1, tape_get(b, TAPE_INDEX, 99));
	assert_int_equal(5, tape_get(b, TAPE_FLAGS, 99));
	assert_int_equal(3, tape_get(b, TAPE_LEADER, 99));
	assert_int_equal(TAPE_PROBE, tape_get(b, TAPE_HOW, 99));
	tape_get_text(b, TAPE_NAME, name, sizeof(name));
	assert_string_equal("fau", name);
	assert_true(tape_field(b, TAPE_ATTR, &field));
	assert_int_equal(sizeof(attr), field.n);
	memcpy(&attr, field.at, sizeof(attr));
	assert_int_equal(7, attr.config);
	assert_true(tape_next(&t, &pos, &type, &b));
	assert_int_equal(TAPE_TOLD, type);
	assert_int_equal(9, tape_get(b, TAPE_N, 99));
	assert_true(tape_field(b, TAPE_BYTES, &field));
	uname(&u);
	assert_non_null(memmem(field.at, field.n, u.nodename, strlen(u.nodename)));
	assert_non_null(memmem(field.at, field.n, "pysampled " PYSAMPLED_VERSION, 12));
	assert_true(tape_next(&t, &pos, &type, &b));
	assert_int_equal(8, b.n);
	assert_memory_equal("headbody", b.at, 8);
	assert_true(tape_next(&t, &pos, &type, &b));
	assert_int_equal(TAPE_STACK, type);
	assert_true(tape_next(&t, &pos, &type, &b));
	assert_int_equal(TAPE_SAMPLE, type);
	assert_false(tape_next(&t, &pos, &type, &b));
	tape_deinit(&t);
	free(s.priv);
	free(m.data);
}

/* Fields are found by their tag, whatever stands before them; what is missing has its default,
 * and what is cut ends the chunk. */
static void test_fields(void **state)
{
	struct tape_head h = { .n = 0 };
	struct bytes chunk, b;
	unsigned char more[4096] = { 0 };

	tape_put_bytes(&h, (enum tape_tag)60000, "later", 5);
	tape_put(&h, TAPE_PID, UINT64_C(0x123456789abcdef0));
	tape_put_bytes(&h, TAPE_NAME, "", 0);
	tape_put_bytes(&h, TAPE_TID, "four", 4);
	chunk = tape_head_bytes(&h);
	assert_true(tape_get(chunk, TAPE_PID, 1) == UINT64_C(0x123456789abcdef0));
	assert_int_equal(42, tape_get(chunk, TAPE_POS, 42));
	assert_int_equal(43, tape_get(chunk, TAPE_TID, 43)); /* no number */
	assert_true(tape_field(chunk, TAPE_NAME, &b));
	assert_int_equal(0, b.n);
	assert_false(tape_field(chunk, TAPE_POS, &b));
	for (size_t n = 0; n < 32; n++) {
		b = (struct bytes){ chunk.at, n };
		assert_int_equal(7, tape_get(b, TAPE_PID, 7));
	}
	tape_put_bytes(&h, TAPE_BYTES, more, sizeof(more));
	assert_true(h.full);
	assert_int_equal(chunk.n, h.n);
}

static void check_layout(const struct pylayout *l)
{
	struct target t = { .pid = 5, .state = TARGET_PYTHON, .runtime = 0x1000 }, ret = { 0 };
	struct tape_head h = { .n = 0 };

	t.version = (uint32_t)l->version << 16;
	t.py.layout = *l;
	tape_put_target(&h, &t, false, 9);
	assert_false(h.full);
	assert_int_equal(0, tape_get_target(tape_head_bytes(&h), &ret));
	assert_memory_equal(l, &ret.py.layout, sizeof(*l));
	assert_int_equal(TARGET_PYTHON, ret.state);
	/* Not what the table says, but what the tape does. */
	t.py.layout.tstate.native_tid.plus1 += 8;
	t.py.layout.frame.owner.plus1 = 0;
	t.py.layout.str.ascii_data++;
	h.n = 0;
	tape_put_target(&h, &t, false, 9);
	tape_get_target(tape_head_bytes(&h), &ret);
	assert_memory_equal(&t.py.layout, &ret.py.layout, sizeof(*l));
}

static void test_layouts(void **state)
{
	const struct pylayout *const *all;
	size_t n;

	all = pylayout_all(&n);
	assert_true(n > 3);
	for (size_t i = 0; i < n; i++)
		check_layout(all[i]);
}

static void test_target(void **state)
{
	struct target t = { .pid = 5,
			    .begun_ns = 6,
			    .plain = true,
			    .inner_tids = true,
			    .code_at = 7,
			    .runtime = 8 },
		      ret = { 0 };
	struct tape_head h = { .n = 0 };

	t.py.program = 11;
	t.py.no_jit = true;
	t.none_ns = 12;
	t.unborn = true;
	t.forker = 13;
	t.code_number = 14;
	t.state = TARGET_NOPYTHON;
	t.code = (struct pyfind_code){ .maj = 1, .ino = 2, .at = 3, .build_id_n = 2 };
	tape_put_target(&h, &t, true, 9);
	assert_int_equal(0, tape_get_target(tape_head_bytes(&h), &ret));
	assert_int_equal(5, ret.pid);
	assert_int_equal(6, ret.begun_ns);
	assert_int_equal(7, ret.code_at);
	assert_int_equal(0, ret.runtime); /* it has none: only what was has */
	assert_int_equal(11, ret.py.program);
	assert_int_equal(12, ret.none_ns);
	assert_true(ret.unborn && ret.plain && !ret.nopython);
	assert_int_equal(13, ret.forker);
	assert_int_equal(14, ret.code_number);
	assert_int_equal(TARGET_NOPYTHON, ret.state);
	/* They may be written just now. */
	assert_true(!ret.inner_tids && !ret.py.no_jit);
	/* Learnt, and then a read hung. */
	h.n = 0;
	t.state = TARGET_QUARANTINED;
	t.runtime = 0;
	tape_put_target(&h, &t, true, 9);
	assert_int_equal(0, tape_get_target(tape_head_bytes(&h), &ret));
	assert_true(ret.inner_tids && ret.py.no_jit);
	/* Python, but nobody knows where. */
	h.n = 0;
	t.state = TARGET_PYTHON;
	t.runtime = 0;
	tape_put_target(&h, &t, false, 9);
	assert_int_equal(-EBADMSG, tape_get_target(tape_head_bytes(&h), &ret));
	assert_int_equal(TARGET_REFUSED, ret.state);
}

/* The file that holds the interpreter goes with what the control thread says, and stays when a
 * reader says more. */
static void test_target_code(void **state)
{
	struct target t = { .pid = 5, .state = TARGET_PYTHON, .runtime = 0x1000 }, ret = { 0 };
	struct tape_head h = { .n = 0 };

	t.version = 0x030c0000;
	t.py.layout = *pylayout_find(0x030c);
	t.py.root = 1, t.py.code_versions = 2;
	t.code = (struct pyfind_code){ .maj = 1,
				       .min = 2,
				       .ino = 3,
				       .pgoff = 4,
				       .at = 5,
				       .build_id_at = 6,
				       .build_id_n = 3,
				       .build_id = { 7, 8, 9 } };
	tape_put_target(&h, &t, true, 9);
	assert_int_equal(0, tape_get_target(tape_head_bytes(&h), &ret));
	assert_memory_equal(&t.code, &ret.code, sizeof(t.code));
	assert_int_equal(1, ret.py.root);
	assert_int_equal(2, ret.py.code_versions);
	assert_memory_equal(&ret.py.walk.interp_head,
			    &(uint64_t){ 0x1000 + pyoff_get(t.py.layout.runtime.interp_head) },
			    8);
	h.n = 0;
	tape_put_target(&h, &t, false, 10);
	assert_int_equal(0, tape_get_target(tape_head_bytes(&h), &ret));
	assert_int_equal(3, ret.code.ino);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_every_prefix),
		cmocka_unit_test(test_killed),	       cmocka_unit_test(test_flips),
		cmocka_unit_test(test_broken_records), cmocka_unit_test(test_not_a_tape),
		cmocka_unit_test(test_too_large),      cmocka_unit_test(test_file),
		cmocka_unit_test(test_disk_full),      cmocka_unit_test(test_sink),
		cmocka_unit_test(test_fields),	       cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_target),	       cmocka_unit_test(test_target_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
