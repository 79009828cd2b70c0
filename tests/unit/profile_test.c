/* SPDX-License-Identifier: MIT
 *
 * profile: codes become functions; equal ones are one, also from several readers.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"
#include "no_memory.h"

#include "base/hash.h"
#include "base/stats.h"
#include "stacks/profile.h"

/* A code copy: line @line and the next, one code unit each. */
static struct pycode_copy *copy_of(const char *name, const char *file, int line)
{
	static const unsigned char table[] = { 0x80 | 13 << 3, 0, 0x80 | 13 << 3, 2 };
	struct pycode_copy *c = calloc(1, PYCODE_COPY_MAX);

	*c = (struct pycode_copy){
		.firstlineno = line,
		.name_n = (uint32_t)strlen(name),
		.file_n = (uint32_t)strlen(file),
		.table_n = sizeof(table),
		.name_kind = 1,
		.file_kind = 1,
		.linetable = PY_LOCATIONS_311,
	};
	memcpy(c->data, name, c->name_n);
	memcpy(c->data + c->name_n, file, c->file_n);
	memcpy(c->data + c->name_n + c->file_n, table, sizeof(table));
	return c;
}

static void note(struct profile *p, uint64_t id, const char *name, const char *file, int line)
{
	struct pycode_copy *c = copy_of(name, file, line);

	assert_int_equal(profile_code(p, id, c, pycode_copy_size(c)), 0);
	free(c);
}

static const struct pyfunc *func(struct profile *p, uint64_t id)
{
	int line;

	return profile_lookup(p, id, 0, &line);
}

static void tells_function_and_line(void **state)
{
	struct profile *p = profile_create();
	const struct pyfunc *f;
	int line;

	note(p, 1, "K.run", "/srv/k.py", 40);
	f = profile_lookup(p, 1, 0, &line);
	assert_string_equal(f->qualname, "K.run");
	assert_string_equal(f->file, "/srv/k.py");
	assert_int_equal(f->firstline, 40);
	assert_int_equal(f->min, 40);
	assert_int_equal(f->max, 41);
	assert_int_equal(f->index, 1);
	assert_int_equal(line, 40);
	assert_ptr_equal(profile_lookup(p, 1, 2, &line), f);
	assert_int_equal(line, 41);
	assert_ptr_equal(profile_lookup(p, 1, 4, &line), f); /* behind its end */
	assert_int_equal(line, 0);
	assert_ptr_equal(profile_lookup(p, 1, 0, &line), f);
	assert_int_equal(line, 40);
	profile_destroy(p);
}

static void same_content_is_one_function(void **state)
{
	struct profile *p = profile_create();

	note(p, 1, "run", "/a.py", 1);
	note(p, 1ull << 52 | 1, "run", "/a.py", 1); /* another reader's copy */
	note(p, 2, "run", "/b.py", 1);
	note(p, 3, "run", "/a.py", 2);
	note(p, 4, "ru", "n/a.py", 1); /* the same bytes in other parts */
	assert_ptr_equal(func(p, 1), func(p, 1ull << 52 | 1));
	for (uint64_t id = 2; id <= 4; id++)
		for (uint64_t other = 1; other < id; other++)
			assert_ptr_not_equal(func(p, id), func(p, other));
	assert_int_equal(func(p, 4)->index, 4);
	profile_destroy(p);
}

/* The same bytes as text of one or two bytes a character are other names. */
static void kinds_of_text(void **state)
{
	struct pycode_copy *c = copy_of("aabb", "/x.pyy", 7);
	struct profile *p = profile_create();

	for (int i = 0; i < 4; i++) {
		c->name_kind = i & 1 ? 2 : 1;
		c->file_kind = i & 2 ? 2 : 1;
		assert_int_equal(profile_code(p, (uint64_t)i + 1, c, pycode_copy_size(c)), 0);
	}
	for (uint64_t id = 2; id <= 4; id++)
		for (uint64_t other = 1; other < id; other++)
			assert_ptr_not_equal(func(p, id), func(p, other));
	free(c);
	profile_destroy(p);
}

/* The same in all but the lowest or the highest line. */
static void functions_of_other_lines(void **state)
{
	struct pycode_copy *c = copy_of("f", "/a.py", 40);
	unsigned char *table = c->data + c->name_n + c->file_n;
	struct profile *p = profile_create();

	note(p, 1, "f", "/a.py", 40); /* 40 to 41 */
	table[1] = 3, table[3] = 4;   /* one less, two more: 39 to 41 */
	assert_int_equal(profile_code(p, 2, c, pycode_copy_size(c)), 0);
	table[3] = 2; /* 39 to 40 */
	assert_int_equal(profile_code(p, 3, c, pycode_copy_size(c)), 0);
	assert_int_equal(func(p, 2)->min, 39);
	assert_int_equal(func(p, 2)->max, 41);
	assert_ptr_not_equal(func(p, 1), func(p, 2));
	assert_ptr_not_equal(func(p, 2), func(p, 3));
	assert_ptr_not_equal(func(p, 1), func(p, 3));
	free(c);
	profile_destroy(p);
}

/* The same bytes, of which one table goes on behind them: its last entry may be half of one. */
static void a_cut_table_is_another(void **state)
{
	struct pycode_copy *c = copy_of("f", "/a.py", 40);
	struct profile *p = profile_create();
	int line;

	note(p, 1, "f", "/a.py", 40);
	c->cut = PYCODE_TABLE_CUT;
	assert_int_equal(profile_code(p, 2, c, pycode_copy_size(c)), 0);
	assert_non_null(profile_lookup(p, 1, 2, &line));
	assert_int_equal(line, 41);
	assert_non_null(profile_lookup(p, 2, 2, &line));
	assert_int_equal(line, 0);
	free(c);
	profile_destroy(p);
}

/* Equal lines from another table: one function, each code with its own lines. */
static void same_function_of_two_codes(void **state)
{
	struct pycode_copy *c = copy_of("f", "/a.py", 7);
	struct profile *p = profile_create();
	int line;

	note(p, 1, "f", "/a.py", 7);
	c->data[c->name_n + c->file_n] |= 1; /* the first line has two code units */
	assert_int_equal(profile_code(p, 2, c, pycode_copy_size(c)), 0);
	assert_ptr_equal(func(p, 1), func(p, 2));
	profile_lookup(p, 1, 2, &line);
	assert_int_equal(line, 8);
	profile_lookup(p, 2, 2, &line);
	assert_int_equal(line, 7);
	free(c);
	profile_destroy(p);
}

/* What no number stands for any more is freed; functions stay what they are. */
static void forgets(void **state)
{
	enum { MANY = 20000, READER = 1 << 30, STEP = 1000 };
	struct profile *p = profile_create();
	const struct pyfunc *of_a, *of_b;
	size_t most = 0;

	note(p, 1, "a", "/x.py", 7);
	note(p, READER + 1, "a", "/x.py", 7);
	of_a = func(p, 1);
	profile_forget(p, 0, 2);
	assert_null(func(p, 1));
	assert_ptr_equal(func(p, READER + 1), of_a); /* another reader's number */
	assert_int_equal(profile_same(p, READER + 2, READER + 1), 0);
	assert_int_equal(profile_same(p, READER + 3, 1), -ENOENT);
	profile_forget(p, READER, READER + 2);
	assert_null(func(p, READER + 1));
	assert_ptr_equal(func(p, READER + 2), of_a);
	profile_forget(p, READER, READER + 3);
	assert_int_equal(profile_codes(p), 0);
	for (uint64_t i = 1; i <= MANY; i++) {
		note(p, i, "b", "/x.py", (int)i);
		if (i % STEP == 0) {
			of_b = func(p, i);
			profile_forget(p, 0, i);
			assert_ptr_equal(func(p, i), of_b);
		}
		most = profile_codes(p) > most ? profile_codes(p) : most;
	}
	assert_int_equal(most, STEP);
	note(p, MANY + 1, "a", "/x.py", 7);
	assert_ptr_equal(func(p, MANY + 1), of_a);
	profile_destroy(p);
}

/* New functions beyond the bound are one; known ones stay what they are. */
static void unnamed_beyond_the_bound(void **state)
{
	enum { MANY = 1000, BYTES = 30000 };
	struct stats stats = { .lost = 0 };
	struct profile *p = profile_create();
	size_t named = 0;

	profile_limit(p, BYTES, &stats);
	for (uint64_t i = 1; i <= MANY; i++)
		note(p, i, "f", "/x.py", (int)i);
	for (uint64_t i = 1; i <= MANY; i++)
		named += strcmp(func(p, i)->qualname, "f") == 0;
	assert_true(named > BYTES / 400 && named < BYTES / 256);
	assert_int_equal(STATS_GET(&stats, unnamed), MANY - named);
	assert_string_equal(func(p, MANY)->qualname, "[unnamed]");
	assert_int_equal(func(p, MANY)->index, 0);
	assert_ptr_equal(func(p, MANY), func(p, MANY - 1));
	note(p, MANY + 1, "f", "/x.py", 5);
	assert_ptr_equal(func(p, MANY + 1), func(p, 5));
	profile_destroy(p);
}

/* So is code, whose line tables may be large, until what no number stands for any more is
 * forgotten: also where it is of one function. */
static void unnamed_beyond_the_bound_of_code(void **state)
{
	enum { MANY = 40, FIT = 20, BYTES = FIT * PYCODE_TABLE_MAX };
	struct pycode_copy *c = copy_of("f", "/x.py", 7);
	struct stats stats = { .lost = 0 };
	struct profile *p = profile_create();
	uint64_t named = 0;

	profile_limit(p, BYTES, &stats);
	c->table_n = PYCODE_TABLE_MAX;
	for (uint64_t i = 1; i <= MANY; i++) {
		c->data[c->name_n + c->file_n + 100] = (unsigned char)i;
		assert_int_equal(profile_code(p, i, c, pycode_copy_size(c)), 0);
		named += strcmp(func(p, i)->qualname, "f") == 0;
	}
	assert_int_equal(named, FIT - 1); /* each takes a little more than its table */
	assert_int_equal(STATS_GET(&stats, unnamed), MANY - named);
	assert_string_equal(func(p, MANY)->qualname, "[unnamed]");
	profile_forget(p, 1, MANY + 1);
	note(p, MANY + 1, "g", "/x.py", 7);
	assert_string_equal(func(p, MANY + 1)->qualname, "g");
	assert_int_equal(profile_code(p, 1, c, pycode_copy_size(c)), 0);
	assert_string_equal(func(p, 1)->qualname, "f");
	free(c);
	profile_destroy(p);
}

/* What there is no room for stands for something all the same: stacks that it is on keep their
 * other frames. */
static void unnamed_without_a_copy(void **state)
{
	struct stats stats = { .lost = 0 };
	struct profile *p = profile_create();
	int line = -1;

	profile_limit(p, 0, &stats);
	note(p, 1, "f", "/x.py", 7);
	assert_string_equal(profile_lookup(p, 1, 0, &line)->qualname, "[unnamed]");
	assert_int_equal(line, 0);
	assert_int_equal(profile_codes(p), 0);
	assert_int_equal(profile_same(p, 2, 1), 0);
	profile_forget(p, 1, 2);
	assert_null(profile_lookup(p, 1, 0, &line));
	assert_string_equal(func(p, 2)->qualname, "[unnamed]");
	profile_destroy(p);
}

static void unknown_ids(void **state)
{
	struct profile *p = profile_create();

	assert_null(func(p, 1));
	assert_null(func(p, 0));
	note(p, 5, "f", "/a.py", 7);
	assert_null(func(p, 4));
	assert_null(func(p, UINT64_MAX));
	assert_non_null(func(p, 5));
	profile_destroy(p);
}

static void id_takes_other_code(void **state)
{
	struct profile *p = profile_create();
	const struct pyfunc *f;

	note(p, 5, "f", "/a.py", 7);
	f = func(p, 5);
	note(p, 5, "g", "/a.py", 7);
	assert_string_equal(func(p, 5)->qualname, "g");
	assert_string_equal(f->qualname, "f"); /* it stays */
	profile_destroy(p);
}

static void damaged_blocks(void **state)
{
	struct pycode_copy *c = copy_of("f", "/a.py", 7);
	struct profile *p = profile_create();
	size_t n = pycode_copy_size(c);

	for (size_t i = 0; i < n; i++)
		assert_int_equal(profile_code(p, 1, c, i), -EBADMSG);
	c->name_kind = 3;
	assert_int_equal(profile_code(p, 1, c, n), -EBADMSG);
	assert_null(func(p, 1));
	free(c);
	profile_destroy(p);
}

/* All tables grow; pointers, indices and lines stay. */
static void many(void **state)
{
	enum { N = 20000 };
	struct profile *p = profile_create();
	const struct pyfunc **f = calloc(N, sizeof(struct pyfunc *));
	char name[32];
	int line;

	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		note(p, (uint64_t)i + 1, name, "/a.py", i + 1);
		f[i] = func(p, (uint64_t)i + 1);
		assert_int_equal(f[i]->index, i + 1);
	}
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		assert_ptr_equal(profile_lookup(p, (uint64_t)i + 1, 2, &line), f[i]);
		assert_string_equal(f[i]->qualname, name);
		assert_int_equal(line, i + 2);
	}
	assert_null(func(p, N + 1));
	free(f);
	profile_destroy(p);
}

/* Functions that differ in their file only, in a table where they meet. */
static void same_name_in_many_files(void **state)
{
	enum { N = 400 };
	struct profile *p = profile_create();
	char file[32];

	for (int i = 0; i < N; i++) {
		snprintf(file, sizeof(file), "/f%d.py", i);
		note(p, (uint64_t)i + 1, "main", file, 1);
		assert_int_equal(func(p, (uint64_t)i + 1)->index, i + 1);
		assert_string_equal(func(p, (uint64_t)i + 1)->file, file);
	}
	profile_destroy(p);
}

/* Each instruction has its line, also where two share a place in the cache. */
static void many_lines(void **state)
{
	enum { N = 8000 };
	struct pycode_copy *c = copy_of("f", "/a.py", 1);
	unsigned char *table = c->data + c->name_n + c->file_n;
	struct profile *p = profile_create();
	int line;

	c->table_n = 2 * N;
	for (int i = 0; i < N; i++) {
		table[2 * i] = 0x80 | 13 << 3;
		table[2 * i + 1] = 2;
	}
	assert_int_equal(profile_code(p, 1, c, pycode_copy_size(c)), 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < N; i++) {
			assert_non_null(profile_lookup(p, 1, (uint32_t)(2 * i), &line));
			assert_int_equal(line, i + 2);
		}
	}
	free(c);
	profile_destroy(p);
}

/* A name that stands among frames is no function, also where one is called so. */
static void a_label_is_no_function(void **state)
{
	struct profile *p = profile_create();
	struct pycode_copy *c = copy_of("[task a]", "", 0);

	note(p, 1, "[task a]", "", 0);
	c->flags = PYCODE_LABEL;
	assert_int_equal(profile_code(p, 2, c, pycode_copy_size(c)), 0);
	assert_int_equal(profile_code(p, 3, c, pycode_copy_size(c)), 0);
	assert_false(func(p, 1)->label);
	assert_true(func(p, 2)->label);
	assert_ptr_equal(func(p, 2), func(p, 3));
	assert_string_equal(func(p, 2)->qualname, "[task a]");
	free(c);
	profile_destroy(p);
}

/* Whatever decides a name or a line tells codes apart, and nothing else. */
static void contents_apart(void **state)
{
	struct profile *p = profile_create();
	struct pycode_copy *c = copy_of("ab", "/x.pyy", 7);
	size_t n = pycode_copy_size(c), apart = 1;
	uint64_t id = 1;

	assert_int_equal(profile_code(p, id++, c, n), 0);
	for (size_t i = 0; i < (size_t)c->name_n + c->file_n + c->table_n; i++) {
		c->data[i] ^= 1;
		assert_int_equal(profile_code(p, id++, c, n), 0);
		assert_int_equal(profile_codes(p), ++apart);
		c->data[i] ^= 1;
	}
	c->firstlineno++;
	assert_int_equal(profile_code(p, id++, c, n), 0);
	assert_int_equal(profile_codes(p), ++apart);
	c->firstlineno--;
	c->linetable = PY_LNOTAB;
	assert_int_equal(profile_code(p, id++, c, n), 0);
	assert_int_equal(profile_codes(p), ++apart);
	c->linetable = PY_LOCATIONS_311;
	c->flags = PYCODE_LABEL;
	assert_int_equal(profile_code(p, id++, c, n), 0);
	assert_int_equal(profile_codes(p), ++apart);
	for (uint32_t flags = 0; flags < 8; flags++) {
		c->flags = (flags << 1 | flags >> 2) & ~(uint32_t)PYCODE_LABEL;
		if (!pycode_copy_valid(c, n))
			continue;
		assert_int_equal(profile_code(p, id++, c, n), 0);
		assert_int_equal(profile_codes(p), apart);
	}
	free(c);
	profile_destroy(p);
}

/* Numbers from the first one on, below the last one. */
static void forgets_exactly(void **state)
{
	struct profile *p = profile_create();

	for (uint64_t id = 1; id <= 6; id++)
		note(p, id, id & 1 ? "odd" : "even", "/x.py", 7);
	profile_forget(p, 3, 5);
	for (uint64_t id = 1; id <= 6; id++)
		assert_int_equal(id != 3 && id != 4, func(p, id) != NULL);
	assert_int_equal(profile_codes(p), 2);
	assert_string_equal(func(p, 1)->qualname, "odd");
	assert_string_equal(func(p, 6)->qualname, "even");
	profile_forget(p, 5, 6);
	profile_forget(p, 1, 2);
	assert_int_equal(profile_codes(p), 1); /* no odd one is left */
	profile_forget(p, 7, 100);
	assert_non_null(func(p, 2));
	profile_forget(p, 0, UINT64_MAX);
	assert_int_equal(profile_codes(p), 0);
	profile_destroy(p);
}

/* Lines of code that was freed are not those of code that takes its place. */
static void forgotten_lines(void **state)
{
	struct profile *p = profile_create();
	int line;

	for (int i = 1; i < 100; i++) {
		note(p, 1, "f", "/x.py", i);
		assert_non_null(profile_lookup(p, 1, 2, &line));
		assert_int_equal(line, i + 1);
		profile_forget(p, 1, 2);
	}
	profile_destroy(p);
}

/* Most of many codes are forgotten: what stays is found. */
static void forgets_most(void **state)
{
	enum { N = 5000 };
	struct profile *p = profile_create();
	int line;

	for (uint64_t i = 1; i <= N; i++)
		note(p, i, "f", "/x.py", (int)i);
	for (int round = 0; round < 2; round++) {
		uint64_t from = round ? N / 2 : 2;

		profile_forget(p, 2, round ? N - 1 : N / 2);
		assert_int_equal(profile_codes(p), round ? 3 : N - N / 2 + 2);
		for (uint64_t i = round ? N - 1 : N / 2; i <= N; i++) {
			assert_non_null(profile_lookup(p, i, 2, &line));
			assert_int_equal(line, i + 1);
		}
		assert_non_null(func(p, 1));
		assert_null(func(p, from));
	}
	for (uint64_t i = 2; i <= N; i++) /* and there is room for as many again */
		note(p, i, "g", "/x.py", (int)i);
	assert_int_equal(profile_codes(p),
			 N + 2); /* what numbers stood for is not forgotten */
	assert_string_equal(func(p, N)->qualname, "g");
	assert_string_equal(func(p, 1)->qualname, "f");
	profile_destroy(p);
}

/* A number may stand for what another one stands for, or did. */
static void same_codes(void **state)
{
	struct profile *p = profile_create();

	note(p, 1, "f", "/x.py", 7);
	assert_int_equal(profile_same(p, 2, 1), 0);
	note(p, 1, "g", "/x.py", 7);
	assert_string_equal(func(p, 2)->qualname, "f");
	assert_int_equal(profile_same(p, 2, 1), 0);
	assert_string_equal(func(p, 2)->qualname, "g");
	for (uint64_t id = 3; id < 5000; id++)
		assert_int_equal(profile_same(p, id, id - 1), 0);
	for (uint64_t id = 1; id < 5000; id++)
		assert_ptr_equal(func(p, id), func(p, 1));
	profile_destroy(p);
}

/* Where all hashes are equal codes are still told apart, by each of their bytes. */
static void equal_hashes(void **state)
{
	enum { MANY = 600 }; /* more than half of the places that there are at first */
	const struct hash_seed own = hash_seed;
	struct profile *p = profile_create();
	struct pycode_copy *c = copy_of("run", "/a.py", 1);
	int line;

	hash_seed = (struct hash_seed){ 0 };
	assert_int_equal(hash_pair(1, 2), hash_pair(3, 4));
	note(p, 1, "run", "/a.py", 1);
	note(p, 2, "rum", "/a.py", 1);
	note(p, 3, "run", "/a.px", 1);
	c->data[c->name_n + c->file_n + c->table_n - 1] = 4; /* one line further */
	assert_int_equal(profile_code(p, 4, c, pycode_copy_size(c)), 0);
	free(c);
	assert_string_equal(func(p, 1)->qualname, "run");
	assert_string_equal(func(p, 2)->qualname, "rum");
	assert_string_equal(func(p, 3)->file, "/a.px");
	profile_lookup(p, 1, 2, &line);
	assert_int_equal(line, 2);
	profile_lookup(p, 4, 2, &line);
	assert_int_equal(line, 3);
	for (int i = 5; i <= MANY; i++)
		note(p, (uint64_t)i, "run", "/a.py", i);
	for (int i = 5; i <= MANY; i++)
		assert_int_equal(func(p, (uint64_t)i)->firstline, i);
	profile_destroy(p);
	hash_seed = own;
}

/* What functions take: their texts twice, and as much again for each. */
static void functions_take_their_texts(void **state)
{
	enum { LONG = 1000, BYTES = 100000 };
	char text[LONG + 1];

	for (int which = 0; which < 2; which++) { /* long names, long files */
		struct stats stats = { .lost = 0 };
		struct profile *p = profile_create();
		uint64_t named = 0;

		memset(text, 'n', LONG);
		text[LONG] = '\0';
		profile_limit(p, BYTES, &stats);
		while (!STATS_GET(&stats, unnamed)) {
			named++;
			if (which)
				note(p, named, "f", text, (int)named);
			else
				note(p, named, text, "f", (int)named);
		}
		assert_in_range(named - 1, BYTES / (2 * LONG + 1024), BYTES / (2 * LONG));
		profile_destroy(p);
	}
}

/* --- without memory --- */

/* Codes are noted, and some allocation for @from or those behind it fails: each is its own
 * function, or unnamed, or an error was told; and what is noted later is as ever. */
static void note_without(uint64_t from, long n, bool alone, bool *more)
{
	enum { CODES = 600, LATER = 10 };
	static bool noted[CODES + LATER + 1];
	struct stats stats = { 0 };
	struct profile *p = profile_create();
	struct pycode_copy *c = copy_of("f000", "/x.py", 7);
	char name[16];

	profile_limit(p, 1 << 30, &stats);
	for (uint64_t id = 1; id <= CODES + LATER; id++) {
		int ret;

		if (id == from)
			no_memory_from(n, alone);
		snprintf(name, sizeof(name), "f%03u", (unsigned)id);
		memcpy(c->data, name, 4);
		ret = profile_code(p, id, c, pycode_copy_size(c));
		if (id == CODES)
			*more = no_memory_end();
		assert_true(ret == 0 || (ret == -ENOMEM && id <= CODES));
		noted[id] = ret == 0;
	}
	for (uint64_t id = 1; id <= CODES + LATER; id++) {
		const struct pyfunc *f = func(p, id);

		assert_int_equal(f != NULL, noted[id]);
		if (!f)
			continue;
		snprintf(name, sizeof(name), "f%03u", (unsigned)id);
		if (id > CODES || strcmp(f->qualname, "[unnamed]") != 0)
			assert_string_equal(f->qualname, name);
	}
	profile_destroy(p);
	free(c);
}

static void memory_runs_out(void **state)
{
	for (int alone = 0; alone < 2; alone++) {
		bool more = NO_MEMORY_FAILS;

		for (long n = 1; more; n += n < 50 ? 1 : 37)
			note_without(1, n, alone, &more);
	}
}

/* Each of those by which tables grow that are half full, and those around it. */
static void memory_runs_out_as_tables_grow(void **state)
{
	enum { HALF = 512, EACH = 8 /* that a code takes, and more */ };
	for (uint64_t from = HALF - 2; from <= HALF + 2; from++)
		for (long n = 1; n <= EACH; n++) {
			bool failed;

			note_without(from, n, true, &failed);
			assert_int_equal(failed, NO_MEMORY_FAILS);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_runs_out),
		cmocka_unit_test(memory_runs_out_as_tables_grow),
		cmocka_unit_test(tells_function_and_line),
		cmocka_unit_test(same_content_is_one_function),
		cmocka_unit_test(functions_of_other_lines),
		cmocka_unit_test(a_cut_table_is_another),
		cmocka_unit_test(same_function_of_two_codes),
		cmocka_unit_test(kinds_of_text),
		cmocka_unit_test(forgets),
		cmocka_unit_test(unnamed_beyond_the_bound),
		cmocka_unit_test(unnamed_beyond_the_bound_of_code),
		cmocka_unit_test(unnamed_without_a_copy),
		cmocka_unit_test(unknown_ids),
		cmocka_unit_test(id_takes_other_code),
		cmocka_unit_test(damaged_blocks),
		cmocka_unit_test(many),
		cmocka_unit_test(same_name_in_many_files),
		cmocka_unit_test(a_label_is_no_function),
		cmocka_unit_test(many_lines),
		cmocka_unit_test(contents_apart),
		cmocka_unit_test(forgets_exactly),
		cmocka_unit_test(forgotten_lines),
		cmocka_unit_test(forgets_most),
		cmocka_unit_test(same_codes),
		cmocka_unit_test(equal_hashes),
		cmocka_unit_test(functions_take_their_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
