/* SPDX-License-Identifier: MIT
 *
 * codemap_test - what JITs write down, in both formats: whole, in pieces and damaged.
 */

#include <errno.h>
#include <sys/mman.h>

#include "unit.h"
#include "elf/codemap.h"
#include "jitobject.h"
#include "base/quota.h"
#include "jitdump.h"

static size_t parse_perf(struct codemap *m, const char *text)
{
	size_t n = strlen(text), used;
	unsigned char *copy = malloc(n + 1); /* of that size, for ASan */

	copy = realloc(copy, MAX(n, 1));
	memcpy(copy, text, n);
	used = codemap_parse_perf(m, (struct bytes){ copy, n }, 0);
	codemap_sort(m);
	free(copy);
	return used;
}

static void check_name(const struct codemap *m, uint64_t ip, const char *want)
{
	const char *got = codemap_find(m, ip);

	if (want)
		assert_non_null(got);
	else
		assert_null(got);
	if (want)
		assert_string_equal(want, got);
}

static void test_perf_lines(void **state)
{
	static const char text[] =
		"1000 10 first\n2000 20 with spaces;and more\n"
		"0x3000 0X10 prefixed\n"
		"\n4000\n4000 10\n4000 10 \nnonsense 10 x\n4000 zz x\n"
		"11112222333344445 1 too long\n4000 0 no size\n"
		"ffffffffffffffff 10 wraps\nfffffffffffff000 10 high\n"
		"5000 10000001 too large\n6000 10 py::f:/a b.py\n7000 10 cut";
	struct codemap m = { 0 };

	assert_int_equal(strlen(text) - strlen("7000 10 cut"), parse_perf(&m, text));
	check_name(&m, 0xfff, NULL);
	check_name(&m, 0x1000, "first");
	check_name(&m, 0x100f, "first");
	check_name(&m, 0x1010, NULL);
	check_name(&m, 0x201f, "with spaces;and more");
	check_name(&m, 0x3000, "prefixed");
	check_name(&m, 0x4000, NULL);
	check_name(&m, 0x5000, NULL);
	check_name(&m, 0x6001, "py::f:/a b.py");
	check_name(&m, 0x7000, NULL);
	check_name(&m, 0xfffffffffffff008, "high");
	check_name(&m, UINT64_MAX, NULL);
	parse_perf(&m, "7000 10 whole\n");
	check_name(&m, 0x7000, "whole");
	codemap_deinit(&m);
}

/* A JIT uses memory again: what it wrote last counts, also where it begins earlier. */
static void test_used_again(void **state)
{
	struct codemap m = { 0 };

	parse_perf(&m, "1000 100 old\n1080 10 inner\n1000 20 new\n");
	check_name(&m, 0x1000, "new");
	check_name(&m, 0x1088, "inner");
	check_name(&m, 0x1020, NULL); /* what the old one left is nobody's */
	parse_perf(&m, "f00 1000 all\n");
	check_name(&m, 0x1000, "all");
	check_name(&m, 0x1088, "all");
	parse_perf(&m, "1084 4 last\n");
	check_name(&m, 0x1083, "all");
	check_name(&m, 0x1084, "last");
	codemap_deinit(&m);
}

/* Over many small functions, of which there are gaps between, lies a large one. */
static void test_many_used_again(void **state)
{
	enum { FUNCTIONS = 20 };
	struct codemap m = { 0 };
	char line[64];

	for (int i = 0; i < FUNCTIONS; i++) {
		snprintf(line, sizeof(line), "%x 30 a%d\n", 0x1000 + 0x40 * i, i);
		parse_perf(&m, line);
	}
	check_name(&m, 0x14cf, "a19");
	parse_perf(&m, "1000 500 all\n");
	check_name(&m, 0x14cf, "all");
	check_name(&m, 0x14f8, "all");
	check_name(&m, 0x1038, "all");
	check_name(&m, 0x1500, NULL);
	codemap_deinit(&m);
}

enum { DRAWN = 64, PLACES = 48 };

struct drawn_row {
	uint64_t start, size;
};

/* The last one of @n rows that covers @at; -1: none. */
static int last_over(const struct drawn_row *r, int n, uint64_t at)
{
	while (n > 0 && at - r[n - 1].start >= r[n - 1].size)
		n--;
	return n - 1;
}

static void check_drawn(const struct codemap *m, const struct drawn_row *r, int n)
{
	char name[16];

	for (uint64_t at = 0; at < PLACES; at++) {
		int i = last_over(r, n, at);

		snprintf(name, sizeof(name), "r%d", i);
		check_name(m, at, i >= 0 && last_over(r, n, r[i].start) == i ? name : NULL);
	}
}

/* Rows at random, found after each few of them, and joined with all before: each address has the
 * name of the last row there, unless that one's beginning has another. */
static void test_drawn_rows(void **state)
{
	unsigned seed = 7;

	for (int round = 0; round < 3000; round++) {
		struct codemap m = { 0 }, young = { 0 };
		struct drawn_row r[DRAWN];
		char name[16];

		for (int n = 0; n < DRAWN; n++) {
			r[n].start = (uint64_t)rand_r(&seed) % PLACES;
			r[n].size = 1 + (uint64_t)rand_r(&seed) % (n % 3 ? 6 : PLACES);
			snprintf(name, sizeof(name), "r%d", n);
			codemap_add(&young, r[n].start, r[n].size, name, strlen(name));
			if (rand_r(&seed) % 8 == 0)
				codemap_sort(&young);
			if (rand_r(&seed) % 12)
				continue;
			codemap_sort(&young);
			codemap_join(&m, &young);
			check_drawn(&m, r, n + 1);
		}
		codemap_deinit(&m);
		codemap_deinit(&young);
	}
}

/* Functions one behind the other, more than are laid over the others at a time, and then as many in
 * their place. */
static void test_many_rows(void **state)
{
	enum { N = 200000 };
	struct codemap m = { 0 }, young = { 0 };
	char name[16];

	for (int i = 0; i < 2 * N; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		if (i < N)
			codemap_add(&m, (uint64_t)i * 32, 32, name, strlen(name));
		else
			codemap_add(&young, (uint64_t)(i - N) * 32 + 16, 32, name, strlen(name));
	}
	codemap_sort(&m);
	for (int i = 0; i < N; i += 1000) {
		snprintf(name, sizeof(name), "f%d", i);
		check_name(&m, (uint64_t)i * 32 + 31, name);
	}
	codemap_sort(&young);
	codemap_join(&m, &young);
	for (int i = 0; i < N; i += 1000) {
		snprintf(name, sizeof(name), "f%d", N + i);
		check_name(&m, (uint64_t)i * 32 + 31, name);
	}
	check_name(&m, 15, "f0");
	codemap_deinit(&m);
}

/* What there was no room for is not there, and what was there before is; nothing more is taken. */
static void test_no_room_to_join(void **state)
{
	struct quota *quota = quota_create();
	struct quota_share share = { .quota = quota };
	struct codemap m = { .share = &share }, young = { .share = &share };
	size_t n = 1;

	parse_perf(&m, "1000 10 old\n");
	for (int i = 0; i < 1000; i++)
		codemap_add(&young, (uint64_t)(0x2000 + i), 1, "young", 5);
	codemap_sort(&young);
	while (quota_take(quota, QUOTA_JIT_BYTES, n)) /* all that is left */
		n *= 2;
	while (n > 0)
		if (!quota_take(quota, QUOTA_JIT_BYTES, n))
			n /= 2;
	codemap_join(&m, &young);
	assert_true(m.full && young.full && m.lacked);
	check_name(&m, 0x1000, "old");
	check_name(&m, 0x2000, NULL);
	codemap_add(&young, 0x2000, 1, "young", 5);
	assert_int_equal(0, young.n);
	codemap_deinit(&m);
	codemap_deinit(&young);
	quota_unref(quota);
}

static void dump_other(struct dump *d, uint32_t id, uint32_t n)
{
	put32(d, id), put32(d, n), put64(d, 3);
	for (uint32_t i = 16; i < n; i++)
		d->at[d->n++] = 0xee;
}

static void dump_make(struct dump *d)
{
	dump_begin(d);
	dump_load(d, 0x1000, 0x100, "one", 0);
	dump_other(d, 2, 100); /* JIT_CODE_DEBUG_INFO */
	dump_load(d, 0x2000, 0x100, "two", 0);
	dump_other(d, 1, 16);
	dump_load(d, 0x3000, 0x100, "", 0);
	dump_load(d, 0x4000, 0x100, "py::four:/x.py", 0);
}

static size_t parse_dump(struct codemap *m, const struct dump *d, size_t from, size_t n)
{
	unsigned char *copy = malloc(n ? n : 1);
	size_t used;

	memcpy(copy, d->at + from, n);
	used = codemap_parse_dump(m, (struct bytes){ copy, n }, from);
	free(copy);
	return used;
}

/* In pieces of any size, as a file that is being written. */
static void test_dump(void **state)
{
	struct dump d;

	dump_make(&d);
	for (size_t step = 1; step <= d.n; step++) {
		struct codemap m = { 0 };
		size_t at = 0;

		for (size_t n = 0; n <= d.n; n = n < d.n ? MIN(n + step, d.n) : n + 1)
			if (n >= at)
				at += parse_dump(&m, &d, at, n - at);
		assert_int_equal(d.n, at);
		codemap_sort(&m);
		check_name(&m, 0x1000, "one");
		check_name(&m, 0x20ff, "two");
		check_name(&m, 0x3000, NULL);
		check_name(&m, 0x4000, "py::four:/x.py");
		codemap_deinit(&m);
	}
}

static void test_dump_is_none(void **state)
{
	struct codemap m = { 0 };
	struct dump d;

	dump_begin(&d);
	dump_load(&d, 0x1000, 0x10, "x", 1u << 30); /* its code: to be stepped over */
	assert_int_equal(40 + 58 + (1u << 30), parse_dump(&m, &d, 0, d.n));
	codemap_sort(&m);
	check_name(&m, 0x1000, "x");
	d.at[4] = 2; /* a version to come */
	assert_int_equal(0, parse_dump(&m, &d, 0, d.n));
	d.at[4] = 1, d.at[0] = 0;
	assert_int_equal(0, parse_dump(&m, &d, 0, d.n));
	memset(&d, 0, sizeof(d)); /* a hole in the file: no records of no length */
	assert_int_equal(0, parse_dump(&m, &d, 40, 1000));
	codemap_deinit(&m);
}

static void flip(unsigned char *p, size_t n, unsigned *seed)
{
	for (int k = 0; k < 1 + rand_r(seed) % 5; k++)
		p[(size_t)rand_r(seed) % n] = (unsigned char)rand_r(seed);
}

static void look_around(struct codemap *m, unsigned *seed)
{
	codemap_sort(m);
	for (size_t i = 0; i < 20; i++) {
		const char *name = codemap_find(m, (uint64_t)rand_r(seed) % 0x8000);

		if (name)
			assert_in_range(strlen(name), 1, 4095);
	}
	codemap_deinit(m);
}

static void test_flips(void **state)
{
	static const char text[] = "1000 100 one\n1000 80 two\n3000 1000 three\n3100 10 f;g\n";
	unsigned seed = 29;
	struct dump good, bad;
	char line[sizeof(text)];

	dump_make(&good);
	for (unsigned round = 0; round < 100000; round++) {
		struct codemap m = { 0 };
		size_t at = 0, used = 1;

		bad = good;
		flip(bad.at, bad.n, &seed);
		for (size_t n = (size_t)rand_r(&seed) % good.n; used; at += used)
			used = at <= n ? parse_dump(&m, &bad, at, n - at) : 0;
		look_around(&m, &seed);
		memcpy(line, text, sizeof(text));
		flip((unsigned char *)line, sizeof(text) - 1, &seed);
		assert_true(parse_perf(&m, line) <= sizeof(text) - 1);
		look_around(&m, &seed);
	}
}

/* The names of one map end at 64 MB, and it says so. */
static void test_bounded(void **state)
{
	enum { N = 5000, LINES = 20000 };
	struct codemap m = { 0 };
	char *line = malloc(N);
	int i;

	memset(line, 'x', N);
	memcpy(line, "1000 10 ", 8);
	line[N - 1] = '\n';
	for (i = 0; i < LINES && !m.full; i++)
		codemap_parse_perf(&m, (struct bytes){ (unsigned char *)line, N }, 0);
	assert_in_range(i, 1000, LINES - 1);
	assert_true(m.cap_names <= 64 << 20);
	codemap_sort(&m);
	assert_int_equal(4095, strlen(codemap_find(&m, 0x1000)));
	codemap_deinit(&m);
	free(line);
}

/* All of one recording together, too; what is let go leaves room again. */
static void test_bounded_together(void **state)
{
	enum { ALL = 256 << 20, LEFT = 100 << 10 };
	struct quota *quota = quota_create();
	struct quota_share mine = { .quota = quota, .user = 1 },
			   others = { .quota = quota, .user = 2 };
	struct codemap m = { .share = &mine }, other = { .share = &others }, alone = { 0 };

	assert_true(quota_take(quota, QUOTA_JIT_BYTES, ALL - LEFT));
	for (int i = 0; i < 20000; i++) {
		parse_perf(&m, "1000 10 name\n");
		parse_perf(&other, "1000 10 name\n");
		parse_perf(&alone, "1000 10 name\n");
	}
	assert_true(m.full && m.n_laid && other.full && other.n_laid);
	assert_true(m.cap_names + other.cap_names < LEFT);
	assert_false(alone.full);
	assert_true(alone.cap_names > LEFT);
	codemap_deinit(&m);
	codemap_deinit(&other);
	codemap_deinit(&alone);
	assert_true(quota_take(quota, QUOTA_JIT_BYTES, LEFT));
	assert_false(quota_take(quota, QUOTA_JIT_BYTES, 1));
	quota_unref(quota);
}

static struct codemap with_rows(struct quota_share *share, int n)
{
	struct codemap m = { .share = share };

	for (int i = 0; i < n; i++)
		codemap_add(&m, (uint64_t)i, 1, "name", 4);
	codemap_sort(&m);
	return m;
}

/* Who is full for want of room that others have can be made anew once they have given it back,
 * and not before. */
static void test_room_again(void **state)
{
	enum { ALL = 1 << 20, ROWS = 4000 };
	struct quota *quota = quota_create();
	struct quota_share mine = { .quota = quota, .user = 1 };
	struct codemap m, young = { .share = &mine };

	quota_limit(quota, QUOTA_JIT_BYTES, 2 * ALL);
	assert_true(quota_take(quota, QUOTA_JIT_BYTES, 2 * ALL - 100000));
	m = with_rows(&mine, ROWS);
	codemap_join(&m, &young);
	assert_true(m.full && young.full && !codemap_has_room(&m));
	check_name(&m, 100, "name"); /* it has what there was room for */
	check_name(&m, ROWS - 1, NULL);
	assert_true(mine.used <= 50000);
	quota_give(quota, QUOTA_JIT_BYTES, 10000); /* too little to be worth it */
	assert_false(codemap_has_room(&m));
	quota_give(quota, QUOTA_JIT_BYTES, ALL);
	assert_true(codemap_has_room(&m));
	codemap_deinit(&m);
	assert_int_equal(0, mine.used);
	assert_false(codemap_has_room(&m)); /* it is not full */
	m = with_rows(&mine, ROWS);
	assert_false(m.full);
	check_name(&m, ROWS - 1, "name");
	codemap_deinit(&m);
	quota_unref(quota);
}

/* All that a process of @user gets of what is left. */
static size_t take_all(struct quota *quota, uint32_t user)
{
	struct quota_share share = { .quota = quota, .user = user };

	while (quota_share_take(&share, 1))
		;
	assert_true(!share.used || quota_share_may(&share, share.used));
	assert_false(quota_share_may(&share, share.used + 1));
	return share.used;
}

/* A process has no more than it leaves for all others, and the processes of one user, of which it
 * can have as many as it likes, leave an eighth. */
static void test_shares(void **state)
{
	static const size_t shares[] = { 4096, 2048, 1024, 0, 0 };
	struct quota *quota = quota_create();

	quota_limit(quota, QUOTA_JIT_BYTES, 8192);
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		assert_int_equal(shares[i], take_all(quota, 1));
	assert_int_equal(512, take_all(quota, 2));
	quota_limit(quota, QUOTA_JIT_BYTES, 4096); /* fewer than there are by now */
	assert_int_equal(0, take_all(quota, 3));
	quota_unref(quota);
}

/* What one process made of a file is what another gets; both go on where they were. */
static void test_handed_over(void **state)
{
	static const char first[] = "900 800 c\n1000 10 a\n1000 8 b\n2000 1", rest[] = "0 d\n";
	_cleanup_close_ int file = memfd_create("test", MFD_CLOEXEC);
	struct codemap here = { 0 }, there = { 0 };
	struct codemap_place place = { 0 };
	int fd;

	for (int i = 0; i < 2; i++) {
		const char *text = i ? rest : first;

		assert_int_equal(strlen(text), write(file, text, strlen(text)));
		codemap_read(&here, file, CODEMAP_LINES, &place);
		assert_true(codemap_same(file, &place) && !place.more);
		fd = codemap_make(&here);
		assert_int_equal(0, codemap_take(&there, fd));
		close(fd);
		codemap_deinit(&here);
		codemap_sort(&there);
		check_name(&there, 0x1001, "b");
		check_name(&there, 0x901, "c");
		check_name(&there, 0x1009, NULL);
		check_name(&there, 0x1011, "c");
		check_name(&there, 0x2001, i ? "d" : NULL);
	}
	assert_int_equal(1, pwrite(file, "e", 1, 31));
	assert_false(codemap_same(file, &place));
	codemap_deinit(&there);
}

/* Images come one behind the other, each behind its length. */
static void test_objects(void **state)
{
	struct {
		uint64_t n;
		struct jitobject o;
	} two[2];
	struct codemap m = { 0 };
	struct bytes b = { (const unsigned char *)two, sizeof(two) };

	two[0].n = two[1].n = sizeof(two[0].o);
	jitobject_fill(&two[0].o, 0x1000, 0x200, 0x10, 0x20, "first");
	jitobject_fill(&two[1].o, 0x8000, 0x200, 0x100, 0x100, "second");
	assert_int_equal(sizeof(two[0]), /* the second is not whole yet */
			 codemap_parse_objects(&m, (struct bytes){ b.at, b.n - 1 }, 0));
	assert_int_equal(sizeof(two), codemap_parse_objects(&m, b, 0));
	codemap_sort(&m);
	check_name(&m, 0x100f, NULL);
	check_name(&m, 0x1010, "first");
	check_name(&m, 0x102f, "first");
	check_name(&m, 0x1030, NULL);
	check_name(&m, 0x81ff, "second");
	codemap_deinit(&m);
}

/* How many functions an image has. */
static size_t functions_of(const struct jitobject *o)
{
	unsigned char b[sizeof(uint64_t) + sizeof(*o)];
	struct codemap m = { 0 };
	uint64_t n = sizeof(*o);
	size_t ret;

	memcpy(b, &n, sizeof(n));
	memcpy(b + sizeof(n), o, sizeof(*o));
	codemap_parse_objects(&m, (struct bytes){ b, sizeof(b) }, 0);
	ret = m.n;
	codemap_deinit(&m);
	return ret;
}

static void test_objects_are_not_trusted(void **state)
{
	struct jitobject good, o;

	jitobject_fill(&good, 0x1000, 0x200, 0x10, 0x20, "f");
	assert_int_equal(1, functions_of(&good));
	o = good, o.sym[1].st_value = 0x200; /* behind its section */
	assert_int_equal(0, functions_of(&o));
	o = good, o.sym[1].st_size = 0x1f1; /* beyond its section's end */
	assert_int_equal(0, functions_of(&o));
	o = good, o.sym[1].st_shndx = 4;
	assert_int_equal(0, functions_of(&o));
	o = good, o.sym[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	assert_int_equal(0, functions_of(&o));
	o = good, o.sym[1].st_name = sizeof(o.names);
	assert_int_equal(0, functions_of(&o));
	o = good, memset(o.names, 'x', sizeof(o.names)); /* no end */
	assert_int_equal(0, functions_of(&o));
	o = good, o.sh[1].sh_flags = SHF_ALLOC;
	assert_int_equal(0, functions_of(&o));
	o = good, o.sh[2].sh_link = 4;
	assert_int_equal(0, functions_of(&o));
	o = good, o.sh[2].sh_size = sizeof(o);
	assert_int_equal(0, functions_of(&o));
	o = good, o.eh.e_shnum = UINT16_MAX;
	assert_int_equal(0, functions_of(&o));
	o = good, o.eh.e_type = ET_DYN, o.sym[1].st_value = 0x1010;
	assert_int_equal(1, functions_of(&o));
}

static int check_bytes(const unsigned char *b, size_t n)
{
	unsigned char *copy = malloc(n); /* of that size, for ASan */
	struct codemap m = { 0 };
	int r;

	memcpy(copy, b, n);
	r = codemap_check(&m, (struct bytes){ copy, n });
	free(copy);
	codemap_deinit(&m);
	return r;
}

/* Head: magic, full, count; a row: start, size, a number; then a name of three bytes. */
static void test_no_row_is_trusted(void **state)
{
	enum { N = 16 + 16 + 4, FULL = 4, COUNT = 8, START = 16, SIZE = 24, NAME = 32 };
	static const struct {
		size_t at;
		unsigned char byte;
	} bad[] = { { 0, 0 },	 { FULL, 2 },	     { COUNT, 2 }, { COUNT + 7, 0x10 },
		    { SIZE, 0 }, { SIZE + 3, 0xff }, { NAME, 0 },  { NAME + 3, 'x' } };
	struct codemap m = { 0 };
	unsigned char good[N + 1], b[N];
	int fd;

	codemap_parse_perf(&m, (struct bytes){ (const unsigned char *)"1000 10 abc\n", 12 }, 0);
	fd = codemap_make(&m);
	codemap_deinit(&m);
	assert_int_equal(N, pread(fd, good, sizeof(good), 0));
	close(fd);
	assert_int_equal(0, check_bytes(good, N));
	for (size_t n = 0; n < N; n++)
		assert_int_equal(-EPROTO, check_bytes(good, n));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		memcpy(b, good, N);
		b[bad[i].at] = bad[i].byte;
		assert_int_equal(-EPROTO, check_bytes(b, N));
	}
	memcpy(b, good, N);
	memset(b + START, 0xff, 8); /* with its size it wraps */
	assert_int_equal(-EPROTO, check_bytes(b, N));
	fd = memfd_create("test", MFD_CLOEXEC); /* not sealed */
	assert_int_equal(N, write(fd, good, N));
	assert_int_equal(-EPROTO, codemap_take(&m, fd));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_perf_lines),
		cmocka_unit_test(test_used_again),
		cmocka_unit_test(test_many_used_again),
		cmocka_unit_test(test_drawn_rows),
		cmocka_unit_test(test_many_rows),
		cmocka_unit_test(test_no_room_to_join),
		cmocka_unit_test(test_dump),
		cmocka_unit_test(test_dump_is_none),
		cmocka_unit_test(test_flips),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_bounded_together),
		cmocka_unit_test(test_room_again),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_handed_over),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_objects_are_not_trusted),
		cmocka_unit_test(test_no_row_is_trusted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
