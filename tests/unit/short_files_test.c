/* SPDX-License-Identifier: MIT
 *
 * short_files_test - paths in, short names out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "base/base.h"
#include "../../output/short_files.h"

/* Pairs of a file and its short name, also in the opposite order. */
static void check(const char *const (*pair)[2], size_t n)
{
	const char *file[16], *name[16];

	for (unsigned turned = 0; turned < 2; turned++) {
		for (size_t i = 0; i < n; i++)
			file[i] = pair[turned ? n - 1 - i : i][0];
		assert_int_equal(short_files(file, n, name), 0);
		for (size_t i = 0; i < n; i++)
			assert_string_equal(name[i], pair[turned ? n - 1 - i : i][1]);
	}
}

static void libraries_are_left_out(void **state)
{
	static const char *const pairs[][2] = {
		{ "/srv/a/shop/main.py", "main.py" },
		{ "/usr/lib/python3.11/json/decoder.py", "json/decoder.py" },
		{ "/usr/lib/python3/dist-packages/apt/cache.py", "apt/cache.py" },
		{ "/v/lib/python3.12/site-packages/numpy/core/x.py", "numpy/core/x.py" },
		{ "/opt/lib/python3.13t/threading.py", "threading.py" },
		{ "/srv/a/python/tool.py", "tool.py" },
		{ "/srv/a/python3/one/two.py", "two.py" },
		{ "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>" },
		{ "<a/b>", "<a/b>" },
		{ "x.py", "x.py" },
		{ "json/tool.py", "json/tool.py" },
		{ "/a/", "/a/" },
		{ "", "" },
	};

	check(pairs, ARRAY_SIZE(pairs));
}

static void equal_names_get_folders(void **state)
{
	static const char *const pairs[][2] = {
		{ "/srv/shop/models.py", "shop/models.py" },
		{ "/srv/blog/models.py", "blog/models.py" },
		{ "/a/x/y.py", "/a/x/y.py" },
		{ "/b/x/y.py", "/b/x/y.py" },
		{ "x/y.py", "x/y.py" },
		{ "/usr/lib/python3.11/json/decoder.py", "python3.11/json/decoder.py" },
		{ "/usr/lib/python3.12/json/decoder.py", "python3.12/json/decoder.py" },
		{ "/app.py", "/app.py" },
		{ "app.py", "app.py" },
	};

	check(pairs, ARRAY_SIZE(pairs));
}

/* More folders in common than are tried one by one. */
static void far_apart(void **state)
{
	char a[128] = "/a", b[128] = "/b";

	for (unsigned i = 0; i < 40; i++) {
		strcat(a, "/x");
		strcat(b, "/x");
	}
	const char *const pairs[][2] = { { a, a }, { b, b } };

	check(pairs, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libraries_are_left_out),
		cmocka_unit_test(equal_names_get_folders),
		cmocka_unit_test(far_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
