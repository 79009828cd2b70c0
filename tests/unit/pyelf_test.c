/* SPDX-License-Identifier: MIT
 *
 * pyelf_test - addresses, names, and what is in the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "../../output/pyelf.h"
#include "../../output/pyelf_read.h"

static const unsigned char build_id[PYELF_BUILD_ID] = "0123456789abcdefghi";

static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 14, 0 };
static const struct pyfunc module = { "<module>", "/srv/work.py", 1, 0, 40, 1 };
static const struct pyfunc other = { "C.f", "/srv/other.py", 7, 7, 7, 2 };

/* What addr2line would do, for what pyelf writes: the line of @addr, -1 none. */
static int line_of(struct bytes b, uint64_t addr, const char *file)
{
	size_t at = 0;

	while (at + 4 < b.n) {
		size_t end = at + 4 + load_u32(b.at + at),
		       prog = at + 10 + load_u32(b.at + at + 6);
		const char *name = (const char *)b.at + at + 10 + 6 + 12 + 1;
		uint64_t pc = 0, row_pc = 0;
		int64_t line = 1, row = -1;

		for (size_t i = prog; i < end;) {
			unsigned op = b.at[i++];
			int64_t v = 0;
			bool out = false;

			if (op >= 13) {
				line += (op - 13) % 14 - 5;
				pc += (op - 13u) / 14;
				out = true;
			} else if (op == 0 && b.at[i + 1] == 2) {
				pc = load_u64(b.at + i + 2);
				i += 10;
			} else if (op == 0) {
				out = true;
				i += 2;
			} else if (op == 1) {
				out = true;
			} else {
				unsigned shift = 0, byte;

				do {
					byte = b.at[i++];
					v |= (int64_t)(byte & 0x7f) << shift;
					shift += 7;
				} while (byte & 0x80);
				if (op == 3 && byte & 0x40)
					v -= (int64_t)1 << shift;
				pc += op == 2 ? (uint64_t)v : 0;
				line += op == 3 ? v : 0;
			}
			if (!out)
				continue;
			if (row >= 0 && addr >= row_pc && addr < pc)
				return strcmp(name, file) ? -2 : (int)row;
			row = op ? line : -1;
			row_pc = pc;
			if (!op)
				line = 1;
		}
		at = end;
	}
	return -1;
}

struct file {
	int fd;
	Elf *elf;
};

static struct file write_file(struct pyelf *e)
{
	struct file f = { .fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) };

	assert_int_equal(pyelf_write(e, f.fd), 0);
	elf_version(EV_CURRENT);
	f.elf = elf_begin(f.fd, ELF_C_READ, NULL);
	assert_non_null(f.elf);
	return f;
}

static Elf_Scn *section(struct file f, const char *name, GElf_Shdr *sh)
{
	size_t strs;

	elf_getshdrstrndx(f.elf, &strs);
	for (Elf_Scn *s = NULL; (s = elf_nextscn(f.elf, s));) {
		gelf_getshdr(s, sh);
		if (!strcmp(elf_strptr(f.elf, strs, sh->sh_name), name))
			return s;
	}
	fail_msg("no section %s", name);
	return NULL;
}

static struct bytes content(struct file f, const char *name)
{
	GElf_Shdr sh;
	Elf_Data *d = elf_rawdata(section(f, name, &sh), NULL);

	return (struct bytes){ d->d_buf, d->d_size };
}

/* The symbol that covers @addr. */
static const char *symbol_of(struct file f, uint64_t addr)
{
	GElf_Shdr sh;
	Elf_Data *d = elf_getdata(section(f, ".symtab", &sh), NULL);
	GElf_Sym sym;

	for (int i = 1; gelf_getsym(d, i, &sym); i++)
		if (addr >= sym.st_value && addr < sym.st_value + sym.st_size)
			return elf_strptr(f.elf, sh.sh_link, sym.st_name);
	return "";
}

static void close_file(struct file f)
{
	elf_end(f.elf);
	close(f.fd);
}

static void addresses_name_function_and_line(void **state)
{
	struct pyelf *e = pyelf_create(EM_X86_64, build_id);
	uint64_t five = pyelf_line(e, &spin, 5), mod = pyelf_line(e, &module, 40);
	uint64_t late = pyelf_marker(e, "[late]"), seven = pyelf_line(e, &other, 7);
	uint64_t unknown = pyelf_line(e, &spin, 0);
	struct file f;
	struct bytes lines;

	assert_int_equal(pyelf_line(e, &spin, 6), five + PYELF_SLOT);
	assert_int_equal(five % PYELF_SLOT, 2);
	assert_int_equal(pyelf_line(e, &spin, 4), unknown);
	assert_int_equal(pyelf_line(e, &spin, 15), unknown);
	assert_int_equal(pyelf_marker(e, "[late]"), late);
	assert_int_equal(pyelf_count(e), 4);

	f = write_file(e);
	lines = content(f, ".debug_line");
	assert_string_equal(symbol_of(f, five), "py::spin:/srv/work.py");
	assert_string_equal(symbol_of(f, unknown), "py::spin:/srv/work.py");
	assert_string_equal(symbol_of(f, mod), "py::<module>:/srv/work.py");
	assert_string_equal(symbol_of(f, seven), "py::C.f:/srv/other.py");
	assert_string_equal(symbol_of(f, late), "[late]");
	for (int l = 5; l <= 14; l++) {
		assert_int_equal(line_of(lines, pyelf_line(e, &spin, l), spin.file), l);
		assert_int_equal(line_of(lines, pyelf_line(e, &spin, l) - 1, spin.file), l);
	}
	for (int l = 1; l <= 40; l++)
		assert_int_equal(line_of(lines, pyelf_line(e, &module, l), module.file), l);
	assert_int_equal(line_of(lines, seven, other.file), 7);
	assert_int_equal(line_of(lines, unknown, spin.file), 0);
	assert_int_equal(line_of(lines, late, spin.file), -1);
	close_file(f);
	pyelf_destroy(e);
}

static void file_is_what_readers_need(void **state)
{
	static const struct {
		unsigned machine;
		unsigned char nop[4];
	} machine[] = { { EM_X86_64, { 0x0f, 0x1f, 0x40, 0 } },
			{ EM_AARCH64, { 0x1f, 0x20, 3, 0xd5 } },
			{ EM_RISCV, { 0x13, 0, 0, 0 } } };

	for (size_t i = 0; i < ARRAY_SIZE(machine); i++) {
		struct pyelf *e = pyelf_create(machine[i].machine, build_id);
		uint64_t at = pyelf_line(e, &spin, 5);
		struct file f;
		GElf_Ehdr eh;
		GElf_Shdr sh;
		GElf_Sym last;
		GElf_Phdr ph;
		Elf_Data *d;

		f = write_file(e);
		gelf_getehdr(f.elf, &eh);
		assert_int_equal(eh.e_type, ET_DYN);
		assert_int_equal(eh.e_machine, machine[i].machine);
		d = elf_getdata(section(f, ".text", &sh), NULL);
		assert_int_equal(sh.sh_type, SHT_PROGBITS);
		assert_int_equal(sh.sh_addr, PYELF_TEXT);
		assert_int_equal(sh.sh_offset, PYELF_TEXT);
		for (size_t n = 0; n < d->d_size; n += 4)
			assert_memory_equal((char *)d->d_buf + n, machine[i].nop, 4);
		assert_true(at < sh.sh_addr + sh.sh_size);
		gelf_getphdr(f.elf, 1, &ph);
		assert_int_equal(ph.p_offset, ph.p_vaddr);
		assert_int_equal(ph.p_filesz, sh.sh_size);
		assert_memory_equal(content(f, ".note.gnu.build-id").at + 16, build_id,
				    PYELF_BUILD_ID);
		d = elf_getdata(section(f, ".symtab", &sh), NULL);
		gelf_getsym(d, (int)(sh.sh_size / sh.sh_entsize) - 1, &last);
		assert_string_equal(elf_strptr(f.elf, sh.sh_link, last.st_name),
				    "pysampled.end");
		close_file(f);
		pyelf_destroy(e);
	}
	assert_null(pyelf_create(EM_SPARC, build_id));
}

/* What only records had that were given back is not in the file, nor are its file's names. */
static void functions_are_cut(void **state)
{
	const struct pyfunc a = { "a", "/a.py", 1, 1, 3, 0 },
			    b = { "b", "/b.py", 1, 1, 900, 1 };
	const struct pyfunc c = { "c", "/c.py", 1, 1, 3, 2 };
	struct pyelf *e = pyelf_create(0, build_id), *short_ = pyelf_create(0, build_id);
	struct file cut, whole;
	uint64_t at;

	(void)state;
	at = pyelf_line(e, &a, 2);
	assert_int_equal(pyelf_line(short_, &a, 2), at);
	pyelf_line(e, &b, 2);
	pyelf_marker(e, "[late]");
	pyelf_line(e, &c, 2);
	assert_int_equal(pyelf_count(e), 4);
	pyelf_cut(e, 4);
	assert_int_equal(pyelf_count(e), 4);
	pyelf_cut(e, 1);
	assert_int_equal(pyelf_count(e), 1);
	cut = write_file(e);
	whole = write_file(short_);
	assert_int_equal(lseek(cut.fd, 0, SEEK_END), lseek(whole.fd, 0, SEEK_END));
	assert_int_equal(line_of(content(cut, ".debug_line"), at, "/a.py"), 2);
	close_file(cut);
	close_file(whole);
	pyelf_destroy(e);
	pyelf_destroy(short_);
}

static void names_are_printable_ascii(void **state)
{
	char name[128], small[24];
	size_t n;

	pyelf_name(name, sizeof(name), "gr\303\266\303\237e", "/a b/\344\275\240;(x)\\.py");
	assert_string_equal(name, "py::gr\\xf6\\xdfe:/a_b/\\u4f60\\x3b\\x28x\\x29\\x5c.py");
	pyelf_name(name, sizeof(name), "f.<locals>.<listcomp>", "<frozen a>");
	assert_string_equal(name, "py::f.<locals>.<listcomp>:<frozen_a>");
	/* not UTF-8, cut UTF-8, beyond 16 bits */
	pyelf_name(name, sizeof(name), "\377\303", "\360\237\220\215\n");
	assert_string_equal(name, "py::\\xff\\xc3:\\U0001f40d\\x0a");
	n = pyelf_name(small, sizeof(small), "aaaaaaaaaaaaaaaa", "/long/path/xyz");
	assert_int_equal(n, strlen(small));
	assert_string_equal(small, "py::aaaaaaa:/long/path/");
}

static void crazy_functions_are_bounded(void **state)
{
	struct pyelf *e = pyelf_create(0, build_id);
	struct pyfunc f = { "f", "", 1, 0, INT32_MAX, 0 };
	uint64_t first = pyelf_line(e, &f, 1), at = 0, last = 0;
	struct file file;

	/* lines beyond the bound are unknown, not another function's */
	assert_int_equal(pyelf_line(e, &f, INT32_MAX), first + PYELF_MAX_LINES * PYELF_SLOT);
	assert_int_equal(pyelf_line(e, &f, PYELF_MAX_LINES),
			 first + (PYELF_MAX_LINES - 1) * PYELF_SLOT);
	for (f.index = 1; f.index < 1000; f.index++) {
		at = pyelf_line(e, &f, INT32_MAX);
		assert_in_range(at, last + 1, PYELF_TEXT + PYELF_SPAN - PYELF_SLOT);
		last = at;
	}
	/* names stay when lines have no room any more */
	assert_int_equal(pyelf_line(e, &(struct pyfunc){ "g", "", 1, 0, 20, 1000 }, 7),
			 last + PYELF_SLOT);
	assert_int_equal(pyelf_unlined(e), 1001);
	f.index = UINT32_MAX;
	assert_int_equal(pyelf_line(e, &f, 1), PYELF_TEXT + 2);
	pyelf_destroy(e);

	e = pyelf_create(0, build_id);
	f = (struct pyfunc){ "f", "", INT32_MAX, 3, 2, 0 };
	pyelf_line(e, &f, -5);
	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "[%d]", i);
		pyelf_marker(e, name);
	}
	file = write_file(e);
	assert_string_equal(symbol_of(file, PYELF_TEXT), "py::<too_many_functions>");
	close_file(file);
	pyelf_destroy(e);
}

/* A target's numbers, up to the last that there is, take no name from other functions. */
static void the_last_lines_are_read(void **state)
{
	static const struct pyfunc crazy = { "crazy", "/c.py", INT32_MAX, 3, 2, 1 },
				   last = { "last", "/l.py", INT32_MAX, INT32_MAX, INT32_MAX, 2 };
	static const uint32_t two = 2, none = UINT32_C(1) << 31;
	struct pyelf *e = pyelf_create(0, build_id);
	uint64_t at[] = { pyelf_line(e, &spin, 6), pyelf_line(e, &crazy, 3),
			  pyelf_line(e, &last, INT32_MAX) };
	struct bytes id = { build_id, sizeof(build_id) };
	struct file f = write_file(e);
	struct pyelf_table t;
	struct frame fr;
	GElf_Shdr sh;
	off_t entry;

	(void)state;
	assert_int_equal(pyelf_read(&t, f.fd, (struct bytes){ 0 }, id), 0);
	assert_true(pyelf_frame(&t, at[0], &fr));
	assert_string_equal(fr.func->qualname, "spin");
	assert_true(pyelf_frame(&t, at[1], &fr));
	assert_string_equal(fr.func->qualname, "crazy");
	assert_int_equal(fr.func->firstline, INT32_MAX);
	assert_int_equal(fr.line, 3);
	assert_true(pyelf_frame(&t, at[2], &fr));
	assert_string_equal(fr.func->qualname, "last");
	assert_int_equal(fr.line, INT32_MAX);
	pyelf_table_deinit(&t);

	section(f, PYELF_FUNCS, &sh);
	entry = (off_t)(sh.sh_offset + 3 * sizeof(struct pyelf_entry));
	assert_int_equal(pwrite(f.fd, &two, 4, entry + 12), 4);
	assert_int_equal(pyelf_read(&t, f.fd, (struct bytes){ 0 }, id), -ENOEXEC);
	assert_int_equal(pwrite(f.fd, &(uint32_t){ 1 }, 4, entry + 12), 4);
	assert_int_equal(pwrite(f.fd, &none, 4, entry + 16), 4);
	assert_int_equal(pyelf_read(&t, f.fd, (struct bytes){ 0 }, id), -ENOEXEC);
	close_file(f);
	pyelf_destroy(e);
}

static void each_marker_has_its_place(void **state)
{
	struct pyelf *e = pyelf_create(0, build_id);
	uint64_t at[100];
	char name[16];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "[task %d]", i);
		at[i] = pyelf_marker(e, name);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(at[j], at[i]);
	}
	assert_int_equal(pyelf_marker(e, "[task 7]"), at[7]);
	assert_int_equal(pyelf_count(e), 100);
	pyelf_destroy(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_name_function_and_line),
		cmocka_unit_test(file_is_what_readers_need),
		cmocka_unit_test(functions_are_cut),
		cmocka_unit_test(names_are_printable_ascii),
		cmocka_unit_test(crazy_functions_are_bounded),
		cmocka_unit_test(the_last_lines_are_read),
		cmocka_unit_test(each_marker_has_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
