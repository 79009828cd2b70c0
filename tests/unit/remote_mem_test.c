/* SPDX-License-Identifier: MIT
 *
 * remote_mem: live on ourselves, images and their holes, the decorators, strings.
 */
#include <errno.h>
#include <sys/mman.h>

#include "unit.h"
#include "base/base.h"
#include "remote/remote_pages.h"
#include "rmem_image.h"

enum { PAGE = 4096 };

static raddr addr(const void *p)
{
	return (raddr)(uintptr_t)p;
}

/* Three pages, the middle one not mapped. */
static unsigned char *pages_with_hole(void)
{
	unsigned char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 'a', PAGE);
	memset(p + 2 * PAGE, 'c', PAGE);
	munmap(p + PAGE, PAGE);
	return p;
}

static void pages_free(unsigned char *p)
{
	munmap(p, PAGE);
	munmap(p + 2 * PAGE, PAGE);
}

static void live_reads_us(void **state)
{
	static const char text[] = "here we are";
	struct rmem_live m;
	char buf[sizeof(text)];
	uint64_t v = 0x1122334455667788, got = 0;

	rmem_live_init(&m, getpid());
	assert_int_equal(rmem_read(&m.base, addr(text), buf, sizeof(buf)), 0);
	assert_string_equal(buf, text);
	assert_int_equal(rmem_read_u64(&m.base, addr(&v), &got), 0);
	assert_true(got == v);
	assert_int_equal(m.calls, 2);
}

static void live_read_is_all_or_nothing(void **state)
{
	unsigned char *p = pages_with_hole(), buf[64];
	struct rmem_live m;

	rmem_live_init(&m, getpid());
	assert_int_equal(rmem_read(&m.base, addr(p + PAGE - 64), buf, 64), 0);
	assert_int_equal(rmem_read(&m.base, addr(p + PAGE - 32), buf, 64), -EFAULT);
	assert_int_equal(rmem_read(&m.base, addr(p + PAGE), buf, 8), -EFAULT);
	assert_int_equal(rmem_read(&m.base, 0, buf, 8), -EFAULT);
	assert_int_equal(rmem_read(&m.base, UINT64_MAX - 3, buf, 8), -EFAULT);
	pages_free(p);
	rmem_live_init(&m, 0x7ffffffe); /* above every pid_max */
	assert_int_equal(rmem_read(&m.base, addr(p), buf, 8), -ESRCH);
}

static void live_readv_ends_at_a_hole(void **state)
{
	unsigned char *p = pages_with_hole(), a[16], b[64], c[16] = "untouched";
	struct rmem_vec v[] = {
		{ addr(p), a, sizeof(a) },
		{ addr(p + PAGE - 32), b, sizeof(b) }, /* half of it is there */
		{ addr(p + 2 * PAGE), c, sizeof(c) },
	};
	struct rmem_live m;

	rmem_live_init(&m, getpid());
	assert_int_equal(rmem_readv(&m.base, v, 3), 1);
	assert_int_equal(m.calls, 1);
	assert_memory_equal(a, "aaaaaaaaaaaaaaaa", 16);
	assert_memory_equal(c, "untouched", 10);
	v[1].n = 32;
	assert_int_equal(rmem_readv(&m.base, v, 3), 3);
	assert_memory_equal(b, "aaaaaaaaaaaaaaaa", 16);
	assert_memory_equal(c, "cccccccccccccccc", 16);
	v[0].at = 8;
	assert_int_equal(rmem_readv(&m.base, v, 3), 0);
	assert_int_equal(rmem_readv(&m.base, v, 0), 0);
	pages_free(p);
}

static void live_readv_takes_64(void **state)
{
	struct rmem_vec v[RMEM_MAX_VEC + 8];
	unsigned char from[ARRAY_SIZE(v)], to[ARRAY_SIZE(v)] = { 0 };
	struct rmem_live m;

	rmem_live_init(&m, getpid());
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		from[i] = (unsigned char)(i + 1);
		v[i] = (struct rmem_vec){ addr(&from[i]), &to[i], 1 };
	}
	assert_int_equal(rmem_readv(&m.base, v, ARRAY_SIZE(v)), RMEM_MAX_VEC);
	assert_memory_equal(to, from, RMEM_MAX_VEC);
	assert_int_equal(to[RMEM_MAX_VEC], 0);
}

/*
 * Images
 */

static const char low[] = "0123456789abcdef", high[] = "top of it all";
static const struct rmem_chunk image_chunks[] = {
	{ .at = 0x1000, .n = 16, .bytes = low },
	{ .at = 0x1004, .n = 4, .bytes = "WXYZ" },	 /* wins over the one before */
	{ .at = UINT64_MAX - 7, .n = 8, .bytes = high }, /* up to the last byte */
	{ .at = 0x100c, .n = 2 },			 /* a hole */
	{ .at = 0x2000, .n = 0, .bytes = low },
};

struct image_row {
	raddr at;
	size_t n;
	const char *bytes; /* NULL: -EFAULT */
};

static const struct image_row image_rows[] = {
	{ 0x1000, 4, "0123" },
	{ 0x1004, 4, "WXYZ" },
	{ 0x1006, 2, "YZ" },
	{ 0x1003, 2, "34" }, /* not whole in the second: the first has it */
	{ 0x1006, 4, "6789" },
	{ 0x100b, 1, "b" },
	{ 0x100e, 2, "ef" },
	{ 0x1000, 12, "0123456789ab" },
	{ 0x100c, 1, NULL }, /* in the hole */
	{ 0x100c, 2, NULL },
	{ 0x100b, 2, "bc" }, /* not whole in it: the first has these, too */
	{ 0x100d, 2, "de" },
	{ 0x1000, 16, "0123456789abcdef" },
	{ 0x0fff, 2, NULL },
	{ 0x100f, 2, NULL },
	{ 0x1010, 1, NULL },
	{ 0x2000, 1, NULL },
	{ 0, 8, NULL },
	{ UINT64_MAX - 7, 8, "top of i" },
	{ UINT64_MAX, 1, "i" },
	{ UINT64_MAX, 2, NULL }, /* at + n wraps */
	{ UINT64_MAX - 3, 8, NULL },
	{ UINT64_MAX - 8, 4, NULL },
	{ 0x1000, SIZE_MAX, NULL },
	{ 0x1008, SIZE_MAX - 7, NULL },
	{ UINT64_MAX - 7, SIZE_MAX, NULL },
};

static void image_bounds(void **state)
{
	struct rmem_image m;

	rmem_image_init(&m, image_chunks, ARRAY_SIZE(image_chunks));
	for (size_t i = 0; i < ARRAY_SIZE(image_rows); i++) {
		const struct image_row *row = &image_rows[i];
		char buf[32] = "";
		int r = rmem_read(&m.base, row->at, buf, row->n);

		if (r != (row->bytes ? 0 : -EFAULT))
			fail_msg("row %zu: %d", i, r);
		if (row->bytes)
			assert_memory_equal(buf, row->bytes, row->n);
	}
}

static void image_readv_loops(void **state)
{
	char a[4], b[4], c[4] = "old";
	const struct rmem_vec v[] = {
		{ 0x1000, a, 4 },
		{ 0x1004, b, 4 },
		{ 0x100c, c, 2 },
		{ 0x1000, c, 4 },
	};
	struct rmem_image m;

	rmem_image_init(&m, image_chunks, ARRAY_SIZE(image_chunks));
	assert_int_equal(rmem_readv(&m.base, v, ARRAY_SIZE(v)), 2);
	assert_memory_equal(a, "0123", 4);
	assert_memory_equal(b, "WXYZ", 4);
	assert_string_equal(c, "old");
}

/* Counts calls; each byte is that of its page's number, and page @hole can't be read. */
struct counted {
	struct rmem base;
	int calls;
	raddr hole;
};

static size_t counted_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct counted *c = container_of(m, struct counted, base);

	c->calls++;
	for (size_t i = 0; i < n; i++) {
		if (v[i].at / PAGE == c->hole)
			return i;
		memset(v[i].buf, (int)(v[i].at / PAGE), v[i].n);
	}
	return n;
}

static int counted_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	return counted_readv(m, &(struct rmem_vec){ at, buf, n }, 1) ? 0 : -EPERM;
}

static const struct rmem_ops counted_ops = { .read = counted_read, .readv = counted_readv };

/* What is missing comes in one call, also of pieces that lie in two pages. */
static void pages_come_together(void **state)
{
	struct counted c = { .base = { &counted_ops } };
	unsigned char room[4][RMEM_PAGE], a[4], b[4], d[4];
	const struct rmem_vec v[] = { { 2 * PAGE - 2, a, 4 },
				      { 3 * PAGE, b, 4 },
				      { 2 * PAGE + 8, d, 4 } };
	struct rmem_pages p;

	rmem_pages_init(&p, &c.base, room, ARRAY_SIZE(room));
	assert_int_equal(rmem_readv(&p.base, v, ARRAY_SIZE(v)), 3);
	assert_int_equal(c.calls, 1);
	assert_memory_equal(a, "\1\1\2\2", 4);
	assert_memory_equal(b, "\3\3\3\3", 4);
	assert_memory_equal(d, "\2\2\2\2", 4);
	assert_int_equal(rmem_readv(&p.base, v, ARRAY_SIZE(v)), 3);
	assert_int_equal(c.calls, 1);
	rmem_pages_forget(&p);
	assert_int_equal(rmem_readv(&p.base, v, 1), 1);
	assert_int_equal(c.calls, 2);
}

/* What stands before a hole is there, and the hole says why it is none. */
static void pages_end_at_a_hole(void **state)
{
	struct counted c = { .base = { &counted_ops }, .hole = 5 };
	unsigned char room[2][RMEM_PAGE], a[4], b[4];
	const struct rmem_vec v[] = { { 4 * PAGE, a, 4 },
				      { 6 * PAGE - 2, b, 4 },
				      { 7 * PAGE, b, 4 } };
	struct rmem_pages p;

	rmem_pages_init(&p, &c.base, room, ARRAY_SIZE(room));
	assert_int_equal(rmem_readv(&p.base, v, ARRAY_SIZE(v)), 1);
	assert_memory_equal(a, "\4\4\4\4", 4);
	assert_int_equal(rmem_read(&p.base, 5 * PAGE, b, 4), -EPERM);
}

/* More pages than there is room for. */
static void pages_of_large_pieces(void **state)
{
	struct counted c = { .base = { &counted_ops } };
	unsigned char room[3][RMEM_PAGE], *all = malloc(20 * PAGE);
	struct rmem_pages p;

	rmem_pages_init(&p, &c.base, room, ARRAY_SIZE(room));
	assert_int_equal(rmem_read(&p.base, PAGE + 1, all, 20 * PAGE - 1), 0);
	for (size_t i = 0; i < 20 * PAGE - 1; i++)
		assert_int_equal(all[i], (i + 1) / PAGE + 1);
	free(all);
}

/* A page that is asked for costs more than one that is kept; what would cost too much is not
 * read, nor anything that follows. */
static void pages_are_limited(void **state)
{
	struct counted c = { .base = { &counted_ops } };
	unsigned char room[4][RMEM_PAGE], a[4], b[4];
	const struct rmem_vec v[] = { { 2 * PAGE, a, 4 }, { 3 * PAGE, b, 4 } };
	struct rmem_pages p;

	rmem_pages_init(&p, &c.base, room, ARRAY_SIZE(room));
	rmem_pages_limit(&p, 3 * RMEM_PAGE_COST + 4);
	assert_int_equal(rmem_readv(&p.base, v, 2), 2);
	assert_int_equal(rmem_read(&p.base, 2 * PAGE, a, 4), 0);
	assert_int_equal(p.left, RMEM_PAGE_COST + 1);
	assert_int_equal(rmem_read(&p.base, 4 * PAGE, a, 4), 0);
	assert_int_equal(p.left, 1);
	assert_int_equal(rmem_read(&p.base, 5 * PAGE, a, 4), -E2BIG);
	assert_int_equal(rmem_read(&p.base, 2 * PAGE, a, 4), -E2BIG);
	assert_int_equal(rmem_readv(&p.base, v, 2), 0);
	assert_int_equal(c.calls, 2);
	rmem_pages_limit(&p, RMEM_PAGE_COST);
	rmem_pages_forget(&p);
	assert_int_equal(rmem_readv(&p.base, v, 2), 0);
	assert_int_equal(c.calls, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live_reads_us),
		cmocka_unit_test(live_read_is_all_or_nothing),
		cmocka_unit_test(live_readv_ends_at_a_hole),
		cmocka_unit_test(live_readv_takes_64),
		cmocka_unit_test(image_bounds),
		cmocka_unit_test(image_readv_loops),
		cmocka_unit_test(pages_come_together),
		cmocka_unit_test(pages_end_at_a_hole),
		cmocka_unit_test(pages_of_large_pieces),
		cmocka_unit_test(pages_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
