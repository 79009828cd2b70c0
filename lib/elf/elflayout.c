/* SPDX-License-Identifier: MIT
 *
 * elflayout - structs' members and enumerators by name, as DWARF has them.
 */
#include "elf/elflayout.h"

#include <errno.h>
#include <sys/stat.h>

#ifdef PYSAMPLED_LIBDW
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>

enum {
	MAX_FILE = 512 << 20,
	MAX_DIES = 20 << 20, /* looked at, of a file */
	MAX_TYPES = 48,	     /* CPython's structs that have rows */
	MAX_CHAIN = 16,	     /* typedefs and qualifiers around a struct */
	MAX_INSIDE = 8,	     /* structs without a name, one in the other */
};

struct types {
	const struct elflayout_want *want;
	struct pyfield_values *values;
	unsigned dies; /* that may be looked at yet */
	size_t n;
	struct {
		const char *name;
		Dwarf_Die die;
		bool found;
	} type[MAX_TYPES];
};

static bool spent(struct types *t)
{
	if (t->dies)
		t->dies--;
	return !t->dies;
}

/* The struct or enum behind typedefs. False: it is only declared there. */
static bool peel(const Dwarf_Die *from, Dwarf_Die *ret)
{
	Dwarf_Attribute a;

	*ret = *from;
	for (int i = 0; i < MAX_CHAIN; i++) {
		int tag = dwarf_tag(ret);

		if (tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
		    tag == DW_TAG_enumeration_type)
			return !dwarf_hasattr(ret, DW_AT_declaration);
		if ((tag != DW_TAG_typedef && tag != DW_TAG_const_type &&
		     tag != DW_TAG_volatile_type && tag != DW_TAG_atomic_type) ||
		    !dwarf_formref_die(dwarf_attr(ret, DW_AT_type, &a), ret))
			return false;
	}
	return false;
}

/* Add what an attribute says, times @unit. */
static bool add_attr(Dwarf_Die *die, unsigned name, uint64_t unit, uint64_t *bits)
{
	Dwarf_Attribute a;
	Dwarf_Word v;

	if (!dwarf_hasattr(die, name))
		return true;
	if (dwarf_formudata(dwarf_attr(die, name, &a), &v) != 0 || v > UINT32_MAX)
		return false;
	*bits += v * unit;
	return true;
}

/* The member of @type that is called @name, or of a struct without a name in it; *@bits is
 * where it begins. */
static bool member_find(struct types *t, Dwarf_Die *type, const char *name, size_t n,
			uint64_t *bits, Dwarf_Die *ret, int depth)
{
	Dwarf_Attribute a;
	Dwarf_Die m, in;

	if (depth > MAX_INSIDE || dwarf_child(type, &m) != 0)
		return false;
	do {
		const char *its = dwarf_diename(&m);
		uint64_t at = 0;

		/* A bit field as before DWARF 4 begins elsewhere. */
		if (spent(t) || dwarf_tag(&m) != DW_TAG_member ||
		    dwarf_hasattr(&m, DW_AT_bit_offset) ||
		    !add_attr(&m, DW_AT_data_member_location, 8, &at) ||
		    !add_attr(&m, DW_AT_data_bit_offset, 1, &at) ||
		    !dwarf_formref_die(dwarf_attr(&m, DW_AT_type, &a), &in))
			continue;
		if (its && strlen(its) == n && !memcmp(its, name, n)) {
			*bits += at;
			*ret = in;
			return true;
		}
		if (!its && peel(&in, &in) &&
		    member_find(t, &in, name, n, &at, ret, depth + 1)) {
			*bits += at;
			return true;
		}
	} while (dwarf_siblingof(&m, &m) == 0 && t->dies);
	return false;
}

/* Where "a.b.c" begins in @type. */
static bool path_find(struct types *t, Dwarf_Die type, const char *path, uint64_t *bits)
{
	Dwarf_Die in;

	for (*bits = 0;; path++) {
		size_t n = strcspn(path, ".");

		if (!member_find(t, &type, path, n, bits, &in, 0))
			return false;
		path += n;
		if (!*path)
			return true;
		if (!peel(&in, &type))
			return false;
	}
}

/* What a row asks for, plus one; 0: it is not there. */
static uint32_t value(struct types *t, const struct pyfield *f, Dwarf_Die *type)
{
	uint64_t v = 0, word = 0;
	int size;

	switch ((enum pyfield_kind)f->kind) {
	case PYFIELD_SIZE:
		size = dwarf_bytesize(type);
		return size > 0 && size < INT32_MAX ? (uint32_t)size + 1 : 0;
	case PYFIELD_OFFSET:
		if (!path_find(t, *type, f->member, &v) || v % 8)
			return 0;
		v = v / 8 + f->add;
		break;
	case PYFIELD_BIT:
		if (!path_find(t, *type, f->member, &v) ||
		    !path_find(t, *type, f->word, &word) || v < word)
			return 0;
		v -= word;
		break;
	case PYFIELD_CONSTANT:
		return 0; /* of no type that is known by name */
	}
	return v < UINT32_MAX ? (uint32_t)v + 1 : 0;
}

static bool is_wanted(const struct types *t, const struct pyfield *f)
{
	return pyfield_is_of(f, t->want->version, t->want->free_threaded);
}

static void type_want(struct types *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->type[i].name, name))
			return;
	if (t->n < MAX_TYPES)
		t->type[t->n++].name = name;
}

static void type_note(struct types *t, Dwarf_Die *die)
{
	const char *name = dwarf_diename(die);
	Dwarf_Die whole;

	for (size_t i = 0; name && i < t->n; i++) {
		if (t->type[i].found || strcmp(t->type[i].name, name) || !peel(die, &whole))
			continue;
		t->type[i].die = whole;
		t->type[i].found = true;
	}
}

static void constants_note(struct types *t, Dwarf_Die *type)
{
	size_t n;
	const struct pyfield *row = pyfield_all(&n);
	Dwarf_Attribute a;
	Dwarf_Word v;
	Dwarf_Die e;

	if (dwarf_child(type, &e) != 0)
		return;
	do {
		const char *name = dwarf_diename(&e);

		for (size_t i = 0; name && i < n; i++)
			if (row[i].kind == PYFIELD_CONSTANT && is_wanted(t, &row[i]) &&
			    !strcmp(row[i].member, name) &&
			    dwarf_formudata(dwarf_attr(&e, DW_AT_const_value, &a), &v) == 0 &&
			    v < UINT32_MAX)
				t->values->plus1[i] = (uint32_t)v + 1;
	} while (!spent(t) && dwarf_siblingof(&e, &e) == 0);
}

static void unit_look(struct types *t, Dwarf_Die *unit)
{
	Dwarf_Die die;

	if (dwarf_child(unit, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_typedef || tag == DW_TAG_structure_type)
			type_note(t, &die);
		else if (tag == DW_TAG_enumeration_type)
			constants_note(t, &die);
	} while (!spent(t) && dwarf_siblingof(&die, &die) == 0);
}

static bool has_all(const struct types *t)
{
	size_t n;
	const struct pyfield *row = pyfield_all(&n);

	for (size_t i = 0; i < t->n; i++)
		if (!t->type[i].found)
			return false;
	for (size_t i = 0; i < n; i++)
		if (row[i].kind == PYFIELD_CONSTANT && is_wanted(t, &row[i]) &&
		    !t->values->plus1[i])
			return false;
	return true;
}

static int read_dwarf(Dwarf *dw, const struct elflayout_want *want, struct pyfield_values *ret)
{
	struct types t = { .want = want, .values = ret, .dies = MAX_DIES };
	size_t n;
	const struct pyfield *row = pyfield_all(&n);
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	bool any = false;

	for (size_t i = 0; i < n; i++)
		if (is_wanted(&t, &row[i]) && row[i].kind != PYFIELD_CONSTANT)
			type_want(&t, row[i].type);
	while (t.dies && !has_all(&t) &&
	       dwarf_get_units(dw, unit, &unit, NULL, NULL, &die, NULL) == 0)
		unit_look(&t, &die);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; is_wanted(&t, &row[i]) && k < t.n; k++)
			if (t.type[k].found && !strcmp(t.type[k].name, row[i].type) &&
			    row[i].kind != PYFIELD_CONSTANT) {
				ret->plus1[i] = value(&t, &row[i], &t.type[k].die);
				any = true;
			}
	return any ? 0 : -ENOENT;
}

/* The whole file. Not mapped: it may shrink. */
static int read_whole(int fd, struct bytes *ret)
{
	struct stat st;
	char *all;
	ssize_t n = 0;

	if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > MAX_FILE)
		return -EIO;
	all = malloc((size_t)st.st_size);
	if (!all)
		return -ENOMEM;
	for (off_t at = 0; at < st.st_size; at += n) {
		n = pread(fd, all + at, (size_t)(st.st_size - at), at);
		if (n <= 0) {
			free(all);
			return -EIO;
		}
	}
	*ret = (struct bytes){ (unsigned char *)all, (size_t)st.st_size };
	return 0;
}

int elflayout_of(struct bytes all, const struct elflayout_want *want,
		 struct pyfield_values *ret)
{
	Elf *elf;
	Dwarf *dw;
	int r;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)all.at, all.n);
	dw = elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
	r = dw ? read_dwarf(dw, want, ret) : -ENOENT;
	dwarf_end(dw);
	elf_end(elf);
	return r;
}

static int read_file(int fd, const struct elflayout_want *want, struct pyfield_values *ret)
{
	struct bytes all;
	int r = read_whole(fd, &all);

	if (r < 0)
		return r;
	r = elflayout_of(all, want, ret);
	free((void *)all.at);
	return r;
}

int elflayout_read(int fd, const struct elflayout_want *want,
		   const struct debugfile_origin *from, struct elflayout *ret)
{
	struct elfimage im;
	int other = -ENOENT, r;

	*ret = (struct elflayout){ 0 };
	if (debugfile_has_dwarf(fd))
		return read_file(fd, want, &ret->values);
	r = elfimage_init(&im, fd, (struct bytes){ 0 });
	if (r == 0)
		other = debugfile_open(&im, from);
	elfimage_deinit(&im);
	if (other < 0)
		return r < 0 ? r : -ENOENT;
	ret->separate = true;
	r = debugfile_has_dwarf(other) ? read_file(other, want, &ret->values) : -ENOENT;
	close(other);
	return r;
}

#else

int elflayout_of(struct bytes all, const struct elflayout_want *want,
		 struct pyfield_values *ret)
{
	return -ENOENT;
}

int elflayout_read(int fd, const struct elflayout_want *want,
		   const struct debugfile_origin *from, struct elflayout *ret)
{
	*ret = (struct elflayout){ 0 };
	return -ENOENT;
}

#endif
