/* SPDX-License-Identifier: MIT
 *
 * fuzz_linetable - code copies of any kind of bytes: lines, names, and the profile.
 */
#include "../unit/pycode_fixtures.h"
#include "fuzz.h"
#include "stacks/profile.h"

/* Valid UTF-8, as every output relies on. */
static void check_text(const char *s, size_t n)
{
	FUZZ_CHECK(strlen(s) == n);
	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)s[i++];
		int more = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;

		FUZZ_CHECK(c && (c < 0x80 || c >= 0xc2) && c < 0xf5);
		for (; more; more--)
			FUZZ_CHECK(((unsigned char)s[i++] & 0xc0) == 0x80);
	}
}

static void check_lines(const struct pycode_copy *c)
{
	/* Not many: each reads the whole table. */
	static const uint32_t at[] = { 0, 2, 6, 20, 54, 110, 220, 398 };
	int min, max, far;

	pycode_line_range(c, &min, &max);
	FUZZ_CHECK(min >= 0 && min <= max);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		int line = pycode_line(c, at[i]);

		FUZZ_CHECK(line == 0 || (line >= min && line <= max));
		fuzz_note((uint64_t)line);
	}
	fuzz_note((uint64_t)min << 32 ^ (uint64_t)max);
	/* The last line of a co_lnotab has no end. */
	far = pycode_line(c, UINT32_MAX - 1);
	if (c->linetable == PY_LNOTAB || c->linetable == PY_LNOTAB_UNSIGNED)
		FUZZ_CHECK(far == 0 || (far >= min && far <= max));
	else
		FUZZ_CHECK(far == 0);
}

static void check_names(const struct pycode_copy *c)
{
	char name[PYCODE_NAME_MAX * 3 + 1], file[PYCODE_FILE_MAX * 3 + 1], small[5];

	check_text(name, pycode_name(c, name, sizeof(name)));
	check_text(file, pycode_file(c, file, sizeof(file)));
	check_text(small, pycode_name(c, small, sizeof(small)));
	FUZZ_CHECK(!strncmp(name, small, strlen(small)));
	fuzz_note_text(name);
	fuzz_note_text(file);
	fuzz_note_text(small);
}

static void check_profile(const struct pycode_copy *c, size_t n)
{
	static struct profile *p;
	static unsigned long runs;
	int line;

	if (!p || ++runs % 1024 == 0) {
		profile_destroy(p);
		p = profile_create();
	}
	FUZZ_CHECK(profile_code(p, 1 + runs % 512, c, n) == 0);
	FUZZ_CHECK(profile_lookup(p, 1 + runs % 512, 6, &line));
	FUZZ_CHECK(line == pycode_line(c, 6));
	FUZZ_CHECK(!profile_lookup(p, 5000, 6, &line));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pycode_copy *c = malloc(n ? n : 1);

	memcpy(c, data, n);
	fuzz_note(n);
	if (pycode_copy_valid(c, n)) {
		check_lines(c);
		check_names(c);
		check_profile(c, n);
	}
	free(c);
	return 0;
}

struct seed {
	uint8_t kind;
	struct bytes name, table;
};

#define BYTES(a)                                      \
	{                                             \
		(const unsigned char *)(a), sizeof(a) \
	}

static const uint16_t wide[] = { 'a', 0x20ac, 0xd800, 0x2028, 'z' };
static const uint32_t widest[] = { 0x1f600, 'b', 0x110000, 7 };
static const struct seed seeds[] = {
	{ 1, BYTES("Klass.method"), BYTES(table_3_11_0) },
	{ 1, BYTES("w\xe4it"), BYTES(table_3_11_1) },
	{ 2, BYTES(wide), BYTES(table_3_13_1) },
	{ 4, BYTES(widest), BYTES(table_3_15_0) },
};

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const char file[] = "/srv/app/main.py";
	const struct seed *s = &seeds[i];
	struct pycode_copy c = { .firstlineno = 17,
				 .file_n = sizeof(file) - 1,
				 .file_kind = 1 };
	uint8_t *p = buf;

	if (i >= ARRAY_SIZE(seeds))
		return 0;
	c.name_kind = s->kind;
	c.name_n = (uint32_t)s->name.n;
	c.table_n = (uint32_t)s->table.n;
	c.linetable = PY_LOCATIONS_311;
	if (pycode_copy_size(&c) > cap)
		abort();
	p = (uint8_t *)memcpy(p, &c, sizeof(c)) + sizeof(c);
	p = (uint8_t *)memcpy(p, s->name.at, s->name.n) + s->name.n;
	p = (uint8_t *)memcpy(p, file, sizeof(file) - 1) + sizeof(file) - 1;
	memcpy(p, s->table.at, s->table.n);
	return pycode_copy_size(&c);
}
