/* SPDX-License-Identifier: MIT
 *
 * Packed records: what goes in comes out, record by record, and damage is noticed.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "../../output/perf_zstd.h"

enum { RECORDS = 300, MAX_RECORD = 1 << 16 };

/* Records of many sizes, of bytes that can't be packed; the last is as long as one can be. */
static void make_records(struct buf *b)
{
	uint64_t x = 88172645463325252u;

	for (unsigned i = 0; i < RECORDS; i++) {
		unsigned n = i == RECORDS - 1 ? 65528 : 8 + 8 * (i * 37 % 900);
		size_t start = b->n;

		buf_u32(b, 9);
		buf_u16(b, 0);
		buf_u16(b, n);
		while (b->n - start < n) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			buf_u64(b, x);
		}
	}
}

/* Feed the COMPRESSED records of @packed; the bytes that come out are those of @want, as far
 * as they come. How many, or -EBADMSG. */
static ssize_t unpack(const struct buf *packed, const struct buf *want)
{
	struct perf_unpacker *u = perf_unpacker_create();
	static uint64_t room[MAX_RECORD / 8];
	struct perf_event_header h;
	size_t at = 0, n;
	ssize_t got = 0;
	int ret = 0;

	for (; !ret && at < packed->n; at += n) {
		memcpy(&h, packed->at + at, sizeof(h));
		n = h.size;
		assert_int_equal(h.type, PERF_RECORD_COMPRESSED);
		assert_in_range(n, sizeof(h) + 1, packed->n - at);
		memcpy(room, packed->at + at, n);
		perf_unpacker_feed(u, (const void *)room);
		while ((ret = perf_unpacker_next(u, room)) == 1) {
			memcpy(&h, room, sizeof(h));
			if (want && got + h.size <= (ssize_t)want->n)
				assert_memory_equal(room, want->at + got, h.size);
			got += h.size;
		}
	}
	perf_unpacker_destroy(u);
	return ret ? ret : got;
}

static void records_come_back(void **state)
{
	struct perf_packer *p = perf_packer_create(PERF_ZSTD_DEFAULT);
	struct buf records = {}, all = {}, packed = {};

	assert_int_equal(perf_packer_ratio(p), 0);
	for (int i = 0; i < 3; i++) {
		records.n = 0;
		make_records(&records);
		buf_put(&all, records.at, records.n);
		assert_int_equal(perf_pack(p, &records, &packed), 0);
		assert_int_equal(unpack(&packed, &all), all.n);
	}
	/* the same again is looked up */
	assert_in_range(packed.n, records.n, 2 * records.n);
	assert_int_equal(perf_packer_ratio(p), 3);
	perf_packer_destroy(p);
	buf_deinit(&records);
	buf_deinit(&all);
	buf_deinit(&packed);
}

/* Each piece of a constant gives back as much as a piece may. */
static void a_piece_is_no_bomb(void **state)
{
	struct perf_packer *p = perf_packer_create(PERF_ZSTD_BEST);
	struct buf records = {}, packed = {};

	for (int i = 0; i < 65536; i++) {
		buf_u32(&records, 9);
		buf_u16(&records, 0);
		buf_u16(&records, 16);
		buf_u64(&records, 0);
	}
	assert_int_equal(perf_pack(p, &records, &packed), 0);
	assert_int_equal(unpack(&packed, &records), records.n);
	assert_true(packed.n > records.n / PERF_ZSTD_PIECE * 9);
	perf_packer_destroy(p);
	buf_deinit(&records);
	buf_deinit(&packed);
}

/* Anything may come out of damaged ones, but no crash, and no record that is none. */
static void damage_is_noticed(void **state)
{
	struct perf_packer *p = perf_packer_create(1);
	struct buf records = {}, packed = {};
	unsigned bad = 0;

	make_records(&records);
	records.n = 3000;
	assert_int_equal(perf_pack(p, &records, &packed), 0);
	for (size_t i = sizeof(struct perf_event_header); i < packed.n; i++) {
		packed.at[i] ^= 0x55;
		bad += unpack(&packed, NULL) == -EBADMSG;
		packed.at[i] ^= 0x55;
	}
	assert_true(bad > 5);
	perf_packer_destroy(p);
	buf_deinit(&records);
	buf_deinit(&packed);
}

/* What was packed may hold no packed records in turn, and none without a size. */
static void records_are_checked(void **state)
{
	static const struct perf_event_header bad[] = {
		{ .type = PERF_RECORD_COMPRESSED, .size = 8 }, { .type = 9, .size = 7 }
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct perf_packer *p = perf_packer_create(1);
		struct buf records = {}, packed = {};

		buf_put(&records, &bad[i], sizeof(bad[i]));
		assert_int_equal(perf_pack(p, &records, &packed), 0);
		assert_int_equal(unpack(&packed, NULL), -EBADMSG);
		perf_packer_destroy(p);
		buf_deinit(&records);
		buf_deinit(&packed);
	}
}

static void files_come_back(void **state)
{
	FILE *in = tmpfile(), *out = tmpfile();
	struct buf file = {};
	struct bytes ret = { 0 };
	unsigned char *packed;
	uint64_t n;

	make_records(&file);
	make_records(&file);
	assert_int_equal(fwrite(file.at, 1, file.n, in), file.n);
	rewind(in);
	assert_int_equal(perf_pack_file(fileno(in), fileno(out), 100, 3, &n), 0);
	packed = malloc(n);
	assert_int_equal(pread(fileno(out), packed, n, 100), n);
	assert_true(perf_unpack_bytes((struct bytes){ packed, n }, file.n, &ret));
	assert_int_equal(ret.n, file.n);
	assert_memory_equal(ret.at, file.at, file.n);
	free((void *)(uintptr_t)ret.at);
	/* more than there may be; cut; not packed at all */
	assert_false(perf_unpack_bytes((struct bytes){ packed, n }, file.n - 1, &ret));
	assert_false(perf_unpack_bytes((struct bytes){ packed, n - 1 }, file.n, &ret));
	assert_false(perf_unpack_bytes((struct bytes){ file.at, file.n }, file.n, &ret));
	free(packed);
	buf_deinit(&file);
	fclose(in);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_back), cmocka_unit_test(a_piece_is_no_bomb),
		cmocka_unit_test(damage_is_noticed), cmocka_unit_test(records_are_checked),
		cmocka_unit_test(files_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
