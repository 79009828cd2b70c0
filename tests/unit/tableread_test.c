/* SPDX-License-Identifier: MIT
 *
 * tableread_test - where a file's unwind information is found, and which files are told to have
 * the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"
#include "arch/arch.h"
#include "elf/elfimage.h"
#include "elf/module.h"
#include "elf/rows.h"
#include "elf_file.h"

/* What the file @f says, for @arch; @fd: as a file. */
static void read_source(struct file *f, const struct arch *arch, bool fd,
			struct unwind_source *s)
{
	struct bytes b = file_bytes(f);
	struct module m = { 0 };
	struct elfimage im;
	FILE *file = tmpfile();

	assert_int_equal(1, fwrite(b.at, b.n, 1, file));
	assert_int_equal(0, fflush(file));
	assert_int_equal(0, elfimage_init(&im, fd ? fileno(file) : -1,
					  fd ? (struct bytes){ 0 } : b));
	module_read_loads(&m, &im);
	unwind_source_read(s, arch, &im, &m);
	elfimage_deinit(&im);
	fclose(file);
}

static void check_section(const struct frames_section *s, uint64_t at, const char *bytes,
			  size_t n)
{
	assert_int_equal(at, s->at);
	assert_int_equal(n, s->b.n);
	assert_memory_equal(bytes, s->b.at, n);
}

static void put_frames(struct file *f, const char *eh, const char *debug)
{
	section(f, ".eh_frame", SHT_PROGBITS, eh, strlen(eh))->sh_addr = BASE + 0x100;
	section(f, ".debug_frame", SHT_PROGBITS, debug, strlen(debug))->sh_addr = 0x20;
}

static void by_sections(void **state)
{
	static struct file f;
	struct unwind_source s;

	for (int fd = 0; fd < 2; fd++) {
		begin(&f);
		put_frames(&f, "of exceptions", "of debuggers");
		read_source(&f, &arch_x86_64, fd, &s);
		check_section(&s.eh, BASE + 0x100, "of exceptions", 13);
		check_section(&s.debug, 0x20, "of debuggers", 12);
		assert_false(s.eh.debug);
		assert_true(s.debug.debug);
		assert_int_equal(BASE, s.base);
		unwind_source_deinit(&s);
		assert_null(s.eh.b.at);
	}
}

static void without_any(void **state)
{
	static struct file f;
	struct unwind_source s;

	begin(&f);
	read_source(&f, &arch_x86_64, false, &s);
	assert_true(!s.eh.b.at && !s.debug.b.at && !s.sigreturn && !s.plt_lo && !s.plt_hi);
	assert_int_equal(0, s.eh.at);
	assert_true(s.debug.debug);
	unwind_source_deinit(&s);
}

/* A header of @version that says that .eh_frame lies @back bytes behind itself. */
static void put_header(struct file *f, uint32_t type, unsigned version, uint64_t vaddr,
		       const char *frames)
{
	struct {
		uint8_t version, ptr, count_enc, row_enc;
		int32_t frame;
		uint32_t count;
		char frames[20];
	} hdr = { (uint8_t)version, 0x1b, 3, 0x3b, 8, 0, "" };
	uint64_t at;

	memcpy(hdr.frames, frames, strlen(frames));
	at = put(f, &hdr, sizeof(hdr));
	segment(f, PT_LOAD, PF_R, vaddr, at, sizeof(hdr));
	segment(f, type, PF_R, vaddr, at, offsetof(__typeof__(hdr), frames));
}

/* A file without sections: the first header that can be read leads there, up to the segment's
 * end. */
static void by_header(void **state)
{
	static struct file f;
	struct unwind_source s;

	begin(&f);
	put_header(&f, PT_NOTE, 1, BASE + 0x10000, "of something else");
	put_header(&f, PT_GNU_EH_FRAME, 2, BASE + 0x11000, "of another time");
	put_header(&f, PT_GNU_EH_FRAME, 1, BASE + 0x12000, "what is wanted");
	put_header(&f, PT_GNU_EH_FRAME, 1, BASE + 0x13000, "what comes second");
	read_source(&f, &arch_x86_64, false, &s);
	check_section(&s.eh, BASE + 0x12000 + 12, "what is wanted\0\0\0\0\0", 20);
	unwind_source_deinit(&s);

	begin(&f);
	put_header(&f, PT_GNU_EH_FRAME, 1, BASE + 0x12000, "what is not wanted");
	put_frames(&f, "a section", "");
	read_source(&f, &arch_x86_64, false, &s);
	check_section(&s.eh, BASE + 0x100, "a section", 9);
	unwind_source_deinit(&s);
}

/* ---- Code that no section tells of ---- */

static void stubs(void **state)
{
	static const struct {
		const struct arch *arch;
		const char *name;
		uint64_t size;
		bool are;
	} rows[] = {
		{ &arch_aarch64, ".plt", 33, true },  { &arch_aarch64, ".plt", 0x80, true },
		{ &arch_aarch64, ".plt", 32, false }, { &arch_aarch64, ".got", 0x80, false },
		{ &arch_riscv64, ".plt", 48, true },  { &arch_x86_64, ".plt", 0x80, false },
	};
	static struct file f;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct unwind_source s;
		Elf64_Shdr *sh;

		begin(&f);
		sh = section(&f, rows[i].name, SHT_PROGBITS, "", 1);
		sh->sh_addr = TEXT + 0x40;
		sh->sh_size = rows[i].size;
		read_source(&f, rows[i].arch, false, &s);
		assert_int_equal(rows[i].are ? TEXT + 0x40 + 32 : 0, s.plt_lo);
		assert_int_equal(rows[i].are ? TEXT + 0x40 + rows[i].size : 0, s.plt_hi);
		unwind_source_deinit(&s);
	}
}

/* Stubs of .plt, all of which must be such; @change is a byte that is another then. */
static bool has_stubs(const struct arch *arch, size_t n, size_t change)
{
	static const unsigned char stub[16] = {
		0xff, 0x25, 1, 2, 3, 4, 0x68, 5, 0, 0, 0, 0xe9
	};
	unsigned char plt[80] = { 0xff, 0x35 };
	static struct file f;
	struct unwind_source s;
	bool found;

	for (size_t i = 16; i < sizeof(plt); i += sizeof(stub))
		memcpy(plt + i, stub, sizeof(stub));
	plt[change] ^= 1;
	begin(&f);
	section(&f, ".plt", SHT_PROGBITS, plt, n)->sh_addr = BASE + 0x200;
	read_source(&f, arch, false, &s);
	found = s.plt_lo != 0;
	assert_int_equal(s.plt_lo ? BASE + 0x200 + arch->plt_first : 0, s.plt_lo);
	assert_int_equal(s.plt_lo ? BASE + 0x200 + n : 0, s.plt_hi);
	assert_false(s.plt_plain);
	unwind_source_deinit(&s);
	return found;
}

/* mold's, behind a longer first one: of two kinds. @change is a byte that is another then. */
static bool has_plain_stubs(size_t n, size_t change)
{
	static const unsigned char stubs[2][16] = {
		{ 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0xbb, 7, 0, 0, 0, 0xff, 0x25, 1, 2, 3, 4 },
		{ 0x41, 0xbb, 8, 0, 0, 0, 0xff, 0x25, 1, 2, 3, 4, 0xcc, 0xcc, 0xcc, 0xcc },
	};
	unsigned char plt[96] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x53 };
	static struct file f;
	struct unwind_source s;
	bool found;

	memcpy(plt + 32, stubs, sizeof(stubs));
	memcpy(plt + 64, stubs, sizeof(stubs));
	plt[change] ^= 1;
	begin(&f);
	section(&f, ".plt", SHT_PROGBITS, plt, n)->sh_addr = BASE + 0x200;
	read_source(&f, &arch_x86_64, false, &s);
	found = s.plt_lo != 0;
	assert_int_equal(found, s.plt_plain);
	assert_int_equal(found ? BASE + 0x200 + 32 : 0, s.plt_lo);
	assert_int_equal(found ? BASE + 0x200 + n : 0, s.plt_hi);
	unwind_source_deinit(&s);
	return found;
}

static void stubs_that_push_nothing(void **state)
{
	static const size_t tell[] = { 0, 1, 2, 3, 4, 5, 10, 11, 16, 17, 22, 23 };

	for (size_t i = 32; i < 96; i++) {
		bool tells = false;

		for (size_t k = 0; k < ARRAY_SIZE(tell); k++)
			tells = tells || i % 32 == tell[k];
		assert_int_equal(!tells, has_plain_stubs(96, i));
	}
	assert_true(has_plain_stubs(48, 0));
	assert_false(has_plain_stubs(47, 0));
	assert_false(has_plain_stubs(49, 0));
	assert_false(has_plain_stubs(32, 0));
	assert_false(has_plain_stubs(16, 0));
}

static void stubs_that_push(void **state)
{
	static const size_t tell[] = { 0, 1, 6, 11 };
	struct arch with_a_longer_first = arch_x86_64;

	for (size_t i = 16; i < 80; i++) {
		bool tells = false;

		for (size_t k = 0; k < ARRAY_SIZE(tell); k++)
			tells = tells || i % 16 == tell[k];
		assert_int_equal(!tells, has_stubs(&arch_x86_64, 80, i));
	}
	assert_true(has_stubs(&arch_x86_64, 32, 0));
	assert_false(has_stubs(&arch_x86_64, 33, 0));
	assert_false(has_stubs(&arch_x86_64, 16, 0));
	with_a_longer_first.plt_first = 32;
	assert_true(has_stubs(&with_a_longer_first, 48, 16));
	assert_false(has_stubs(&with_a_longer_first, 48, 32));
	assert_true(has_stubs(&arch_aarch64, 48, 36));
	assert_false(has_stubs(&arch_aarch64, 32, 0));
}

/* What handlers of signals return to, at @at of the code, and again behind it. */
static uint64_t sigreturn_at(const struct arch *arch, uint64_t at, bool fd)
{
	static struct file f;
	struct unwind_source s;
	unsigned char *code = f.b + 0x1000;
	uint64_t ret;

	begin(&f);
	f.n = 0x1000 + TEXT_SIZE + 64;
	memcpy(code + at, arch->sigreturn, 8);
	memcpy(code + at + 40, arch->sigreturn, 8);
	memcpy(f.b + 0x800, arch->sigreturn, 8); /* no code */
	read_source(&f, arch, fd, &s);
	ret = s.sigreturn;
	unwind_source_deinit(&s);
	return ret;
}

static void returns_of_signals(void **state)
{
	const struct arch *a = &arch_aarch64, *r = &arch_riscv64;

	assert_int_equal(TEXT, sigreturn_at(a, 0, false));
	assert_int_equal(TEXT + 4, sigreturn_at(a, 4, false));
	assert_int_equal(TEXT + 0x7fc, sigreturn_at(a, 0x7fc, false));
	assert_int_equal(TEXT + TEXT_SIZE - 8, sigreturn_at(a, TEXT_SIZE - 8, false));
	assert_int_equal(0, sigreturn_at(a, TEXT_SIZE - 4, false)); /* not all of it */
	assert_int_equal(0, sigreturn_at(a, 0x7fe, false));	    /* no instruction is there */
	assert_int_equal(TEXT + 0x7fe, sigreturn_at(r, 0x7fe, false));
	assert_int_equal(0, sigreturn_at(r, 0x7ff, false));
	assert_int_equal(0, sigreturn_at(a, 4, true)); /* a file is no vdso */
	assert_int_equal(0, sigreturn_at(&arch_x86_64, 0, false));
}

/* ---- Which files are told to have the same ---- */

struct look {
	char eh[24], debug[24];
	uint64_t at, debug_at, base, text;
	unsigned char id;
	size_t id_n;
};

static void put_note(struct file *f, const struct look *l)
{
	unsigned char note[64] = { 4, 0, 0, 0, (unsigned char)l->id_n, 0, 0, 0, 3 };

	memcpy(note + 12, "GNU", 4);
	memset(note + 16, l->id, l->id_n);
	section(f, ".note.gnu.build-id", SHT_NOTE, note, 16 + (l->id_n + 3) / 4 * 4);
}

static void id_of(const struct look *l, unsigned char ret[ROWS_ID])
{
	static struct file f;
	struct unwind_source s;

	begin(&f);
	put_frames(&f, l->eh, l->debug);
	if (l->id_n)
		put_note(&f, l);
	f.sh[1].sh_addr = l->at;
	f.sh[2].sh_addr = l->debug_at;
	f.ph[0].p_vaddr = l->base;
	f.ph[1].p_vaddr = l->text;
	read_source(&f, &arch_x86_64, false, &s);
	memcpy(ret, s.id, ROWS_ID);
	unwind_source_deinit(&s);
}

static void check_other(const struct look *l, const unsigned char id[ROWS_ID])
{
	unsigned char other[ROWS_ID];

	id_of(l, other);
	assert_memory_not_equal(id, other, ROWS_ID);
}

/* Each byte counts, and where all of it lies. */
static void what_differs(void **state)
{
	static const struct look first = { "some bytes of a section", "and another one's", 0x500,
					   0x20, BASE, TEXT, 7, 20 };
	unsigned char id[ROWS_ID], again[ROWS_ID];
	struct look l;

	id_of(&first, id);
	id_of(&first, again);
	assert_memory_equal(id, again, ROWS_ID);
	for (size_t i = 0; i < strlen(first.eh); i++)
		l = first, l.eh[i] = '!', check_other(&l, id);
	for (size_t i = 0; i < strlen(first.debug); i++)
		l = first, l.debug[i] = '!', check_other(&l, id);
	for (size_t n = 1; n < strlen(first.eh); n++)
		l = first, l.eh[n] = '\0', check_other(&l, id);
	for (size_t n = 1; n < strlen(first.debug); n++)
		l = first, l.debug[n] = '\0', check_other(&l, id);
	l = first, l.at++, check_other(&l, id);
	l = first, l.debug_at++, check_other(&l, id);
	l = first, l.base -= 0x1000, check_other(&l, id);
	l = first, l.text += 0x10, check_other(&l, id);
	l = first, l.id++, check_other(&l, id);
}

/* Of a build-id twenty bytes, zeros where there are fewer; behind it the sum of all else. */
static void build_ids(void **state)
{
	static const size_t n[] = { 0, 8, 20, 24 };
	struct look l = { "some bytes of a section", "", 0x500, 0x20, BASE, TEXT, 7, 0 };
	unsigned char want[20], id[ROWS_ID], first[ROWS_ID];

	id_of(&l, first);
	for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
		memset(want, 0, sizeof(want));
		memset(want, 7, MIN(n[i], sizeof(want)));
		l.id_n = n[i];
		id_of(&l, id);
		assert_memory_equal(want, id, sizeof(want));
		assert_memory_equal(first + 20, id + 20, ROWS_ID - 20);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_sections), cmocka_unit_test(without_any),
		cmocka_unit_test(by_header),   cmocka_unit_test(stubs),
		cmocka_unit_test(stubs_that_push),
		cmocka_unit_test(stubs_that_push_nothing),
		cmocka_unit_test(returns_of_signals), cmocka_unit_test(what_differs),
		cmocka_unit_test(build_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
