/* SPDX-License-Identifier: MIT
 *
 * remote_batch: what is announced comes in one call, what is missing costs nothing
 * but time, and a deep stack is read downwards in few calls.
 */
#include <errno.h>

#include "unit.h"
#include "base/base.h"
#include "remote/remote_batch.h"

enum { PAGE = 4096, SIZE = 4 << 20 };
static const raddr START = 0x7f0000000000;

/* Memory whose every byte follows from its address; a hole is unreadable. */
struct fake {
	struct rmem base;
	int reads, readvs;
	size_t pieces; /* of the last readv */
	raddr hole, hole_n;
	struct rmem_batch b;
	unsigned char *room; /* exactly BATCH_BYTES, so that sanitizers watch its ends */
};

static unsigned char byte_at(raddr at)
{
	return (unsigned char)((at * 0x9e3779b97f4a7c15u) >> 56);
}

static int fake_bytes(struct fake *f, raddr at, void *buf, size_t n)
{
	if (at < START || n > SIZE || at - START > SIZE - n)
		return -EFAULT;
	if (at < f->hole + f->hole_n && f->hole < at + n)
		return -EFAULT;
	for (size_t i = 0; i < n; i++)
		((unsigned char *)buf)[i] = byte_at(at + i);
	return 0;
}

static int fake_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct fake *f = container_of(m, struct fake, base);

	f->reads++;
	return fake_bytes(f, at, buf, n);
}

static size_t fake_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct fake *f = container_of(m, struct fake, base);
	size_t i;

	f->readvs++;
	f->pieces = n;
	for (i = 0; i < n; i++)
		if (fake_bytes(f, v[i].at, v[i].buf, v[i].n) < 0)
			break;
	return i;
}

static const struct rmem_ops fake_ops = { "fake", fake_read, fake_readv };

static int setup(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->base.ops = &fake_ops;
	f->room = malloc(BATCH_BYTES);
	rmem_batch_init(&f->b, &f->base, f->room);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fake *f = *state;

	free(f->room);
	free(f);
	return 0;
}

/* Read @n bytes through the batch; they must be right. */
static void good(struct fake *f, raddr at, size_t n)
{
	unsigned char buf[8192];

	memset(buf, 0x5a, n);
	assert_int_equal(rmem_read(&f->b.base, at, buf, n), 0);
	for (size_t i = 0; i < n; i++)
		if (buf[i] != byte_at(at + i))
			fail_msg("wrong byte %zu of %zu at +0x%llx", i, n,
				 (unsigned long long)(at - START));
}

#define CALLS(f, n_reads, n_readvs)                      \
	do {                                             \
		assert_int_equal((f)->reads, n_reads);   \
		assert_int_equal((f)->readvs, n_readvs); \
	} while (0)

static void announced_comes_in_one_call(void **state)
{
	struct fake *f = *state;

	rmem_batch_want(&f->b, START + 0x100, 64);
	rmem_batch_want(&f->b, START + 0x9001, 333);
	rmem_batch_want(&f->b, START + 0x20000, 8);
	assert_false(rmem_batch_holds(&f->b, START + 0x100, 1));
	rmem_batch_fetch(&f->b);
	CALLS(f, 0, 1);
	assert_int_equal(f->pieces, 3);
	assert_true(rmem_batch_holds(&f->b, START + 0x9001, 333));
	assert_false(rmem_batch_holds(&f->b, START + 0x9001, 334));
	assert_false(rmem_batch_holds(&f->b, START + 0x9000, 8));
	assert_false(rmem_batch_holds(&f->b, START + 0x9001, SIZE_MAX));
	good(f, START + 0x100, 64);
	good(f, START + 0x13f, 1);
	good(f, START + 0x9100, 50);
	good(f, START + 0x20000, 8);
	CALLS(f, 0, 1);
	good(f, START + 0x13f, 2); /* half of it is held */
	CALLS(f, 1, 1);
}

static void nothing_announced_costs_nothing(void **state)
{
	struct fake *f = *state;

	rmem_batch_fetch(&f->b);
	rmem_batch_want(&f->b, START, 0);
	rmem_batch_want(&f->b, START, BATCH_BYTES + 1);
	rmem_batch_want(&f->b, START, SIZE_MAX);
	rmem_batch_fetch(&f->b);
	CALLS(f, 0, 0);
	rmem_batch_want(&f->b, START, 512);
	rmem_batch_fetch(&f->b);
	rmem_batch_want(&f->b, START + 8, 64); /* held already */
	rmem_batch_fetch(&f->b);
	CALLS(f, 0, 1);
}

/* What came with the sample is not read again, and stays beside what is. */
static void known_bytes_are_not_read(void **state)
{
	struct fake *f = *state;
	unsigned char known[1000];

	fake_bytes(f, START + 0x2000, known, sizeof(known));
	rmem_batch_put(&f->b, START + 0x2000, (struct bytes){ 0 });
	rmem_batch_put(&f->b, START + 0x2000, (struct bytes){ known, sizeof(known) });
	rmem_batch_want(&f->b, START + 0x2100, 192);
	rmem_batch_fetch(&f->b);
	good(f, START + 0x2000, sizeof(known));
	CALLS(f, 0, 0);
	rmem_batch_want(&f->b, START + 0x2300, 512); /* reaches beyond it */
	rmem_batch_fetch(&f->b);
	good(f, START + 0x2000, sizeof(known));
	good(f, START + 0x2300, 512);
	CALLS(f, 0, 1);
	rmem_batch_put(&f->b, START, (struct bytes){ known, BATCH_BYTES });
	assert_false(rmem_batch_holds(&f->b, START, 1));
}

/* What cannot be read is left out, the rest comes in another call. */
static void hole_is_left_out(void **state)
{
	struct fake *f = *state;

	f->hole = START + 0x3000;
	f->hole_n = PAGE;
	rmem_batch_want(&f->b, START + 0x1000, 64);
	rmem_batch_want(&f->b, START + 0x2ff0, 64); /* reaches into the hole */
	rmem_batch_want(&f->b, START + 0x5000, 64);
	rmem_batch_fetch(&f->b);
	assert_true(rmem_batch_holds(&f->b, START + 0x1000, 64));
	assert_false(rmem_batch_holds(&f->b, START + 0x2ff0, 1));
	assert_true(rmem_batch_holds(&f->b, START + 0x5000, 64));
	CALLS(f, 0, 2);
	good(f, START + 0x1000, 64);
	good(f, START + 0x5000, 64);
	good(f, START + 0x2ff0, 16);
	assert_int_equal(rmem_read(&f->b.base, START + 0x3000, &(uint64_t){ 0 }, 8), -EFAULT);
}

static void ranges_are_limited(void **state)
{
	struct fake *f = *state;

	for (uint32_t i = 0; i < BATCH_RANGES + 5; i++)
		rmem_batch_want(&f->b, START + i * 0x100, 16);
	rmem_batch_fetch(&f->b);
	CALLS(f, 0, BATCH_RANGES / RMEM_MAX_VEC);
	assert_true(rmem_batch_holds(&f->b, START + (BATCH_RANGES - 1) * 0x100, 16));
	assert_false(rmem_batch_holds(&f->b, START + BATCH_RANGES * 0x100, 16));
	rmem_batch_want(&f->b, START + 0x100000, 16);
	rmem_batch_fetch(&f->b);
	CALLS(f, 0, BATCH_RANGES / RMEM_MAX_VEC);
	good(f, START + BATCH_RANGES * 0x100, 16);
	rmem_batch_reset(&f->b);
	assert_false(rmem_batch_holds(&f->b, START, 16));
	rmem_batch_want(&f->b, START + 0x100000, 16);
	rmem_batch_fetch(&f->b);
	assert_true(rmem_batch_holds(&f->b, START + 0x100000, 16));
}

static void bytes_are_limited(void **state)
{
	struct fake *f = *state;

	rmem_batch_want(&f->b, START, BATCH_BYTES - 13);
	rmem_batch_want(&f->b, START + 0x200000, 9); /* there is room for 8 */
	rmem_batch_want(&f->b, START + 0x300000, 8);
	rmem_batch_fetch(&f->b);
	assert_int_equal(f->pieces, 2);
	good(f, START + BATCH_BYTES - 13 - 8192, 8192);
	good(f, START + 0x300000, 8);
	CALLS(f, 0, 1);
	rmem_batch_reset(&f->b);
	rmem_batch_want(&f->b, START + 1, BATCH_BYTES); /* all of it, odd address */
	rmem_batch_fetch(&f->b);
	good(f, START + BATCH_BYTES - 8191, 8192);
	CALLS(f, 0, 2);
}

/* Frames of @size bytes downwards from @top, each @stride below the last. */
static void walk_down(struct fake *f, raddr top, uint32_t n, uint32_t stride, size_t size)
{
	for (uint32_t i = 0; i < n; i++)
		good(f, top - (raddr)i * stride, size);
}

/* 1000 frames of 120 bytes are 30 pages: 8 fills of 4, and 2 reads until the
 * direction is known. Wherever the first one lies in its page. */
static void deep_stack_takes_few_calls(void **state)
{
	struct fake *f = *state;

	for (uint32_t at = 0; at < PAGE; at += 8) {
		rmem_batch_reset(&f->b);
		f->reads = f->readvs = 0;
		walk_down(f, START + 0x100000 + at, 1000, 120, 80);
		assert_in_range(f->reads + f->readvs, 1, 11);
		/* All is held now but for the first two. */
		f->reads = f->readvs = 0;
		walk_down(f, START + 0x100000 + at, 1000, 120, 80);
		assert_in_range(f->reads + f->readvs, 0, 2);
	}
}

/* A fill lies in room of its own: what was held before is not touched. */
static void fill_spares_what_is_held(void **state)
{
	struct fake *f = *state;

	for (uint32_t at = PAGE - 256; at <= PAGE; at += 8) {
		rmem_batch_reset(&f->b);
		rmem_batch_want(&f->b, START + 0x9000, 4096);
		rmem_batch_fetch(&f->b);
		walk_down(f, START + 0x100000 + at, 3, 120, 128);
		good(f, START + 0x9000, 4096);
	}
}

/* More than the room holds: old pieces go, the bytes stay right. */
static void fill_starts_over_when_full(void **state)
{
	struct fake *f = *state;

	walk_down(f, START + 3 * BATCH_BYTES, 17000, 120, 80);
	assert_in_range(f->reads + f->readvs, 100, 140);
	for (uint32_t i = 0; i < BATCH_RANGES; i++)
		rmem_batch_want(&f->b, START + i * 0x100, 16);
	rmem_batch_fetch(&f->b);
	walk_down(f, START + 0x300000, 1000, 120, 80);
}

static void fill_stops_at_a_hole(void **state)
{
	struct fake *f = *state;

	f->hole = START + 0x100000 - PAGE;
	f->hole_n = PAGE;
	walk_down(f, START + 0x100000 + PAGE + 640, 40, 120, 80);
	assert_in_range(f->reads + f->readvs, 1, 5);
	assert_int_equal(rmem_read(&f->b.base, f->hole + 8, &(uint64_t){ 0 }, 8), -EFAULT);
	good(f, START + 0x100000, 8);
}

static void jumps_are_not_filled(void **state)
{
	struct fake *f = *state;

	good(f, START + 0x100000, 80);
	good(f, START + 0x200000, 80); /* upwards */
	good(f, START + 0x1f0000, 80); /* 64 KiB below */
	good(f, START + 0x100000, 80);
	CALLS(f, 4, 0);
	good(f, START + 0x0ffff8, 3000); /* near, but no frame is that long */
	CALLS(f, 5, 0);
	/* At both ends of the address space nothing wraps. */
	assert_int_equal(rmem_read(&f->b.base, 600, &(uint64_t){ 0 }, 8), -EFAULT);
	assert_int_equal(rmem_read(&f->b.base, 500, &(uint64_t){ 0 }, 8), -EFAULT);
	assert_int_equal(rmem_read(&f->b.base, UINT64_MAX, &(uint64_t){ 0 }, 8), -EFAULT);
	assert_int_equal(rmem_read(&f->b.base, UINT64_MAX - 1, &(uint64_t){ 0 }, 8), -EFAULT);
}

/* A read between want() and fetch() does not mix up the two. */
static void fill_between_want_and_fetch(void **state)
{
	struct fake *f = *state;

	good(f, START + 0x100100, 80);
	for (uint32_t i = 0; i < BATCH_RANGES; i++)
		rmem_batch_want(&f->b, START + 0x4000 + i * 0x100, 16);
	good(f, START + 0x100000, 80);
	rmem_batch_fetch(&f->b);
	for (uint32_t i = 0; i < BATCH_RANGES; i++)
		good(f, START + 0x4000 + i * 0x100, 16);
	good(f, START + 0x0ff000, 80);
}

static void readv_goes_below(void **state)
{
	struct fake *f = *state;
	unsigned char a[8], b[8];
	const struct rmem_vec v[] = { { START + 1, a, 8 }, { START + 2, b, 8 }, { 0, b, 8 } };

	assert_int_equal(rmem_readv(&f->b.base, v, 3), 2);
	CALLS(f, 0, 1);
	assert_int_equal(a[1], byte_at(START + 2));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(announced_comes_in_one_call),
		TEST(nothing_announced_costs_nothing),
		TEST(known_bytes_are_not_read),
		TEST(hole_is_left_out),
		TEST(ranges_are_limited),
		TEST(bytes_are_limited),
		TEST(deep_stack_takes_few_calls),
		TEST(fill_spares_what_is_held),
		TEST(fill_starts_over_when_full),
		TEST(fill_stops_at_a_hole),
		TEST(jumps_are_not_filled),
		TEST(fill_between_want_and_fetch),
		TEST(readv_goes_below),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
