/* SPDX-License-Identifier: MIT
 *
 * elffunc_test - symbol tables made up of any symbols and versions: each function is told with
 * its address and whether programs linked today get it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"
#include "elf/elffunc.h"
#include "elf_file.h"
#include "any.h"

enum { NOWHERE = 1 << 30 }; /* for a name that is put behind all names later */
enum { ROUNDS = 500, MAX_SYMS = 12, LONGEST = sizeof((struct elffunc *)0)->name - 1 };

/* What must be told, in that order. */
struct wanted {
	struct elffunc f[4 * MAX_SYMS];
	size_t n, seen;
};

static void is_wanted(void *arg, const struct elffunc *f)
{
	struct wanted *w = arg;

	assert_true(w->seen < w->n);
	assert_string_equal(w->f[w->seen].name, f->name);
	assert_int_equal(w->f[w->seen].vaddr, f->vaddr);
	assert_int_equal(w->f[w->seen].old, f->old);
	assert_int_equal(w->f[w->seen].chosen, f->chosen);
	w->seen++;
}

struct table {
	Elf64_Sym sym[MAX_SYMS];
	uint16_t version[MAX_SYMS];
	char text[8192];
	size_t n, n_versions, text_n;
};

/* A name that is longer than may be is cut. */
static void draw_symbol(struct table *t, struct wanted *w)
{
	static const unsigned types[] = { STT_FUNC, STT_FUNC, STT_GNU_IFUNC, STT_OBJECT,
					  STT_NOTYPE };
	static const char *const versions[] = { "", "", "", "@V1", "@@V2", "@" };
	unsigned type = types[any(5)], version = any(6), undefined = any(8) == 0;
	bool odd = any(12) == 0, hidden = any(2);
	struct elffunc *f = &w->f[w->n];
	size_t i = t->n++, n = any(20) ? any(30) : LONGEST - 1 + any(3);

	t->sym[i] = (Elf64_Sym){ .st_name = odd ? NOWHERE : (uint32_t)t->text_n,
				 .st_info = (unsigned char)ELF64_ST_INFO(any(3), type),
				 .st_shndx = (uint16_t)(undefined ? SHN_UNDEF : 1 + any(9)),
				 .st_value = any(1 << 30) };
	t->version[i] = (uint16_t)((hidden ? 0x8000 : 0) | any(0x8000));
	memset(t->text + t->text_n, 'a' + (char)any(26), n);
	strcpy(t->text + t->text_n + n, versions[version]);
	if (!odd && !undefined && (type == STT_FUNC || type == STT_GNU_IFUNC)) {
		*f = (struct elffunc){ .vaddr = t->sym[i].st_value,
				       .chosen = type == STT_GNU_IFUNC };
		memcpy(f->name, t->text + t->text_n, MIN(n, (size_t)LONGEST));
		f->old = version == 3 || version == 5 || (hidden && i < t->n_versions);
		w->n++;
	}
	t->text_n += strlen(t->text + t->text_n) + 1;
}

/* @type: of a table that tells functions, or of another one. */
static void draw_table(struct file *f, uint32_t type, struct wanted *w)
{
	struct table t = { .text_n = 1, .n_versions = any(3) ? any(MAX_SYMS) : 0 };
	size_t known = w->n, n = any(MAX_SYMS);
	uint32_t at = f->eh.e_shnum;
	bool nameless = any(8) == 0;

	while (t.n < n)
		draw_symbol(&t, w);
	for (size_t i = 0; i < t.n; i++)
		if (t.sym[i].st_name == NOWHERE)
			t.sym[i].st_name = (uint32_t)t.text_n + any(3);
	if (nameless || (type != SHT_SYMTAB && type != SHT_DYNSYM))
		w->n = known;
	/* Another table's versions are not this one's. */
	if (any(2))
		section(f, ".o", SHT_GNU_versym, "\xff\xff\xff\xff", 4)->sh_link =
			any(2) ? 99 : at + 2;
	else
		section(f, ".o", SHT_PROGBITS, "\xff\xff\xff\xff", 4)->sh_link = at + 1;
	section(f, ".s", type, t.sym, n * sizeof(*t.sym) + any(sizeof(*t.sym)))->sh_link =
		nameless ? 99 : at + 2;
	section(f, ".n", SHT_STRTAB, t.text, t.text_n);
	if (t.n_versions)
		section(f, ".v", SHT_GNU_versym, t.version, 2 * t.n_versions + any(2))
			->sh_link = at + 1;
}

static void any_functions(void **state)
{
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM, SHT_SYMTAB, SHT_PROGBITS };
	static struct wanted w;
	static struct file f;
	struct elfimage im;

	for (int round = 0; round < ROUNDS; round++) {
		memset(&w, 0, sizeof(w));
		begin(&f);
		draw_table(&f, types[any(4)], &w);
		draw_table(&f, types[any(4)], &w);
		assert_int_equal(0, elfimage_init(&im, -1, file_bytes(&f)));
		elffunc_each(&im, is_wanted, &w);
		assert_int_equal(w.n, w.seen);
		elfimage_deinit(&im);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(any_functions) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
