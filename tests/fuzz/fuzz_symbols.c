/* SPDX-License-Identifier: MIT
 *
 * fuzz_symbols - files' symbol tables, the functions of their .eh_frame_hdr, the files in
 * their .gnu_debugdata, packed sections; every name that comes out as people read it; what
 * they say of a Python interpreter; and where probes go.
 */
#include <zstd.h>
#ifdef PYSAMPLED_LZMA
#include <lzma.h>
#endif
#ifdef PYSAMPLED_ZLIB
#include <zlib.h>
#endif

#include "elf/elfcache.h"
#include "elf/elfprobe.h"
#include "elf/elfpython.h"
#include "elf/module.h"
#include "fuzz_elf.h"
#include "elf/inflate.h"
#include "names/symnames.h"

static void check_symbols(const struct module *t)
{
	struct symnames names;
	char raw[SYMNAMES_RAW];

	FUZZ_CHECK(symnames_init(&names) == 0);
	for (size_t i = 0; i < t->n_syms; i++) {
		const struct module_sym *s = &t->sym[i];
		const char *clean;

		FUZZ_CHECK(i == 0 || t->sym[i - 1].start < s->start);
		snprintf(raw, sizeof(raw), "%s", t->names + s->name);
		FUZZ_CHECK(raw[0]);
		if (s->size)
			FUZZ_CHECK(module_symbol(t, t->base + s->start));
		symnames_cut(raw);
		clean = symnames_symbol(&names, raw);
		fuzz_note_text(clean);
		fuzz_note((uint64_t)s->start << 32 | s->size);
		for (; *clean; clean++)
			FUZZ_CHECK((unsigned char)*clean >= ' ' && *clean != ';');
	}
	symnames_deinit(&names);
}

static void check_python(const struct elfimage *im)
{
	struct elfpython p;

	if (elfpython_of(im, &p) < 0)
		return;
	FUZZ_CHECK(p.n_loads <= ELFPYTHON_LOADS);
}

static void check_probe(const struct elfimage *im)
{
	const struct elfprobe_want wants[] = { { .name = "Py_GetVersion", .returns = 1 },
					       { .name = "python:gc__start", .usdt = 1 },
					       { .vaddr = 0x80 } };
	struct elfprobe p;

	for (size_t i = 0; i < ARRAY_SIZE(wants); i++) {
		elfprobe_find(im, &wants[i], &p);
		FUZZ_CHECK(elfprobe_good(&p));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct module t;
	struct elfimage im;

	if (elfimage_init(&im, -1, (struct bytes){ data, n }) == 0) {
		check_python(&im);
		check_probe(&im);
	}
	elfimage_deinit(&im);
	if (module_read(&t, -1, (struct bytes){ data, n }, NULL, false) < 0)
		return 0;
	fuzz_note(t.base ^ t.n_loads ^ t.n_syms << 8 ^ t.n_funcs << 32);
	fuzz_note((uint64_t)t.eval.start << 32 | t.eval.size);
	fuzz_note((uint64_t)t.stripped | (uint64_t)t.exports_python << 1 |
		  (uint64_t)t.may_be_python << 2);
	check_symbols(&t);
	for (size_t i = 0; i < t.n_funcs; i++) {
		uint64_t start;

		fuzz_note((uint64_t)t.func[i].start << 32 | t.func[i].size);
		FUZZ_CHECK(i == 0 ||
			   t.func[i - 1].start + t.func[i - 1].size <= t.func[i].start);
		if (t.func[i].size)
			FUZZ_CHECK(module_function(&t, t.base + t.func[i].start, &start));
	}
	module_deinit(&t);
	if (elfimage_init(&im, -1, (struct bytes){ data, n }) == 0) {
		struct bytes b = elfimage_bytes(&im, elfimage_section(&im, ".packed"));

		elfimage_free(&b);
	}
	elfimage_deinit(&im);
	return 0;
}

/* ---- Seeds: of the libraries that we are linked with ---- */

static size_t seed_names(uint8_t *buf, size_t cap);

/* A file of names, packed as .gnu_debugdata has them; without a sum, so that what is changed
 * comes through. */
static struct bytes mini(uint8_t *to, size_t cap)
{
	size_t n = 0;
#ifdef PYSAMPLED_LZMA
	uint8_t whole[8192];
	size_t all = seed_names(whole, sizeof(whole));

	if (lzma_easy_buffer_encode(0, LZMA_CHECK_NONE, NULL, whole, all, to, &n, cap) !=
	    LZMA_OK)
		n = 0;
#endif
	return (struct bytes){ to, n };
}

static void add_packed(struct fuzz_elf *e, bool zlib, struct bytes b)
{
	uint8_t to[8192];
	Elf64_Chdr ch = { .ch_type = zlib ? 1 : 2, .ch_size = b.n, .ch_addralign = 1 };
	size_t n = ZSTD_compress(to + sizeof(ch), sizeof(to) - sizeof(ch), b.at, b.n, 1);
#ifdef PYSAMPLED_ZLIB
	uLongf room = sizeof(to) - sizeof(ch);

	if (zlib && compress(to + sizeof(ch), &room, b.at, b.n) == Z_OK)
		n = room;
#endif
	memcpy(to, &ch, sizeof(ch));
	elf_add(e, ".packed", SHT_PROGBITS, (struct bytes){ to, sizeof(ch) + n })->sh_flags =
		SHF_COMPRESSED;
}

struct wish {
	unsigned left;
	uint8_t *buf;
	size_t cap, n;
};

static size_t seed_of(const struct elfimage *im, uint8_t *buf, size_t cap, bool odd)
{
	Elf64_Phdr hdr = { .p_type = PT_GNU_EH_FRAME };
	Elf64_Shdr *syms, *eh;
	uint8_t packed[8192] = { 0 };
	struct fuzz_elf e;

	elf_begin(&e, buf, cap);
	elf_copy(&e, im, ".dynstr");
	syms = elf_copy(&e, im, ".dynsym");
	if (syms)
		syms->sh_link = (Elf64_Word)(syms - e.sh - 1);
	eh = elf_copy(&e, im, ".eh_frame_hdr");
	if (eh)
		hdr.p_offset = eh->sh_offset, hdr.p_filesz = eh->sh_size,
		hdr.p_vaddr = eh->sh_addr;
	elf_copy(&e, im, ".gnu_debuglink");
	elf_add(&e, ".gnu_debugdata", SHT_PROGBITS, mini(packed, sizeof(packed)));
	add_packed(&e, odd, (struct bytes){ packed, 512 });
	return elf_end(&e, &hdr);
}

static int seed_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct wish *w = arg;
	_cleanup_close_ int fd = open(info->dlpi_name, O_RDONLY | O_CLOEXEC);
	struct elfimage im;

	if (fd < 0 || elfimage_init(&im, fd, (struct bytes){ 0 }) < 0)
		return 0;
	if (w->left-- == 0)
		w->n = seed_of(&im, w->buf, w->cap, w->cap & 1);
	elfimage_deinit(&im);
	return w->n > 0;
}

/* Names that compilers made. */
static size_t seed_names(uint8_t *buf, size_t cap)
{
	static const char names[] =
		"\0_ZN2ns4spinEmPKc\0_ZNSt6vectorIiSaIiEE9push_backEOi\0"
		"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE\0_RNvC6_123foo3bar\0"
		"_RINvNtC3std3mem8align_ofdE\0f.cold\0_PyEval_EvalFrameDefault\0Py_GetVersion\0interp_head\0"
		"PyInterpreterState_Head\0Py_Version\0"
		"read@@GLIBC_2."
		"2.5";
	Elf64_Sym sym[16] = { { 0 } };
	Elf64_Phdr none = { 0 };
	struct fuzz_elf e;
	size_t k = 1;

	for (size_t at = 1; at < sizeof(names); at += strlen(names + at) + 1)
		sym[k++] = (Elf64_Sym){ .st_name = (Elf64_Word)at,
					.st_info = STT_FUNC,
					.st_shndx = 1,
					.st_value = 64 * at,
					.st_size = 16 };
	elf_begin(&e, buf, cap);
	elf_add(&e, ".strtab", SHT_STRTAB, (struct bytes){ (void *)names, sizeof(names) });
	elf_add(&e, ".symtab", SHT_SYMTAB, (struct bytes){ (void *)sym, k * sizeof(sym[0]) });
	e.sh[2].sh_link = 1;
	e.sh[2].sh_entsize = sizeof(sym[0]);
	elf_end(&e, &none);
	((Elf64_Phdr *)(void *)(buf + sizeof(Elf64_Ehdr)))->p_filesz = 1 << 20;
	return e.n;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	struct wish w = { .left = i ? i - 1 : 0, .buf = buf, .cap = cap - (i & 1) };

	if (i == 0)
		return seed_names(buf, cap);
	dl_iterate_phdr(seed_library, &w);
	return w.n;
}
