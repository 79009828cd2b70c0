/* SPDX-License-Identifier: MIT
 *
 * fuzz_layout - what a file's debug info says of CPython's structs. The first two bytes tell
 * which build is meant, the others are the file.
 */
#include "elf/elflayout.h"
#include "fuzz_elf.h"

enum { ABBREV_UNIT = 1, STRUCT, MEMBER, NAMELESS, TYPEDEF, ENUM, CONSTANT, BASE };

static struct elflayout_want want_of(const uint8_t *data)
{
	return (struct elflayout_want){ .version = 0x0300 | data[0],
					.free_threaded = data[1] & 1 };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pyfield_values values = { 0 };
	struct elflayout_want want;
	struct bytes file;
	size_t n_rows;
	const struct pyfield *row = pyfield_all(&n_rows);

	if (n <= 2)
		return 0;
	want = want_of(data);
	file = (struct bytes){ malloc(n - 2), n - 2 };
	memcpy((void *)(uintptr_t)file.at, data + 2, n - 2);
	elflayout_of(file, &want, &values);
	for (size_t i = 0; i < PYFIELD_MAX; i++)
		FUZZ_CHECK(!values.plus1[i] ||
			   (i < n_rows &&
			    pyfield_is_of(&row[i], want.version, want.free_threaded)));
	free((void *)(uintptr_t)file.at);
	return 0;
}

/* ---- Seeds: the structs that are asked for, as a compiler describes them ---- */

static const uint8_t abbrevs[] = {
	ABBREV_UNIT, 0x11, 1, 0, 0,			   /* compile_unit */
	STRUCT, 0x13, 1, 0x03, 0x08, 0x0b, 0x0f, 0, 0,	   /* name, byte_size */
	MEMBER, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0f, 0, 0, /* name, type, location */
	NAMELESS, 0x0d, 0, 0x49, 0x13, 0x38, 0x0f, 0, 0,   /* type, location */
	TYPEDEF, 0x16, 0, 0x03, 0x08, 0x49, 0x13, 0, 0,	   /* name, type */
	ENUM, 0x04, 1, 0x0b, 0x0f, 0, 0,		   /* byte_size */
	CONSTANT, 0x28, 0, 0x03, 0x08, 0x1c, 0x0f, 0, 0,   /* name, const_value */
	BASE, 0x24, 0, 0x0b, 0x0f, 0, 0,		   /* byte_size */
	0,
};

struct dwarf {
	uint8_t at[24 << 10];
	size_t n;
	uint32_t base;
};

static void put(struct dwarf *d, const void *p, size_t n)
{
	if (n > sizeof(d->at) - d->n)
		n = 0;
	memcpy(d->at + d->n, p, n);
	d->n += n;
}

static uint32_t begin(struct dwarf *d, uint8_t abbrev)
{
	uint32_t at = (uint32_t)d->n;

	put(d, &abbrev, 1);
	return at;
}

static void put_number(struct dwarf *d, uint8_t v)
{
	put(d, &(uint8_t){ v & 0x7f }, 1);
}

static void put_name(struct dwarf *d, const char *name, size_t n)
{
	put(d, name, n);
	put(d, "", 1);
}

static void put_member(struct dwarf *d, const char *name, size_t n, uint32_t type, uint8_t at)
{
	begin(d, n ? MEMBER : NAMELESS);
	if (n)
		put_name(d, name, n);
	put(d, &type, sizeof(type));
	put_number(d, at);
}

/* The type of the first member of the path, with what is behind a dot in it; each third is in
 * a struct without a name. */
static uint32_t put_inner(struct dwarf *d, const char *path, uint8_t i, bool *nameless)
{
	const char *dot = strchr(path, '.');
	uint32_t type = d->base, ret;
	bool no;

	*nameless = !dot && i % 3 == 0;
	if (!dot && !*nameless)
		return type;
	if (dot)
		type = put_inner(d, dot + 1, i, &no);
	ret = begin(d, STRUCT);
	put_name(d, "", 0);
	put_number(d, 64);
	path = dot ? dot + 1 : path;
	put_member(d, path, strcspn(path, "."), type, i);
	put(d, "", 1);
	return ret;
}

static void put_struct(struct dwarf *d, const struct pyfield *row, size_t n, size_t first,
		       const struct elflayout_want *want)
{
	uint32_t type[PYFIELD_MAX], whole;
	bool nameless[PYFIELD_MAX], typedefed = first % 2;

	for (size_t i = first; i < n; i++)
		if (row[i].member)
			type[i] = put_inner(d, row[i].member, (uint8_t)i, &nameless[i]);
	whole = begin(d, STRUCT);
	put_name(d, row[first].type, typedefed ? 0 : strlen(row[first].type));
	put_number(d, 100);
	for (size_t i = first; i < n; i++)
		if (row[i].member && !strcmp(row[i].type, row[first].type) &&
		    pyfield_is_of(&row[i], want->version, want->free_threaded))
			put_member(d, row[i].member,
				   nameless[i] ? 0 : strcspn(row[i].member, "."), type[i],
				   (uint8_t)(8 * i));
	put(d, "", 1);
	if (!typedefed)
		return;
	begin(d, TYPEDEF);
	put_name(d, row[first].type, strlen(row[first].type));
	put(d, &whole, sizeof(whole));
}

static bool is_first(const struct pyfield *row, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(row[k].type, row[i].type))
			return false;
	return true;
}

/* @structs of them, and the enumerators. */
static void put_unit(struct dwarf *d, const struct elflayout_want *want, unsigned structs)
{
	size_t n;
	const struct pyfield *row = pyfield_all(&n);
	const struct {
		uint32_t length;
		uint16_t version;
		uint32_t abbrevs;
		uint8_t address;
	} __attribute__((packed)) head = { 0, 4, 0, 8 };
	uint32_t length;

	put(d, &head, sizeof(head));
	begin(d, ABBREV_UNIT);
	d->base = begin(d, BASE);
	put_number(d, 8);
	begin(d, ENUM);
	put_number(d, 4);
	for (size_t i = 0; i < n; i++)
		if (row[i].kind == PYFIELD_CONSTANT) {
			begin(d, CONSTANT);
			put_name(d, row[i].member, strlen(row[i].member));
			put_number(d, (uint8_t)i);
		}
	put(d, "", 1);
	for (size_t i = 0; i < n && structs; i++)
		if (row[i].kind != PYFIELD_CONSTANT && is_first(row, i) &&
		    pyfield_is_of(&row[i], want->version, want->free_threaded))
			put_struct(d, row, MIN(n, i + 12), i, want), structs--;
	put(d, "", 1);
	length = (uint32_t)d->n - 4;
	memcpy(d->at, &length, sizeof(length));
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const uint8_t builds[][2] = { { 9, 0 }, { 12, 0 }, { 13, 1 }, { 14, 0 } };
	const Elf64_Phdr none = { 0 };
	struct elflayout_want want;
	struct dwarf d = { .n = 0 };
	struct fuzz_elf e;

	if (i >= 2 * ARRAY_SIZE(builds))
		return 0;
	memcpy(buf, builds[i / 2], 2);
	want = want_of(buf);
	put_unit(&d, &want, i & 1 ? 100 : 2);
	elf_begin(&e, buf + 2, cap - 2);
	elf_add(&e, ".debug_abbrev", SHT_PROGBITS, (struct bytes){ abbrevs, sizeof(abbrevs) });
	elf_add(&e, ".debug_info", SHT_PROGBITS, (struct bytes){ d.at, d.n });
	return 2 + elf_end(&e, &none);
}
