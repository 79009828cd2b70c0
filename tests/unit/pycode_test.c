/* SPDX-License-Identifier: MIT
 *
 * pycode: copies and fingerprints of code objects laid out in memory, and line
 * tables against the co_lines() of the CPythons that made them.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"
#include "python/pycode.h"
#include "pycode_fixtures.h"
#include "rmem_image.h"

/* A small target: objects at fixed addresses, each a chunk of its own. */
enum {
	TYPE = 0x10000,
	TYPE_NAME = 0x11000,
	CODE = 0x20000,
	NAME = 0x30000,
	FILENAME = 0x40000,
	TABLE = 0x50000,
	AWAY = 0x60000, /* characters of a string that is not compact */
	ROOM = 64 << 10,
};

struct target {
	const struct pylayout *l;
	struct rmem base; /* counts calls */
	struct rmem_image image;
	struct rmem_chunk chunks[7];
	unsigned char head[PYCODE_HEAD_MAX];
	unsigned char type[512], name[ROOM], file[ROOM], table[ROOM], away[ROOM];
	char type_name[64];
	int calls;
	union {
		struct pycode_copy copy;
		unsigned char room[PYCODE_COPY_MAX];
	};
};

static int count_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct target *t = container_of(m, struct target, base);

	t->calls++;
	return rmem_read(&t->image.base, at, buf, n);
}

static size_t count_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct target *t = container_of(m, struct target, base);

	t->calls++;
	return rmem_readv(&t->image.base, v, n);
}

static const struct rmem_ops count_ops = { "count", count_read, count_readv };

static void put(void *to, pyoff at, uint64_t v, size_t n)
{
	memcpy((char *)to + pyoff_get(at), &v, n);
}

enum { ASCII = 1, COMPACT = 2 };

/* A str of @n characters of @kind bytes at @to; returns its size. */
static size_t put_str(struct target *t, unsigned char *to, const void *chars, size_t n,
		      unsigned kind, int flags)
{
	const struct pylayout *l = t->l;
	uint32_t data = flags & ASCII ? l->str.ascii_data : l->str.compact_data;
	uint32_t state = 3u | kind << l->str_kind_shift;

	if (l->str_kind_shift == 8)
		state |= 0xfeu; /* a byte of "interned" below: not for us */
	state |= flags & ASCII ? 1u << l->str_ascii_bit : 0;
	state |= flags & COMPACT ? 1u << l->str_compact_bit : 0;
	memset(to, 0, ROOM);
	put(to, l->str.length, n, 8);
	put(to, l->str.state, state, 4);
	if (flags & COMPACT) {
		memcpy(to + data, chars, n * kind);
		return data + (n + 1) * kind;
	}
	memcpy(t->away, chars, n * kind);
	put(to, (pyoff)AT(l->str.compact_data), AWAY, 8);
	return l->str.compact_data + 8;
}

static void put_name(struct target *t, const void *chars, size_t n, unsigned kind, int flags)
{
	put_str(t, t->name, chars, n, kind, flags);
}

static void put_table(struct target *t, const void *at, size_t n)
{
	memset(t->table, 0, ROOM);
	put(t->table, t->l->bytes.size, n, 8);
	memcpy(t->table + pyoff_get(t->l->bytes.data), at, n);
}

static struct target *target_create(uint16_t version)
{
	struct target *t = calloc(1, sizeof(*t));

	t->l = pylayout_find(version);
	t->base.ops = &count_ops;
	strcpy(t->type_name, "code");
	memset(t->head, 0xa5, sizeof(t->head));
	put(t->head, t->l->object.type, TYPE, 8);
	put(t->head, t->l->code.qualname, NAME, 8);
	put(t->head, t->l->code.filename, FILENAME, 8);
	put(t->head, t->l->code.linetable, TABLE, 8);
	put(t->head, t->l->code.firstlineno, 17, 4);
	put(t->head, t->l->code.flags, 0x23, 4);
	put(t->head, t->l->code.firsttraceable, 3, 4);
	if (pyoff_has(t->l->code.version))
		put(t->head, t->l->code.version, 1234, 4);
	put(t->type, t->l->object.type_name, TYPE_NAME, 8);
	t->chunks[0] = (struct rmem_chunk){ TYPE, sizeof(t->type), t->type };
	t->chunks[1] = (struct rmem_chunk){ TYPE_NAME, sizeof(t->type_name), t->type_name };
	t->chunks[2] = (struct rmem_chunk){ CODE, sizeof(t->head), t->head };
	/* Objects lie among others: the bytes behind them are readable. */
	t->chunks[3] = (struct rmem_chunk){ NAME, ROOM, t->name };
	t->chunks[4] = (struct rmem_chunk){ FILENAME, ROOM, t->file };
	t->chunks[5] = (struct rmem_chunk){ TABLE, ROOM, t->table };
	t->chunks[6] = (struct rmem_chunk){ AWAY, ROOM, t->away };
	rmem_image_init(&t->image, t->chunks, ARRAY_SIZE(t->chunks));
	put_name(t, "K.meth", 6, 1, ASCII | COMPACT);
	put_str(t, t->file, "/srv/a.py", 9, 1, ASCII | COMPACT);
	put_table(t, "\x80\x00\xd9\x08\x01\x01", 6);
	return t;
}

static int copy(struct target *t)
{
	t->calls = 0;
	return pycode_copy(&t->base, t->l, CODE, t->head, &t->copy);
}

static struct pycode_print print(struct target *t)
{
	struct pycode_print p = { 0 };

	t->calls = 0;
	assert_int_equal(pycode_fingerprint(&t->base, t->l, t->head, &p), 0);
	return p;
}

static bool same(struct pycode_print a, struct pycode_print b)
{
	return a.a == b.a && a.b == b.b;
}

static const char *name(struct target *t)
{
	static char buf[8192];
	size_t n;

	assert_int_equal(copy(t), 0);
	assert_in_range(t->calls, 1, 4);
	assert_true(pycode_copy_valid(&t->copy, pycode_copy_size(&t->copy)));
	n = pycode_name(&t->copy, buf, sizeof(buf));
	assert_int_equal(n, strlen(buf));
	return buf;
}

static void copy_tells_all(void **state)
{
	for (uint16_t v = 0x030b; v <= 0x030f; v++) {
		struct target *t = target_create(v);
		char buf[64];

		assert_string_equal(name(t), "K.meth");
		pycode_file(&t->copy, buf, sizeof(buf));
		assert_string_equal(buf, "/srv/a.py");
		assert_int_equal(t->copy.at, CODE);
		assert_int_equal(t->copy.firstlineno, 17);
		assert_int_equal(t->copy.flags, 0x23);
		assert_int_equal(t->copy.firsttraceable, 3);
		assert_int_equal(t->copy.bytecode, t->l->code.size);
		assert_int_equal(t->copy.table_n, 6);
		assert_int_equal(t->copy.cut, 0);
		assert_in_range(t->calls, 1, 2);
		free(t);
	}
}

static void every_kind_of_string(void **state)
{
	static const uint16_t ucs2[] = { 'a', 0x20ac, 0xd800, 0x0a, 0 };
	static const uint32_t ucs4[] = { 0x1f600, 'b', 0x110000, 0x2028 };
	struct target *t = target_create(0x030c);
	char shown[32];

	put_name(t, "w\xe4it\x7f\x80", 6, 1, COMPACT);
	assert_string_equal(name(t), "w\xc3\xa4it\x7f\xc2\x80");
	put_name(t, ucs2, 5, 2, COMPACT);
	assert_string_equal(name(t), "a\xe2\x82\xac\xef\xbf\xbd\n\xef\xbf\xbd");
	put_name(t, ucs4, 4, 4, COMPACT);
	assert_string_equal(name(t), "\xf0\x9f\x98\x80"
				     "b\xef\xbf\xbd\xe2\x80\xa8");
	/* What is shown at once. */
	assert_int_equal(pycode_utf8((const void *)ucs2, 10, 2, shown, sizeof(shown)), 7);
	assert_string_equal(shown, "a\xe2\x82\xac???");
	assert_int_equal(pycode_utf8((const void *)ucs4, 16, 4, shown, sizeof(shown)), 7);
	assert_string_equal(shown, "\xf0\x9f\x98\x80"
				   "b??");
	assert_int_equal(pycode_utf8((const void *)ucs4, 16, 4, NULL, 0), 0);
	/* An instance of a subclass of str keeps its characters elsewhere. */
	put_name(t, "subclass", 8, 1, ASCII);
	assert_string_equal(name(t), "subclass");
	put_name(t, "", 0, 1, ASCII | COMPACT);
	assert_string_equal(name(t), "");
	free(t);
}

/* 3.14 free-threaded: "interned" is a byte of its own, any value. */
static void free_threaded_string(void **state)
{
	struct target *t = target_create(0x030e);
	struct pylayout l = *t->l;

	l.str_kind_shift = 8;
	l.str_compact_bit = 11;
	l.str_ascii_bit = 12;
	t->l = &l;
	put_name(t, "w\xe4it", 4, 1, COMPACT);
	put_str(t, t->file, "f", 1, 1, ASCII | COMPACT);
	assert_string_equal(name(t), "w\xc3\xa4it");
	free(t);
}

static void output_is_cut_at_characters(void **state)
{
	struct target *t = target_create(0x030c);
	char buf[8] = "zzzzzzz";

	put_name(t, "\xe4\xe4\xe4\xe4", 4, 1, COMPACT);
	name(t);
	assert_int_equal(pycode_name(&t->copy, buf, 6), 4);
	assert_string_equal(buf, "\xc3\xa4\xc3\xa4");
	assert_int_equal(pycode_name(&t->copy, buf, 5), 4); /* it just fits */
	assert_int_equal(pycode_name(&t->copy, buf, 1), 0);
	assert_string_equal(buf, "");
	assert_int_equal(pycode_name(&t->copy, NULL, 0), 0);
	free(t);
}

static void long_ones_are_cut(void **state)
{
	struct target *t = target_create(0x030b);
	unsigned char *big = malloc(ROOM);

	for (size_t i = 0; i < ROOM; i++)
		big[i] = (unsigned char)(i % 251 + 1);
	put_name(t, big, 20000, 1, COMPACT);
	put_table(t, big, 60000);
	assert_int_equal(copy(t), 0);
	assert_int_equal(t->copy.cut, PYCODE_NAME_CUT | PYCODE_TABLE_CUT);
	assert_int_equal(t->copy.name_n, PYCODE_NAME_MAX);
	assert_int_equal(t->copy.table_n, PYCODE_TABLE_MAX);
	assert_memory_equal(t->copy.data, big, PYCODE_NAME_MAX);
	assert_memory_equal(t->copy.data + t->copy.name_n + t->copy.file_n, big,
			    PYCODE_TABLE_MAX);
	assert_true(same(print(t), t->copy.print));
	/* What fills its room is whole. */
	put_name(t, big, PYCODE_NAME_MAX, 1, COMPACT);
	put_table(t, big, PYCODE_TABLE_MAX);
	assert_int_equal(copy(t), 0);
	assert_int_equal(t->copy.cut, 0);
	/* Sizes that would wrap. */
	put(t->name, t->l->str.length, INT64_MAX, 8);
	assert_int_equal(copy(t), 0);
	assert_int_equal(t->copy.name_n, PYCODE_NAME_MAX);
	put(t->name, t->l->str.length, UINT64_MAX, 8);
	assert_int_equal(copy(t), -EBADMSG);
	free(big);
	free(t);
}

/* Strings that end with their page, nothing mapped behind: guesses stay inside. */
static void nothing_behind(void **state)
{
	struct target *t = target_create(0x030c);
	size_t n = put_str(t, t->name, "edge", 4, 1, ASCII | COMPACT);

	t->chunks[3].at = NAME + 4096 - n;
	t->chunks[3].n = n;
	put(t->head, t->l->code.qualname, t->chunks[3].at, 8);
	assert_string_equal(name(t), "edge");
	free(t);
}

static void no_code_object(void **state)
{
	struct target *t = target_create(0x030d);

	strcpy(t->type_name, "function");
	assert_int_equal(copy(t), -EBADMSG);
	strcpy(t->type_name, "codec");
	assert_int_equal(copy(t), -EBADMSG);
	/* What lies there is no code object, so its name is no string either. */
	put(t->head, t->l->code.qualname, 0, 8);
	assert_int_equal(copy(t), -EBADMSG);
	strcpy(t->type_name, "code");
	assert_int_equal(copy(t), -EFAULT);
	put(t->head, t->l->code.qualname, NAME, 8);
	assert_int_equal(copy(t), 0);
	put(t->name, t->l->str.state, 3u << t->l->str_kind_shift, 4);
	assert_int_equal(copy(t), -EBADMSG);
	put(t->head, t->l->object.type, 0, 8);
	assert_int_equal(copy(t), -EFAULT);
	free(t);
}

static void counter_needs_no_reads(void **state)
{
	struct target *t = target_create(0x030e);
	struct pycode_print p = print(t);
	struct rmem_vec v[PYCODE_PARTS];

	assert_int_equal(t->calls, 0);
	assert_int_equal(pycode_fingerprint_reads(t->l, t->head, v), 0);
	assert_int_equal(copy(t), 0);
	assert_true(same(p, t->copy.print));
	/* Without its counter (it ran over) the contents count. */
	put(t->head, t->l->code.version, 0, 4);
	assert_int_equal(pycode_fingerprint_reads(t->l, t->head, v), PYCODE_PARTS);
	assert_int_equal(v[0].at, NAME);
	p = print(t);
	assert_true(t->calls > 0);
	assert_int_equal(copy(t), 0);
	assert_true(same(p, t->copy.print));
	t->table[pyoff_get(t->l->bytes.data)]++;
	assert_false(same(p, print(t)));
	free(t);
}

static void print_sees_change(void **state)
{
	for (uint16_t v = 0x030b; v <= 0x030f; v++) {
		struct target *t = target_create(v);
		const pyoff changes[] = { t->l->object.type, t->l->code.qualname,
					  t->l->code.filename, t->l->code.linetable,
					  t->l->code.firstlineno };
		struct pycode_print was = print(t);

		for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
			struct pycode_print now = { 0 };
			int r;

			t->head[pyoff_get(changes[i])] ^= 8;
			r = pycode_fingerprint(&t->base, t->l, t->head, &now);
			assert_false(r == 0 && same(was, now));
			t->head[pyoff_get(changes[i])] ^= 8;
		}
		if (pyoff_has(t->l->code.version)) {
			put(t->head, t->l->code.version, 1235, 4);
			assert_false(same(was, print(t)));
			put(t->head, t->l->code.version, 1234, 4);
		}
		assert_true(same(was, print(t)));
		free(t);
	}
}

/* No counter in 3.11: the same header with other contents is another code. */
static void contents_count_in_3_11(void **state)
{
	struct target *t = target_create(0x030b);
	struct pycode_print was = print(t);

	t->name[t->l->str.ascii_data] ^= 1;
	assert_false(same(was, print(t)));
	t->name[t->l->str.ascii_data] ^= 1;
	t->file[t->l->str.ascii_data + 8] ^= 1;
	assert_false(same(was, print(t)));
	t->file[t->l->str.ascii_data + 8] ^= 1;
	t->table[pyoff_get(t->l->bytes.data) + 5] ^= 1;
	assert_false(same(was, print(t)));
	t->table[pyoff_get(t->l->bytes.data) + 5] ^= 1;
	assert_true(same(was, print(t)));
	free(t);
}

/* Reference count, co_extra, caches and weak references come and go. */
static void print_ignores_the_rest(void **state)
{
	for (uint16_t v = 0x030b; v <= 0x030f; v++) {
		struct target *t = target_create(v);
		struct pycode_print was = print(t);
		uint32_t after = pyoff_get(t->l->code.linetable) + 8;

		memset(t->head, 0x77, 8);
		memset(t->head + after, 0x77, t->l->code.size - after);
		assert_true(same(was, print(t)));
		free(t);
	}
}

/* Also where it is read in several pieces. */
static void print_of_a_long_table_ends_with_it(void **state)
{
	enum { LONG = 5000 };
	static const unsigned char zeros[LONG];
	struct target *t = target_create(0x030b);
	unsigned char *data = t->table + pyoff_get(t->l->bytes.data);
	struct pycode_print was;

	put_table(t, zeros, LONG);
	was = print(t);
	memset(data + LONG, 1, 100);
	assert_true(same(was, print(t)));
	data[LONG - 1] = 1;
	assert_false(same(was, print(t)));
	free(t);
}

static void blocks_from_tapes(void **state)
{
	struct target *t = target_create(0x030f);
	struct pycode_copy *c = &t->copy;
	size_t n;

	assert_int_equal(copy(t), 0);
	n = pycode_copy_size(c);
	assert_true(pycode_copy_valid(c, n));
	for (size_t i = 0; i < n; i++)
		assert_false(pycode_copy_valid(c, i));
	c->name_kind = 4; /* 6 bytes are no whole characters */
	assert_false(pycode_copy_valid(c, n));
	c->name_kind = 0;
	assert_false(pycode_copy_valid(c, n));
	c->name_kind = 1;
	c->linetable = PY_LNOTAB_UNSIGNED;
	assert_true(pycode_copy_valid(c, n));
	c->linetable++; /* a table of no kind that there is */
	assert_false(pycode_copy_valid(c, n));
	c->linetable = PY_LOCATIONS_311;
	c->table_n = UINT32_MAX - 20;
	assert_false(pycode_copy_valid(c, SIZE_MAX));
	/* Each length has its own bound. */
	c->table_n = PYCODE_TABLE_MAX, c->name_n = PYCODE_NAME_MAX,
	c->file_n = PYCODE_FILE_MAX;
	assert_true(pycode_copy_valid(c, pycode_copy_size(c)));
	c->name_n++;
	assert_false(pycode_copy_valid(c, pycode_copy_size(c)));
	c->name_n = 0, c->file_n++;
	assert_false(pycode_copy_valid(c, pycode_copy_size(c)));
	c->file_n = 0, c->table_n++;
	assert_false(pycode_copy_valid(c, pycode_copy_size(c)));
	free(t);
}

static struct pycode_copy *table_copy(const void *table, size_t n, int first)
{
	struct pycode_copy *c = calloc(1, sizeof(*c) + n);

	*c = (struct pycode_copy){
		.firstlineno = first,
		.table_n = (uint32_t)n,
		.name_kind = 1,
		.file_kind = 1,
		.linetable = PY_LOCATIONS_311,
	};
	memcpy(c->data, table, n);
	return c;
}

struct lines_row {
	const char *name;
	const unsigned char *table;
	size_t n_table;
	const int *lines;
	size_t n_lines;
	int first;
};

#define ROW(version, qualname, first)                   \
	{ #version " " qualname,       table_##version, \
	  sizeof(table_##version),     lines_##version, \
	  ARRAY_SIZE(lines_##version), first },

static const struct lines_row lines_rows[] = {
	ROWS_3_11 ROWS_3_12 ROWS_3_13 ROWS_3_14 ROWS_3_15
};

/* Tables of before 3.11, by hand after Objects/lnotab_notes.txt. */
static void older_tables(void **state)
{
	/* Two bytes of line 5, a jump back that only 3.6 and later can say, a long one. */
	static const unsigned char lnotab[] = { 2, 1, 4, 0xfe, 0, 127, 2, 10 };
	static const unsigned char table_310[] = { 2, 1, 4, 0x80, 0, 127, 2, 10 };
	static const struct {
		enum py_linetable kind;
		const unsigned char *table;
		int line[5]; /* at 0, 2, 4, 6, 8 */
		int min, max;
	} row[] = {
		{ PY_LNOTAB, lnotab, { 5, 6, 6, 131, 141 }, 5, 141 },
		{ PY_LNOTAB_UNSIGNED, lnotab, { 5, 6, 6, 387, 397 }, 5, 397 },
		{ PY_LINETABLE_310, table_310, { 6, 0, 0, 143, 0 }, 6, 143 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct pycode_copy *c = table_copy(row[i].table, 8, 5);
		int min, max;

		c->linetable = (uint8_t)row[i].kind;
		for (uint32_t k = 0; k < 5; k++)
			assert_int_equal(pycode_line(c, 2 * k), row[i].line[k]);
		assert_int_equal(pycode_line(c, PYCODE_BEGINS), 5);
		pycode_line_range(c, &min, &max);
		assert_int_equal(min, row[i].min);
		assert_int_equal(max, row[i].max);
		free(c);
	}
}

/* A table that goes on behind what was kept of it says nothing of what comes then; nor does an
 * entry of which there may be only a part. */
static void cut_tables(void **state)
{
	static const unsigned char lnotab[] = { 2, 1, 4, 2 };
	static const unsigned char table_310[] = { 2, 1, 4, 2 };
	/* Two units of the next line; two of the 33rd from there, by two bytes. */
	static const unsigned char locations[] = { 0xd9, 0, 0, 0xe9, 0x40, 2 };
	static const struct {
		enum py_linetable kind;
		const unsigned char *table;
		size_t n;
		int line[5], cut[5]; /* at 0, 2, 4, 6, 8 */
	} row[] = {
		{ PY_LNOTAB, lnotab, 4, { 5, 6, 6, 8, 8 }, { 5, 6, 6, 0, 0 } },
		{ PY_LNOTAB_UNSIGNED, lnotab, 4, { 5, 6, 6, 8, 8 }, { 5, 6, 6, 0, 0 } },
		{ PY_LINETABLE_310, table_310, 4, { 6, 8, 8, 0, 0 }, { 6, 8, 8, 0, 0 } },
		{ PY_LOCATIONS_311, locations, 6, { 6, 6, 70, 70, 0 }, { 6, 6, 0, 0, 0 } },
		{ PY_LOCATIONS_311, locations, 5, { 6, 6, 6, 6, 0 }, { 6, 6, 0, 0, 0 } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct pycode_copy *c = table_copy(row[i].table, row[i].n, 5);

		c->linetable = (uint8_t)row[i].kind;
		for (uint32_t k = 0; k < 5; k++)
			assert_int_equal(pycode_line(c, 2 * k), row[i].line[k]);
		c->cut = PYCODE_NAME_CUT | PYCODE_TABLE_CUT;
		for (uint32_t k = 0; k < 5; k++)
			assert_int_equal(pycode_line(c, 2 * k), row[i].cut[k]);
		free(c);
	}
}

/* Nothing is mapped behind it. */
static void a_table_is_read_to_its_end_and_no_further(void **state)
{
	static const unsigned char table[] = { 0x80 | 13 << 3, 0, 0x80 | 13 << 3, 2,
					       0x80 | 13 << 3, 2, 0x80 | 13 << 3, 2 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pycode_copy *c = table_copy(table, sizeof(table), 5);
	size_t n = pycode_copy_size(c);
	void *moved;
	int min, max;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(n % _Alignof(struct pycode_copy), 0);
	munmap(at + page, page);
	moved = memcpy(at + page - n, c, n);
	assert_int_equal(pycode_line(moved, 0), 5);
	assert_int_equal(pycode_line(moved, 6), 8);
	assert_int_equal(pycode_line(moved, 8), 0);
	pycode_line_range(moved, &min, &max);
	assert_int_equal(min, 5);
	assert_int_equal(max, 8);
	munmap(at, page);
	free(c);
}

static void check_lines(const struct lines_row *row)
{
	struct pycode_copy *c = table_copy(row->table, row->n_table, row->first);
	int min = 0, max = 0, got_min, got_max, at = 0;

	for (size_t i = 0; i < row->n_lines; i += 2) {
		int line = row->lines[i + 1];

		for (; at < row->lines[i]; at += 2)
			if (pycode_line(c, (uint32_t)at) != line)
				fail_msg("%s: at %d line %d, not %d", row->name, at,
					 pycode_line(c, (uint32_t)at), line);
		if (line) {
			min = min ? MIN(min, line) : line;
			max = MAX(max, line);
		}
	}
	assert_int_equal(pycode_line(c, (uint32_t)at), 0); /* behind the end */
	assert_int_equal(pycode_line(c, UINT32_MAX), 0);
	pycode_line_range(c, &got_min, &got_max);
	assert_int_equal(got_min, min);
	assert_int_equal(got_max, max);
	free(c);
}

static void lines_are_co_lines(void **state)
{
	assert_true(ARRAY_SIZE(lines_rows) >= 30);
	for (size_t i = 0; i < ARRAY_SIZE(lines_rows); i++)
		check_lines(&lines_rows[i]);
}

/* PY_CODE_LOCATION_INFO_NO_COLUMNS: what compilers leave without columns. */
static void lines_without_columns(void **state)
{
	/* +3 for 1 unit; -2 for 2 units; none for 1; +100 (two bytes) for 1 */
	struct pycode_copy *c = table_copy("\xe8\x06\xe9\x05\xf8\xe8\x48\x03", 8, 10);
	const int want[] = { 13, 11, 11, 0, 111 };
	int min, max;

	for (uint32_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_int_equal(pycode_line(c, i * 2), want[i]);
	pycode_line_range(c, &min, &max);
	assert_int_equal(min, 11);
	assert_int_equal(max, 111);
	free(c);
}

static void empty_and_damaged_tables(void **state)
{
	static const unsigned char endless[] = { 0xf0, 0x7f, 0x7f, 0x7f, 0x7f,
						 0x7f, 0x7f, 0x7f, 0x7f, 0x7f };
	struct pycode_copy *c = table_copy("", 0, 42);
	int min, max;

	pycode_line_range(c, &min, &max);
	assert_int_equal(min, 42);
	assert_int_equal(max, 42);
	assert_int_equal(pycode_line(c, 0), 0);
	free(c);
	c = table_copy(endless, sizeof(endless), INT32_MAX);
	pycode_line_range(c, &min, &max);
	assert_true(min >= 0 && min <= max);
	free(c);
	c = table_copy("\x01\x02", 2, 5); /* begins in the middle of an entry */
	assert_int_equal(pycode_line(c, 0), 0);
	free(c);
	/* Any byte anywhere: ends, and lines stay in range (sanitizers watch). */
	for (size_t i = 0; i < sizeof(table_3_13_1); i++) {
		for (unsigned v = 0; v < 256; v++) {
			c = table_copy(table_3_13_1, i + 1, 2);
			c->data[i] = (unsigned char)v;
			pycode_line_range(c, &min, &max);
			assert_true(min >= 0 && min <= max);
			free(c);
		}
	}
}

/* 2.7 names code by byte strings. */
static void byte_strings_are_utf8(void **state)
{
	static const struct {
		const char *bytes, *utf8;
		size_t n;
	} rows[] = {
		{ "/a\xc3\xa9\xe4\xb8\xad\xf0\x90\x80\x80.py",
		  "/a\xc3\xa9\xe4\xb8\xad\xf0\x90\x80\x80.py", 14 },
		{ "\xe9.py\xff", "\xef\xbf\xbd.py\xef\xbf\xbd", 5 },
		{ "a\0b", "a\xef\xbf\xbd" "b", 3 },
		{ "a\xe4\xb8", "a\xef\xbf\xbd\xef\xbf\xbd", 3 }, /* cut */
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3 },
		{ "", "", 0 },
	};
	struct pycode_copy *c = calloc(1, sizeof(*c) + 64);
	char buf[64];

	(void)state;
	*c = (struct pycode_copy){ .name_kind = 1, .file_kind = 1 };
	c->linetable = PY_LNOTAB_UNSIGNED;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		c->name_n = c->file_n = (uint32_t)rows[i].n;
		memcpy(c->data, rows[i].bytes, rows[i].n);
		memcpy(c->data + rows[i].n, rows[i].bytes, rows[i].n);
		assert_int_equal(pycode_name(c, buf, sizeof(buf)), strlen(rows[i].utf8));
		assert_string_equal(buf, rows[i].utf8);
		pycode_file(c, buf, sizeof(buf));
		assert_string_equal(buf, rows[i].utf8);
	}
	free(c);
}

/* Of each length the first and the last character. */
static void characters_are_as_long_as_utf8_has_them(void **state)
{
	static const struct {
		uint32_t c;
		const char *utf8;
	} chars[] = {
		{ 0x7f, "?" }, /* a control character */
		{ 0x7e, "~" },
		{ 0xa1, "\xc2\xa1" },
		{ 0x7ff, "\xdf\xbf" },
		{ 0x800, "\xe0\xa0\x80" },
		{ 0xd7ff, "\xed\x9f\xbf" },
		{ 0xd800, "?" },
		{ 0xdfff, "?" },
		{ 0xe000, "\xee\x80\x80" },
		{ 0xffff, "\xef\xbf\xbf" },
		{ 0x10000, "\xf0\x90\x80\x80" },
		{ 0x10ffff, "\xf4\x8f\xbf\xbf" },
		{ 0x110000, "?" },
	};

	for (size_t i = 0; i < sizeof(chars) / sizeof(chars[0]); i++) {
		char got[8];

		pycode_utf8((const void *)&chars[i].c, 4, 4, got, sizeof(got));
		assert_string_equal(got, chars[i].utf8);
	}
}

/*
 * One wrong word, one byte less, one wrong byte of a table: how often it is the code that it was,
 * another one or none, in how many calls, and which lines. Nobody can say of each what is right;
 * a change of the sums is a change of what is believed.
 */

enum { SAME, ANOTHER, BAD_MESSAGE, FAULT, CALLS, UNLIKE, LINES, SUMS };

static void expect_sums(const uint64_t is[SUMS], const uint64_t want[SUMS])
{
	char text[256], *p = text;

	if (memcmp(is, want, SUMS * sizeof(*is)) == 0)
		return;
	for (int i = 0; i < SUMS; i++)
		p += sprintf(p, "%s%llu", i ? ", " : "", (unsigned long long)is[i]);
	fail_msg("{ %s }", text);
}

/* Of which @was is the copy, and @print the fingerprint, without damage. */
static void add_copy(struct target *t, const struct pycode_copy *was, struct pycode_print print,
		     uint64_t sums[SUMS])
{
	struct pycode_print now = { 0 };
	int r = pycode_fingerprint(&t->base, t->l, t->head, &now);

	sums[UNLIKE] += r < 0 || !same(print, now);
	r = copy(t);
	sums[CALLS] += (uint64_t)t->calls;
	if (r < 0) {
		sums[r == -EFAULT ? FAULT : BAD_MESSAGE]++;
		return;
	}
	t->copy.print = was->print;
	sums[pycode_copy_size(&t->copy) == pycode_copy_size(was) &&
			     !memcmp(&t->copy, was, pycode_copy_size(was)) ?
		     SAME :
		     ANOTHER]++;
	for (uint32_t at = 0; at < 16; at += 2)
		sums[LINES] += (uint64_t)pycode_line(&t->copy, at) & 0xffff;
}

static void damage_words(struct target *t, unsigned char *at, size_t n,
			 const struct pycode_copy *was, struct pycode_print print,
			 uint64_t sums[SUMS])
{
	for (size_t i = 0; i + 8 <= n; i += 4) {
		uint64_t word = load_u64(at + i);
		const uint64_t values[] = { 0,	      UINT64_MAX, 1,	    word ^ 1,
					    word + 8, word - 8,	  word + 1, word ^ 0x100,
					    word + (1ull << 32) };

		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			memcpy(at + i, &values[k], 8);
			add_copy(t, was, print, sums);
		}
		memcpy(at + i, &word, 8);
	}
}

/* What lies behind @n bytes can't be read. */
static void cut_short(struct target *t, struct rmem_chunk *c, const struct pycode_copy *was,
		      struct pycode_print print, uint64_t sums[SUMS])
{
	size_t whole = c->n;

	for (c->n = 0; c->n < 128; c->n++)
		add_copy(t, was, print, sums);
	c->n = whole;
}

static void damage_object(struct target *t, uint64_t sums[SUMS])
{
	struct pycode_copy *was = malloc(PYCODE_COPY_MAX);
	struct pycode_print as = print(t);

	assert_int_equal(copy(t), 0);
	memcpy(was, &t->copy, pycode_copy_size(&t->copy));
	damage_words(t, t->head, t->l->code.size, was, as, sums);
	damage_words(t, t->type, 64, was, as, sums);
	damage_words(t, t->name, 96, was, as, sums);
	damage_words(t, t->file, 96, was, as, sums);
	damage_words(t, t->table, 64, was, as, sums);
	damage_words(t, (unsigned char *)t->type_name, 8, was, as, sums);
	for (size_t i = 0; i < ARRAY_SIZE(t->chunks); i++)
		cut_short(t, &t->chunks[i], was, as, sums);
	free(was);
}

static void damaged_objects(void **state)
{
	static const uint16_t wide[] = { 'm', 0x20ac, 'n' };
	uint64_t sums[SUMS] = { 0 };

	for (uint16_t v = 0x030b; v <= 0x030f; v++) {
		struct target *t = target_create(v);

		damage_object(t, sums);
		if (pyoff_has(t->l->code.version))
			put(t->head, t->l->code.version, 0, 4);
		put_name(t, wide, 3, 2, COMPACT);
		put_str(t, t->file, "away.py", 7, 1, ASCII);
		damage_object(t, sums);
		free(t);
	}
	expect_sums(sums,
		    (uint64_t[SUMS]){ 13278, 1550, 540, 4896, 47352, 4092, 779674 });
}

static void damaged_tables(void **state)
{
	static const unsigned char xors[] = { 0x01, 0x02, 0x08, 0x10, 0x40, 0x78, 0x80, 0xff };
	uint64_t sums[SUMS] = { 0 };

	for (int kind = PY_LNOTAB; kind <= PY_LNOTAB_UNSIGNED; kind++)
		for (size_t i = 0; i < sizeof(table_3_13_1); i++)
			for (size_t k = 0; k < ARRAY_SIZE(xors); k++) {
				struct pycode_copy *c =
					table_copy(table_3_13_1, sizeof(table_3_13_1), 1000);
				int min, max;

				c->linetable = (uint8_t)kind;
				c->cut = k % 2 ? PYCODE_TABLE_CUT : 0;
				c->data[i] ^= xors[k];
				for (uint32_t at = 0; at < 256; at += 2) {
					int line = pycode_line(c, at);

					sums[SAME] += line == 0;
					sums[LINES] += (uint64_t)line & 0xffff;
				}
				pycode_line_range(c, &min, &max);
				sums[ANOTHER] += (uint64_t)min & 0xffff;
				sums[CALLS] += (uint64_t)max & 0xffff;
				free(c);
			}
	expect_sums(sums,
		    (uint64_t[SUMS]){ 9033, 4407358, 0, 0, 19040499, 0, 824714042 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy_tells_all),
		cmocka_unit_test(every_kind_of_string),
		cmocka_unit_test(free_threaded_string),
		cmocka_unit_test(output_is_cut_at_characters),
		cmocka_unit_test(long_ones_are_cut),
		cmocka_unit_test(nothing_behind),
		cmocka_unit_test(no_code_object),
		cmocka_unit_test(counter_needs_no_reads),
		cmocka_unit_test(print_sees_change),
		cmocka_unit_test(contents_count_in_3_11),
		cmocka_unit_test(print_ignores_the_rest),
		cmocka_unit_test(print_of_a_long_table_ends_with_it),
		cmocka_unit_test(blocks_from_tapes),
		cmocka_unit_test(older_tables),
		cmocka_unit_test(cut_tables),
		cmocka_unit_test(a_table_is_read_to_its_end_and_no_further),
		cmocka_unit_test(lines_are_co_lines),
		cmocka_unit_test(lines_without_columns),
		cmocka_unit_test(empty_and_damaged_tables),
		cmocka_unit_test(byte_strings_are_utf8),
		cmocka_unit_test(characters_are_as_long_as_utf8_has_them),
		cmocka_unit_test(damaged_objects),
		cmocka_unit_test(damaged_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
