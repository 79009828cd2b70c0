/* SPDX-License-Identifier: MIT
 *
 * folded_names_test - what frames are called, and that a name is one number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "base/base.h"
#include "../../output/folded_names.h"

static const struct pyfunc spin = { .qualname = "spin", .file = "/srv/shop/work.py" };
static const struct pyfunc other = { .qualname = "Other.run",
				     .file = "/usr/lib/python3.11/json/a;b.py",
				     .index = 1 };
static const struct pyfunc twin = { .qualname = "spin", .file = "/srv/blog/work.py", .index = 2 };

/* How a name is written. It stays until the next call. */
static const char *written(const struct folded_names *f, uint32_t id)
{
	static char text[1 << 15];
	FILE *out = fmemopen(text, sizeof(text), "w");

	folded_names_write(f, id, out);
	fputc('\0', out);
	fclose(out);
	return text;
}

static void texts_are_fit(void **state)
{
	struct folded_names f = { 0 };
	uint32_t a, b;

	assert_int_equal(0, folded_names_init(&f, SESSION_LINES));
	a = folded_names_add(&f, "a;b;\nc");
	b = folded_names_add(&f, "");
	assert_int_not_equal(a, b);
	assert_int_equal(a, folded_names_add(&f, "a:b:?c"));
	assert_int_equal(a, folded_names_format(&f, "%c;b%s", 'a', ":\x01" "c"));
	assert_int_equal(0, folded_names_shorten(&f));
	assert_string_equal("a:b:?c", written(&f, a));
	assert_string_equal("", written(&f, b));
	folded_names_deinit(&f);
}

/* @lines, @paths: are they shown? */
static void check_functions(bool lines, bool paths)
{
	const struct {
		const struct pyfunc *func;
		int line;
		const char *with_line, *path, *name;
	} rows[] = {
		{ &spin, 7, ":7", "/srv/shop/work.py", "work.py" },
		{ &spin, 2, ":2", "/srv/shop/work.py", "work.py" },
		{ &spin, 0, "", "/srv/shop/work.py", "work.py" },
		{ &spin, -7, "", "/srv/shop/work.py", "work.py" },
		{ &other, 7, ":7", "/usr/lib/python3.11/json/a:b.py", "json/a:b.py" },
		{ &other, 2147483647, ":2147483647", "/usr/lib/python3.11/json/a:b.py",
		  "json/a:b.py" },
		{ &other, 0, "", "/usr/lib/python3.11/json/a:b.py", "json/a:b.py" },
	};
	struct folded_names f = { 0 };
	uint32_t id[ARRAY_SIZE(rows)];
	char want[256];

	assert_int_equal(0, folded_names_init(&f, (lines ? SESSION_LINES : 0) |
							  (paths ? SESSION_FULL_PATHS : 0)));
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			uint32_t got = folded_names_python(&f, rows[i].func, rows[i].line);

			assert_true(!round || got == id[i]);
			id[i] = got;
		}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < i; k++)
			assert_int_equal(rows[i].func == rows[k].func &&
						 (!lines || !strcmp(rows[i].with_line,
								    rows[k].with_line)),
					 id[i] == id[k]);
	assert_int_equal(0, folded_names_shorten(&f));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(want, sizeof(want), "%s (%s%s)", rows[i].func->qualname,
			 paths ? rows[i].path : rows[i].name, lines ? rows[i].with_line : "");
		assert_string_equal(want, written(&f, id[i]));
	}
	folded_names_deinit(&f);
}

static void functions(void **state)
{
	for (unsigned i = 0; i < 4; i++)
		check_functions(i & 1, i & 2);
}

/* Short names are those of the files that are known by then. */
static void again_when_there_are_more(void **state)
{
	struct folded_names f = { 0 };
	uint32_t first, plain, second;

	folded_names_init(&f, SESSION_LINES);
	assert_int_equal(0, folded_names_shorten(&f)); /* of nothing */
	plain = folded_names_add(&f, "work.py");
	first = folded_names_python(&f, &spin, 3);
	assert_int_equal(0, folded_names_shorten(&f));
	assert_string_equal("spin (work.py:3)", written(&f, first));
	assert_string_equal("work.py", written(&f, plain));
	second = folded_names_python(&f, &twin, 3);
	assert_int_not_equal(first, second);
	assert_int_equal(0, folded_names_shorten(&f));
	assert_string_equal("spin (shop/work.py:3)", written(&f, first));
	assert_string_equal("spin (blog/work.py:3)", written(&f, second));
	assert_string_equal("work.py", written(&f, plain));
	folded_names_deinit(&f);
}

/* Text that stays where it is is not read twice. */
static void kept_texts(void **state)
{
	char text[] = "[late]";
	struct folded_names f = { 0 };
	uint32_t id;

	folded_names_init(&f, 0);
	id = folded_names_kept(&f, text);
	assert_int_equal(id, folded_names_add(&f, "[late]"));
	text[1] = 'L';
	assert_int_equal(id, folded_names_kept(&f, text));
	assert_int_not_equal(id, folded_names_kept(&f, "[torn]"));
	folded_names_deinit(&f);
}

/* What was known is known; what is new has a name once there is room again. */
static void no_room(void **state)
{
	struct folded_names f = { 0 };
	static const char late[] = "[late]";
	uint32_t known, kept, unnamed;

	folded_names_init(&f, SESSION_LINES);
	known = folded_names_python(&f, &spin, 3);
	kept = folded_names_kept(&f, late + 1);
	unnamed = folded_names_add(&f, FOLDED_UNNAMED);
	f.full = true;
	assert_int_equal(unnamed, folded_names_add(&f, "new"));
	assert_int_equal(unnamed, folded_names_python(&f, &other, 3));
	assert_int_equal(unnamed, folded_names_kept(&f, late));
	assert_int_equal(known, folded_names_python(&f, &spin, 3));
	assert_int_equal(kept, folded_names_kept(&f, late + 1));
	f.full = false;
	assert_int_not_equal(unnamed, folded_names_python(&f, &other, 3));
	assert_int_not_equal(unnamed, folded_names_kept(&f, late));
	assert_int_equal(0, folded_names_shorten(&f));
	assert_string_equal(FOLDED_UNNAMED, written(&f, unnamed));
	assert_string_equal("Other.run (json/a:b.py:3)",
			    written(&f, folded_names_python(&f, &other, 3)));
	folded_names_deinit(&f);
}

/* The longest names that there are stay whole. */
static void long_names(void **state)
{
	static char name[PYFUNC_NAME_MAX + 1], file[PYFUNC_FILE_MAX + 1], want[1 << 15];
	const struct pyfunc func = { .qualname = name, .file = file };
	struct folded_names f = { 0 };
	uint32_t id;

	memset(name, 'n', PYFUNC_NAME_MAX);
	memset(file, 'f', PYFUNC_FILE_MAX);
	for (int paths = 0; paths < 2; paths++) {
		memset(&f, 0, sizeof(f));
		folded_names_init(&f, SESSION_LINES | (paths ? SESSION_FULL_PATHS : 0));
		id = folded_names_python(&f, &func, 1234567890);
		assert_int_equal(0, folded_names_shorten(&f));
		snprintf(want, sizeof(want), "%s (%s:1234567890)", name, file);
		assert_string_equal(want, written(&f, id));
		folded_names_deinit(&f);
	}
}

/* All that is kept counts, each byte once. */
static void bytes_of_names(void **state)
{
	static char texts[5000][8];
	struct folded_names f = { 0 };

	folded_names_init(&f, SESSION_LINES);
	for (int line = 1; line < 5000; line++) {
		folded_names_python(&f, &spin, line);
		snprintf(texts[line], sizeof(texts[line]), "%d", line);
		folded_names_kept(&f, texts[line]);
	}
	assert_true(idmap_bytes(&f.lines) > 0 && idmap_bytes(&f.kept) > 0);
	assert_int_equal(strtab_bytes(f.text) + idmap_bytes(&f.lines) + idmap_bytes(&f.kept) +
				 f.with_file.cap,
			 folded_names_bytes(&f));
	folded_names_deinit(&f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_fit), cmocka_unit_test(functions),
		cmocka_unit_test(again_when_there_are_more), cmocka_unit_test(kept_texts),
		cmocka_unit_test(no_room), cmocka_unit_test(long_names),
		cmocka_unit_test(bytes_of_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
