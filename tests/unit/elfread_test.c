/* SPDX-License-Identifier: MIT
 *
 * elfread_test - ELF files made up of any symbols and functions: each address has the name
 * that a plain look at all of them gives it.
 */
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>
#include <errno.h>

#include "unit.h"
#include "no_memory.h"

#include "arch/arch.h"
#include "elf/module.h"
#include "elf_file.h"
#include "any.h"

enum {
	MAX_SYMS = 40,
	STUB = 16,
	LONGEST = 4096, /* names of so many bytes are none */
};

static void read_file(struct file *f, struct module *t)
{
	assert_int_equal(0, module_read(t, -1, file_bytes(f), NULL, false));
}

/* ---- Symbols ---- */

struct symbols {
	Elf64_Sym sym[MAX_SYMS];
	char text[8 * LONGEST];
	size_t n, text_n;
};

static Elf64_Sym *add(struct symbols *s, const char *name, uint64_t at, uint64_t size,
		      unsigned bind, unsigned type)
{
	Elf64_Sym *sym = &s->sym[s->n++];

	if (!s->text_n)
		s->text_n = 1;
	*sym = (Elf64_Sym){ .st_name = (uint32_t)s->text_n,
			    .st_shndx = 1,
			    .st_value = at,
			    .st_size = size,
			    .st_info = (unsigned char)ELF64_ST_INFO(bind, type) };
	strcpy(s->text + s->text_n, name);
	s->text_n += strlen(name) + 1;
	return sym;
}

static Elf64_Shdr *put_symbols(struct file *f, const struct symbols *s, uint32_t type)
{
	Elf64_Shdr *sh = section(f, type == SHT_SYMTAB ? ".symtab" : ".dynsym", type, s->sym,
				 s->n * sizeof(Elf64_Sym));

	sh->sh_entsize = sizeof(Elf64_Sym);
	sh->sh_link = f->eh.e_shnum;
	section(f, ".strtab", SHT_STRTAB, s->text, MAX(s->text_n, 1));
	return sh;
}

static bool is_function(const struct symbols *s, const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && sym->st_shndx &&
	       sym->st_name < s->text_n && s->text[sym->st_name] &&
	       strlen(s->text + sym->st_name) < LONGEST && sym->st_value >= TEXT &&
	       sym->st_value < TEXT + TEXT_SIZE;
}

/* Of two names of one address, is @a's the one that people use? */
static bool is_better(const struct symbols *s, const Elf64_Sym *a, const Elf64_Sym *b)
{
	bool local[2] = { ELF64_ST_BIND(a->st_info) == STB_LOCAL,
			  ELF64_ST_BIND(b->st_info) == STB_LOCAL };
	size_t lines[2] = { strspn(s->text + a->st_name, "_"),
			    strspn(s->text + b->st_name, "_") };

	if (!a->st_size != !b->st_size)
		return a->st_size;
	if (local[0] != local[1])
		return !local[0];
	if (lines[0] != lines[1])
		return lines[0] < lines[1];
	if ((ELF64_ST_BIND(a->st_info) == STB_WEAK) != (ELF64_ST_BIND(b->st_info) == STB_WEAK))
		return ELF64_ST_BIND(b->st_info) == STB_WEAK;
	return a < b;
}

/* The end of what @sym covers: without a size up to the next one. */
static uint64_t end_of(const struct symbols *s, const Elf64_Sym *sym)
{
	uint64_t end = sym->st_value + MIN(sym->st_size, (uint64_t)TEXT_SIZE);

	if (!sym->st_size) {
		end = sym->st_value + 4096;
		for (size_t i = 0; i < s->n; i++)
			if (is_function(s, &s->sym[i]) && s->sym[i].st_value > sym->st_value)
				end = MIN(end, s->sym[i].st_value);
	}
	return MIN(end, (uint64_t)TEXT + TEXT_SIZE);
}

/* The innermost one that covers @at, or NULL. */
static const char *plain_look(const struct symbols *s, uint64_t at)
{
	const Elf64_Sym *best[MAX_SYMS], *ret = NULL;
	size_t n = 0, k;

	for (size_t i = 0; i < s->n; i++) {
		const Elf64_Sym *sym = &s->sym[i];

		if (!is_function(s, sym))
			continue;
		for (k = 0; k < n && best[k]->st_value != sym->st_value; k++)
			;
		if (k == n)
			best[n++] = sym;
		else if (is_better(s, sym, best[k]))
			best[k] = sym;
	}
	for (k = 0; k < n; k++)
		if (best[k]->st_value <= at && at < end_of(s, best[k]) &&
		    (!ret || best[k]->st_value > ret->st_value))
			ret = best[k];
	return ret ? s->text + ret->st_name : NULL;
}

static void any_symbol(struct symbols *s, unsigned i)
{
	static const unsigned types[] = { STT_FUNC, STT_FUNC, STT_FUNC, STT_GNU_IFUNC,
					  STT_OBJECT };
	static const unsigned binds[] = { STB_LOCAL, STB_GLOBAL, STB_WEAK };
	uint64_t size = any(3) ? any(200) : 0;
	Elf64_Sym *sym;
	char name[32];

	snprintf(name, sizeof(name), "%.*sf%u", (int)any(3), "__", i);
	sym = add(s, any(20) ? name : "", TEXT + 32 * (uint64_t)any(TEXT_SIZE / 32) - 32,
		  any(20) ? size : UINT64_MAX, binds[any(3)], types[any(5)]);
	if (!any(15))
		sym->st_shndx = SHN_UNDEF;
	if (!any(15))
		sym->st_value += TEXT_SIZE;
}

static void any_symbols(void **state)
{
	static struct symbols s;
	static struct file f;

	for (int round = 0; round < 300; round++) {
		struct module t;

		memset(&s, 0, sizeof(s));
		for (unsigned i = 0; i < MAX_SYMS - 1; i++)
			any_symbol(&s, i);
		add(&s, "x", TEXT, 8, STB_GLOBAL, STT_FUNC)->st_name = (uint32_t)s.text_n + 1;
		begin(&f);
		put_symbols(&f, &s, SHT_SYMTAB);
		read_file(&f, &t);
		assert_false(t.stripped);
		for (uint64_t at = TEXT - 8; at < TEXT + TEXT_SIZE + 8; at += 1 + any(8)) {
			const char *want = plain_look(&s, at), *got = module_symbol(&t, at);

			assert_int_equal(want != NULL, got != NULL);
			if (want)
				assert_string_equal(want, got);
		}
		module_deinit(&t);
	}
}

/* Up to 15 lines before a name tell names apart; sizes come first, and so on. */
static void which_name(void **state)
{
	static const struct {
		const char *name;
		unsigned size, bind;
	} rows[] = {
		/* Each is better than the next one. */
		{ "a", 8, STB_GLOBAL },
		{ "b", 8, STB_GLOBAL },
		{ "weak", 8, STB_WEAK },
		{ "_global", 8, STB_GLOBAL },
		{ "_weak", 8, STB_WEAK },
		{ "_______________global", 8, STB_GLOBAL },
		{ "________________more", 8, STB_GLOBAL },
		{ "________________weak", 8, STB_WEAK },
		{ "local", 8, STB_LOCAL },
		{ "_local", 8, STB_LOCAL },
		{ "unsized", 0, STB_GLOBAL },
		{ "unsized_weak", 0, STB_WEAK },
		{ "unsized_local", 0, STB_LOCAL },
	};
	static struct symbols s;
	static struct file f;

	for (size_t i = 0; i + 1 < ARRAY_SIZE(rows); i++)
		for (int swap = 0; swap < 2; swap++) {
			bool equal = i == 0 || i == 5; /* then the first one */
			struct module t;

			memset(&s, 0, sizeof(s));
			for (size_t k = 0; k < 2; k++) {
				size_t row = i + (k ^ (size_t)swap);

				add(&s, rows[row].name, TEXT, rows[row].size, rows[row].bind,
				    STT_FUNC);
			}
			begin(&f);
			put_symbols(&f, &s, SHT_SYMTAB);
			read_file(&f, &t);
			assert_string_equal(rows[i + (equal && swap)].name,
					    module_symbol(&t, TEXT));
			assert_int_equal(1, t.n_syms);
			module_deinit(&t);
		}
}

/* Names that are as long as may be, or one byte longer. */
static void long_names(void **state)
{
	static struct symbols s;
	static struct file f;
	static char name[LONGEST + 1];
	struct module t;

	memset(&s, 0, sizeof(s));
	memset(name, 'n', LONGEST);
	add(&s, name, TEXT, 8, STB_GLOBAL, STT_FUNC);
	add(&s, name + 1, TEXT + 8, 8, STB_GLOBAL, STT_FUNC);
	begin(&f);
	put_symbols(&f, &s, SHT_SYMTAB);
	read_file(&f, &t);
	assert_null(module_symbol(&t, TEXT));
	assert_string_equal(name + 1, module_symbol(&t, TEXT + 8));
	assert_int_equal(sizeof(struct module_sym) + LONGEST, t.bytes);
	module_deinit(&t);
}

/* The first table of each kind counts, if it is one. */
static void tables(void **state)
{
	static struct symbols first, second, dynamic;
	static struct file f;

	memset(&first, 0, sizeof(first));
	second = dynamic = first;
	add(&first, "first", TEXT, 8, STB_GLOBAL, STT_FUNC);
	add(&second, "second", TEXT + 8, 8, STB_GLOBAL, STT_FUNC);
	add(&dynamic, "dynamic", TEXT + 16, 8, STB_GLOBAL, STT_FUNC);
	for (int broken = 0; broken < 4; broken++) {
		Elf64_Shdr *sh;
		struct module t;

		begin(&f);
		put_symbols(&f, &dynamic, SHT_DYNSYM);
		sh = put_symbols(&f, &first, SHT_SYMTAB);
		put_symbols(&f, &second, SHT_SYMTAB);
		if (broken == 1)
			sh->sh_entsize++;
		if (broken == 2)
			sh->sh_link = 99;
		if (broken == 3)
			sh->sh_size--; /* half a row is none */
		read_file(&f, &t);
		assert_false(t.stripped);
		if (broken)
			assert_null(module_symbol(&t, TEXT));
		else
			assert_string_equal("first", module_symbol(&t, TEXT));
		assert_null(module_symbol(&t, TEXT + 8));
		assert_string_equal("dynamic", module_symbol(&t, TEXT + 16));
		module_deinit(&t);
	}
}

/* What exports one of these names is an interpreter, or may be one if it is of this machine. */
static void interpreters(void **state)
{
	static const struct {
		const char *name;
		uint32_t table;
		bool is, eval, may;
	} rows[] = {
		{ "_PyEval_EvalFrameDefault", SHT_DYNSYM, true, true, false },
		{ "Py_BytesMain", SHT_DYNSYM, true, false, false },
		{ "PyEval_EvalFrameEx", SHT_DYNSYM, true, false, true },
		{ "Py_Main", SHT_DYNSYM, false, false, false },
		{ "Py_GetVersion", SHT_DYNSYM, false, false, true },
		{ "_PyRuntime", SHT_DYNSYM, false, false, true },
		{ "pypy_main_startup", SHT_DYNSYM, false, false, true },
		{ "_PyEval_EvalFrameDefault", SHT_SYMTAB, false, false, false },
		{ "Py_BytesMain", SHT_SYMTAB, false, false, false },
	};
	static struct symbols s;
	static struct file f;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct module t;

		memset(&s, 0, sizeof(s));
		add(&s, rows[i].name, TEXT + 16, 24, STB_GLOBAL, STT_FUNC);
		begin(&f);
		put_symbols(&f, &s, rows[i].table);
		read_file(&f, &t);
		assert_int_equal(rows[i].is, t.exports_python);
		assert_int_equal(rows[i].may && arch_host->elf_machine == EM_X86_64,
				 t.may_be_python);
		assert_int_equal(rows[i].eval ? 24 : 0, t.eval.size);
		if (rows[i].eval)
			assert_int_equal(TEXT + 16 - BASE, t.eval.start);
		assert_int_equal(rows[i].table == SHT_DYNSYM, t.stripped);
		module_deinit(&t);
	}
}

/* ---- Segments ---- */

static void segments(void **state)
{
	static struct symbols s;
	static struct file f;
	struct module t;

	memset(&s, 0, sizeof(s));
	add(&s, "low", BASE, 8, STB_GLOBAL, STT_FUNC); /* where no code is */
	add(&s, "first", TEXT, 8, STB_GLOBAL, STT_FUNC);
	add(&s, "last", TEXT + TEXT_SIZE - 1, 8, STB_GLOBAL, STT_FUNC);
	add(&s, "between", TEXT + TEXT_SIZE, 8, STB_GLOBAL, STT_FUNC);
	for (uint64_t i = 1; i < 10; i++)
		add(&s, "more", TEXT + i * 0x10000, 0x100, STB_GLOBAL, STT_FUNC);
	begin(&f);
	segment(&f, PT_NOTE, PF_X, 0x1000, 0, 0x100);
	for (uint64_t i = 1; i < 10; i++)
		segment(&f, PT_LOAD, PF_X, TEXT + i * 0x10000, i * 0x10000, 0x20);
	put_symbols(&f, &s, SHT_SYMTAB);
	read_file(&f, &t);
	assert_int_equal(BASE, t.base);
	assert_int_equal(MODULE_MAX_LOADS, t.n_loads);
	assert_int_equal(0x1000, t.load[0].offset);
	assert_int_equal(TEXT, t.load[0].vaddr);
	assert_int_equal(TEXT_SIZE, t.load[0].size);
	assert_null(module_symbol(&t, BASE));
	assert_string_equal("first", module_symbol(&t, TEXT));
	assert_string_equal("last", module_symbol(&t, TEXT + TEXT_SIZE - 1));
	assert_null(module_symbol(&t, TEXT + TEXT_SIZE)); /* its segment ends there */
	for (uint64_t i = 1; i < 10; i++) {
		uint64_t at = TEXT + i * 0x10000;

		if (i >= MODULE_MAX_LOADS) {
			assert_null(module_symbol(&t, at));
			continue;
		}
		assert_string_equal("more", module_symbol(&t, at + 0x1f));
		assert_null(module_symbol(&t, at + 0x20));
	}
	module_deinit(&t);
}

/* Places are numbers of 32 bits, from the first segment on. */
static void far_from_the_first_segment(void **state)
{
	const uint64_t base = UINT64_C(1) << 40, far = base + UINT32_MAX;
	static struct symbols s;
	static struct file f;
	struct module t;

	memset(&s, 0, sizeof(s));
	add(&s, "last", far, 1, STB_GLOBAL, STT_FUNC);
	add(&s, "beyond", far + 1, 1, STB_GLOBAL, STT_FUNC);
	begin(&f);
	f.ph[0].p_vaddr = base;
	f.ph[1].p_vaddr = far - 15;
	put_symbols(&f, &s, SHT_SYMTAB);
	read_file(&f, &t);
	assert_int_equal(1, t.n_syms);
	assert_string_equal("last", module_symbol(&t, far));
	assert_null(module_symbol(&t, far + 1));
	module_deinit(&t);
}

/* ---- Stubs ---- */

/* @first: bytes before the stubs in their section. */
static void read_stubs(struct module *t, const char *name, uint64_t first, unsigned n)
{
	static struct symbols s;
	static struct file f;
	Elf64_Rela rela[8] = { { 0 } };
	char text[16];

	memset(&s, 0, sizeof(s));
	add(&s, "", 0, 0, STB_LOCAL, STT_NOTYPE)->st_name = 0;
	for (unsigned i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "call%u", i);
		add(&s, text, 0, 0, STB_GLOBAL, STT_FUNC)->st_shndx = SHN_UNDEF;
		rela[i].r_info = ELF64_R_INFO(i + 1, R_X86_64_JUMP_SLOT);
	}
	begin(&f);
	put_symbols(&f, &s, SHT_DYNSYM);
	section(&f, ".rela.plt", SHT_RELA, rela, n * sizeof(*rela))->sh_link = 1;
	for (int i = 0; i < 2; i++) { /* .plt.sec is not alone */
		Elf64_Shdr *sh = section(&f, i ? name : ".other", SHT_PROGBITS, "", 1);

		sh->sh_addr = TEXT + 0x100 * (uint64_t)i;
		sh->sh_size = first + n * STUB;
	}
	if (strcmp(name, ".plt") != 0) {
		Elf64_Shdr *sh = section(&f, ".plt", SHT_PROGBITS, "", 1);

		sh->sh_addr = TEXT + 0x1000;
		sh->sh_size = STUB + n * STUB;
	}
	read_file(&f, t);
}

static void stubs(void **state)
{
	static const struct {
		const char *section;
		unsigned first;
		bool are;
	} rows[] = {
		{ ".plt", 16, true },	   { ".plt", 32, true },
		{ ".plt", 0, true },	   { ".plt", 33, false },
		{ ".plt.sec", 0, true },   { ".plt.sec", 32, true },
		{ ".plt.sec", 33, false }, { ".plt", UINT32_MAX, false }, /* too few */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool few = rows[i].first == UINT32_MAX;
		uint64_t first = few ? (uint64_t)-1 : rows[i].first;
		struct module t;
		char want[16];

		read_stubs(&t, rows[i].section, first, 5);
		for (uint64_t k = 0; k < 5; k++) {
			uint64_t at = TEXT + 0x100 + first + k * STUB;

			snprintf(want, sizeof(want), "call%u@plt", (unsigned)k);
			for (uint64_t end = 0; end < STUB; end += STUB - 1) {
				if (rows[i].are)
					assert_string_equal(want, module_symbol(&t, at + end));
				else
					assert_null(module_symbol(&t, at + end));
			}
		}
		assert_null(module_symbol(&t, TEXT + 0x100 - 1));
		assert_null(module_symbol(&t, TEXT + 0x100 + first + 5 * STUB));
		assert_null(
			module_symbol(&t, TEXT + 0x1000 + STUB)); /* .plt beside .plt.sec */
		assert_int_equal(rows[i].are ? 5 : 0, t.n_syms);
		module_deinit(&t);
	}
}

/* ---- A want of memory ---- */

/* What was left out for it looks like what the file does not have: only errno tells, whatever
 * was read since. */
static void a_lack_is_not_forgotten(void **state)
{
	static struct file f;
	struct module t;

	begin(&f);
	errno = ENOMEM;
	read_file(&f, &t);
	assert_int_equal(ENOMEM, errno);
	module_deinit(&t);
}

/* ---- Functions of .eh_frame ---- */

struct fde {
	uint32_t n, back;
	int32_t start;
	uint32_t size;
	char rest[8];
};

struct cie {
	uint32_t n, id;
	char rest[16];
};

enum { MAX_FUNCS = 20 };

struct frames {
	struct {
		uint8_t version, ptr, count_enc, row_enc;
		int32_t frame;
		uint32_t count;
		int32_t row[MAX_FUNCS][2];
	} hdr;
	struct cie cie;
	struct fde fde[MAX_FUNCS];
};

struct function {
	uint32_t start, size;
};

static void put_functions(struct file *f, const struct function *fn, unsigned n)
{
	static const char rest[] = { 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b };
	enum { AT = 0x10000 }; /* behind BASE, where nothing else is */
	struct frames fr = { .hdr = { 1, 0x1b, 3, 0x3b, 0, n, { { 0 } } } };
	uint64_t offset;

	memcpy(fr.cie.rest, rest, sizeof(rest));
	fr.cie.n = sizeof(fr.cie) - 4;
	fr.hdr.frame = (int32_t)offsetof(struct frames, cie) - 4;
	for (unsigned i = 0; i < n; i++) {
		size_t at = offsetof(struct frames, fde) + i * sizeof(struct fde);

		fr.fde[i].n = sizeof(struct fde) - 4;
		fr.fde[i].back = (uint32_t)(at + 4 - offsetof(struct frames, cie));
		fr.fde[i].start = (int32_t)(fn[i].start - (AT + at + 8));
		fr.fde[i].size = fn[i].size;
		fr.hdr.row[i][0] = (int32_t)(fn[i].start - AT);
		fr.hdr.row[i][1] = (int32_t)at;
	}
	offset = put(f, &fr, sizeof(fr));
	segment(f, PT_LOAD, PF_R, BASE + AT, offset, sizeof(fr));
	segment(f, PT_GNU_EH_FRAME, PF_R, BASE + AT, offset, sizeof(fr.hdr));
}

/* Of functions that overlap a plain look takes the one that begins last, the largest of those
 * that begin together; one of no size ends where the next one begins. */
static bool plain_function(const struct function *fn, unsigned n, uint32_t at, uint32_t *start)
{
	const struct function *best = NULL;
	uint32_t next = UINT32_MAX;

	for (unsigned i = 0; i < n; i++) {
		if (fn[i].start <= at &&
		    (!best || fn[i].start > best->start ||
		     (fn[i].start == best->start && fn[i].size > best->size)))
			best = &fn[i];
		if (fn[i].start > at)
			next = MIN(next, fn[i].start);
	}
	if (!best)
		return false;
	*start = best->start;
	if (!best->size)
		return next != UINT32_MAX;
	return at - best->start < best->size;
}

static void any_functions(void **state)
{
	static struct file f;

	for (int round = 0; round < 500; round++) {
		struct function fn[MAX_FUNCS];
		unsigned n = any(MAX_FUNCS + 1);
		bool sorted = any(2);
		uint32_t at = 0x1000;
		struct module t;

		for (unsigned i = 0; i < n; i++) {
			at = sorted ? at + any(3) * 32 : 0x1000 + any(30) * 32;
			fn[i] = (struct function){ at, any(5) ? any(100) : 0 };
		}
		/* Of those that begin together tools put the largest first. */
		for (unsigned i = 1; sorted && i < n; i++)
			if (fn[i].start == fn[i - 1].start)
				fn[i].size = MIN(fn[i].size, fn[i - 1].size);
		begin(&f);
		put_functions(&f, fn, n);
		read_file(&f, &t);
		assert_int_equal(n ? n * sizeof(struct module_func) : 0, t.bytes);
		for (uint32_t x = 0xff0; x < 0x1000 + 70 * 32; x += 1 + any(16)) {
			uint32_t start = 0;
			uint64_t got = 0;
			bool is = plain_function(fn, n, x, &start);

			assert_int_equal(is, module_function(&t, BASE + x, &got));
			if (is)
				assert_int_equal(BASE + start, got);
		}
		module_deinit(&t);
	}
}

/* ---- The rest of the loop ---- */

/* An interpreter whose loop jumps so often into either of two functions. */
static struct module_func split(unsigned first, unsigned second, unsigned to_start)
{
	enum { LOOP = 0x200 };
	static const struct function fn[] = {
		{ TEXT - BASE, LOOP },
		{ TEXT - BASE + 0x400, 0x100 },
		{ TEXT - BASE + 0x800, 0x180 },
	};
	static struct symbols s;
	static struct file f;
	unsigned char code[LOOP + 16];
	struct module_func ret;
	uint32_t at = 0;
	struct module t;

	memset(code, 0x90, sizeof(code));
	for (unsigned i = 0; i < first + second + to_start; i++, at += 8) {
		bool turn = i < 2 * MIN(first, second) ? i & 1 : second > first;
		uint32_t to = i < first + second ? (turn ? 0x800 : 0x400) + 8 + i : 0x800;

		to -= at + 5;
		code[at] = 0xe9;
		memcpy(code + at + 1, &to, 4);
	}
	/* Jumps inside itself, and those of what follows, say nothing. */
	memcpy(code + at, "\xe9\0\0\0\0", 5);
	assert_true(at + 8 < LOOP);
	memcpy(code + LOOP, "\xe9\x03\x02\0\0", 5);
	memset(&s, 0, sizeof(s));
	add(&s, "_PyEval_EvalFrameDefault", TEXT, LOOP, STB_GLOBAL, STT_FUNC);
	begin(&f);
	f.ph[1].p_offset = put(&f, code, sizeof(code));
	f.ph[1].p_filesz = sizeof(code);
	put_functions(&f, fn, 3);
	put_symbols(&f, &s, SHT_DYNSYM);
	read_file(&f, &t);
	assert_int_equal(3, t.n_funcs);
	ret = t.eval_rest;
	module_deinit(&t);
	return ret;
}

static void jumps_of_the_loop(void **state)
{
	static const struct {
		unsigned first, second, to_start;
		uint32_t rest, size;
	} rows[] = {
		{ 0, 0, 0, 0, 0 },
		{ 3, 0, 0, 0, 0 },
		{ 4, 0, 0, 0x400, 0x100 },
		{ 0, 4, 0, 0x800, 0x180 },
		{ 0, 0, 9, 0, 0 },
		{ 4, 0, 9, 0x400, 0x100 }, /* calls in the end of functions are not counted */
		{ 4, 4, 0, 0, 0 },
		{ 10, 2, 0, 0x400, 0x100 },
		{ 2, 10, 0, 0x800, 0x180 },
		{ 5, 10, 0, 0, 0 }, /* five more of 15 */
		{ 4, 13, 0, 0x800, 0x180 },
		{ 4, 12, 0, 0, 0 }, /* not more than half */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct module_func rest =
			split(rows[i].first, rows[i].second, rows[i].to_start);

		assert_int_equal(rows[i].size, rest.size);
		if (rest.size)
			assert_int_equal(TEXT - BASE + rows[i].rest, rest.start);
	}
}

/* --- without memory --- */

static struct bytes own_image(void)
{
	static unsigned char bytes[64 << 20];
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, bytes + n, sizeof(bytes) - n)) > 0)
		n += (size_t)got;
	close(fd);
	return (struct bytes){ bytes, n };
}

/* Whichever allocation fails, all is read, or errno or the result tells. */
static void memory_runs_out(void **state)
{
	const struct bytes image = own_image();
	struct module whole, t;

	assert_int_equal(module_read(&whole, -1, image, NULL, true), 0);
	assert_non_null(whole.rows);
	for (int alone = 0; alone < 2; alone++)
		for (long n = 1, more = NO_MEMORY_FAILS; more; n++) {
			int ret;

			no_memory_from(n, alone);
			errno = 0;
			ret = module_read(&t, -1, image, NULL, true);
			more = no_memory_end();
			assert_true(ret == 0 || ret == -ENOMEM || errno == ENOMEM);
			if (ret == 0 && errno != ENOMEM) {
				assert_int_equal(t.n_syms, whole.n_syms);
				assert_int_equal(t.n_funcs, whole.n_funcs);
				assert_int_equal(t.stripped, whole.stripped);
				assert_int_equal(t.exports_python, whole.exports_python);
				assert_int_equal(t.eval.size, whole.eval.size);
				assert_non_null(t.rows);
			}
			if (ret == 0)
				module_deinit(&t);
			assert_true(more || n > 5);
		}
	module_deinit(&whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_symbols),
		cmocka_unit_test(which_name),
		cmocka_unit_test(long_names),
		cmocka_unit_test(tables),
		cmocka_unit_test(interpreters),
		cmocka_unit_test(segments),
		cmocka_unit_test(far_from_the_first_segment),
		cmocka_unit_test(stubs),
		cmocka_unit_test(a_lack_is_not_forgotten),
		cmocka_unit_test(memory_runs_out),
		cmocka_unit_test(any_functions),
		cmocka_unit_test(jumps_of_the_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
