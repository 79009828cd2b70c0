/* SPDX-License-Identifier: MIT
 *
 * pyelf - allots addresses to functions and writes the ELF file.
 */
#include "pyelf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/array.h"
#include "base/base.h"
#include "base/printable.h"
#include "pyelf_dwarf.h"

enum {
	PAGE = 4096,
	NAME_MAX_BYTES = 2048,
	NAMES_MAX_BYTES = 256 << 20, /* all names: a target can make up many */
	END_BYTES = 16,		     /* the last symbol: hotspot 1.6 drops the last one */
	OVERFLOW_FUNC = 0,
	SEC_NOTE = 1,
	SEC_TEXT,
	SEC_SYMTAB,
	SEC_STRTAB,
	SEC_DWARF,
	SEC_FUNCS = SEC_DWARF + DWARF_N,
	SEC_STRINGS,
	SEC_SHSTRTAB,
	SEC_N,
	N_PHDRS = 3,
	NOTE_OFF = sizeof(Elf64_Ehdr) + N_PHDRS * sizeof(Elf64_Phdr),
	NOTE_SIZE = sizeof(Elf64_Nhdr) + 4 + PYELF_BUILD_ID,
};

struct pyelf {
	const struct arch *arch;
	unsigned char build_id[PYELF_BUILD_ID];
	struct pyelf_func *func;
	size_t n, cap;
	uint64_t text;	  /* bytes of text allotted */
	uint64_t lines;	  /* in all functions */
	size_t unlined;	  /* functions without some of theirs */
	struct buf names; /* .strtab */
	struct strtab *files;
	struct strtab *raw;	/* names as programs have them */
	struct strtab *markers; /* their names; */
	uint32_t *marker;	/* by number there: which function each is */
	size_t cap_markers;
	uint32_t *by_index; /* pyfunc.index to a function + 1 */
	size_t n_index;
};

/* Python's own escapes, as ascii() writes them. False: it does not fit. */
static bool put_escaped(char *buf, size_t n, size_t *at, uint32_t c)
{
	char tmp[12];
	int len;

	if (c == ' ')
		len = snprintf(tmp, sizeof(tmp), "_");
	else if (c > ' ' && c < 0x7f && !strchr(";()\\", (int)c))
		len = snprintf(tmp, sizeof(tmp), "%c", (char)c);
	else if (c < 0x100)
		len = snprintf(tmp, sizeof(tmp), "\\x%02x", c);
	else if (c < 0x10000)
		len = snprintf(tmp, sizeof(tmp), "\\u%04x", c);
	else
		len = snprintf(tmp, sizeof(tmp), "\\U%08x", c);
	if ((size_t)len >= n - *at)
		return false;
	memcpy(buf + *at, tmp, (size_t)len + 1);
	*at += (size_t)len;
	return true;
}

/* A byte that is no part of a character stands for itself. */
static size_t put_escapeds(char *buf, size_t n, size_t at, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	uint32_t c;
	size_t used;

	for (; *s; s += MAX(used, 1)) {
		used = printable_decode(s, &c);
		if (!put_escaped(buf, n, &at, used ? c : *s))
			break;
	}
	return at;
}

size_t pyelf_name(char *buf, size_t n, const char *qualname, const char *file)
{
	size_t at = (size_t)snprintf(buf, n, "py::");

	at = put_escapeds(buf, n / 2, at, qualname);
	at += (size_t)snprintf(buf + at, n - at, ":");
	return put_escapeds(buf, n, at, file);
}

/* A place of @n_lines + 1 slots with a name. Its number, or OVERFLOW_FUNC. */
static uint32_t allot(struct pyelf *e, const char *name, const char *raw, struct pyelf_func f)
{
	uint64_t bytes = ((uint64_t)f.n_lines + 1) * PYELF_SLOT;
	size_t names = e->names.n;

	if (e->n >= PYELF_MAX_FUNCS || names + strtab_bytes(e->raw) > NAMES_MAX_BYTES ||
	    bytes > PYELF_SPAN - PAGE - END_BYTES - e->text)
		return OVERFLOW_FUNC;
	if (!array_reserve(&e->func, &e->cap, e->n + 1, sizeof(*e->func)))
		return OVERFLOW_FUNC;
	f.raw = strtab_add(e->raw, raw, strlen(raw));
	if (f.raw == STRTAB_NONE)
		return OVERFLOW_FUNC;
	buf_str(&e->names, name);
	if (e->names.oom) {
		e->names.oom = false;
		e->names.n = names;
		return OVERFLOW_FUNC;
	}
	f.addr = PYELF_TEXT + e->text;
	f.name = (uint32_t)names;
	e->text += bytes;
	e->lines += f.n_lines;
	e->func[e->n] = f;
	return (uint32_t)e->n++;
}

int pyelf_new_file(int folder, const char *name)
{
	int fd;

	unlinkat(folder, name, 0);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

struct pyelf *pyelf_create(unsigned machine, const unsigned char build_id[PYELF_BUILD_ID])
{
	struct pyelf *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->arch = machine ? arch_of(machine) : arch_host;
	memcpy(e->build_id, build_id, PYELF_BUILD_ID);
	e->files = strtab_create();
	e->raw = strtab_create();
	e->markers = strtab_create();
	buf_u8(&e->names, 0);
	if (e->raw)
		allot(e, "py::<too_many_functions>", "<too many functions>",
		      (struct pyelf_func){ .file = STRTAB_NONE });
	if (e->arch && e->files && e->markers && e->n == OVERFLOW_FUNC + 1)
		return e;
	pyelf_destroy(e);
	return NULL;
}

void pyelf_destroy(struct pyelf *e)
{
	if (!e)
		return;
	buf_deinit(&e->names);
	strtab_destroy(e->files);
	strtab_destroy(e->raw);
	strtab_destroy(e->markers);
	free(e->marker);
	free(e->by_index);
	free(e->func);
	free(e);
}

/* A target says what it likes about its lines: they take memory when the file is written. */
static uint32_t lines_of(struct pyelf *e, int first, int last)
{
	uint64_t want = (uint64_t)((int64_t)last - first) + 1;
	uint64_t room = MIN((uint64_t)PYELF_MAX_LINES, PYELF_ALL_LINES - e->lines);
	uint64_t n = want <= room ? want : room == PYELF_MAX_LINES ? room : 0;

	e->unlined += n < want;
	return (uint32_t)n;
}

static uint32_t allot_func(struct pyelf *e, const struct pyfunc *func)
{
	const char *file = *func->file ? func->file : "?";
	int first = MAX(1, MIN(func->min, func->firstline));
	int last = MAX(first, MAX(func->max, func->firstline));
	struct pyelf_func f = {
		.file = strtab_add(e->files, file, strlen(file)),
		.first = (uint32_t)first,
		.n_lines = lines_of(e, first, last),
		.decl = (uint32_t)MAX(1, func->firstline),
	};
	char name[NAME_MAX_BYTES];

	if (f.file == STRTAB_NONE)
		return OVERFLOW_FUNC;
	pyelf_name(name, sizeof(name), func->qualname, file);
	return allot(e, name, func->qualname, f);
}

/* Where the number of the function @index is kept. NULL: no memory. */
static uint32_t *index_slot(struct pyelf *e, uint32_t index)
{
	size_t before = e->n_index;

	if (index >= PYELF_MAX_FUNCS ||
	    !array_reserve(&e->by_index, &e->n_index, index + 1, sizeof(*e->by_index)))
		return NULL;
	memset(e->by_index + before, 0, (e->n_index - before) * sizeof(*e->by_index));
	return &e->by_index[index];
}

uint64_t pyelf_line(struct pyelf *e, const struct pyfunc *func, int line)
{
	uint32_t *known = index_slot(e, func->index);
	const struct pyelf_func *f;
	uint32_t slot;

	if (known && !*known)
		*known = allot_func(e, func) + 1;
	f = &e->func[known ? *known - 1 : OVERFLOW_FUNC];
	slot = line > 0 && (uint32_t)line >= f->first ? (uint32_t)line - f->first : f->n_lines;
	return f->addr + (uint64_t)MIN(slot, f->n_lines) * PYELF_SLOT + PYELF_SLOT / 2;
}

/* Its function; the one for all that there is no room for is not remembered. */
static uint32_t new_marker(struct pyelf *e, const char *name)
{
	uint32_t f, i = strtab_count(e->markers);

	if (!array_reserve(&e->marker, &e->cap_markers, i + 1, sizeof(*e->marker)))
		return OVERFLOW_FUNC;
	f = allot(e, name, name, (struct pyelf_func){ .file = STRTAB_NONE });
	if (f != OVERFLOW_FUNC && strtab_add(e->markers, name, strlen(name)) == i)
		e->marker[i] = f;
	return f;
}

uint64_t pyelf_marker(struct pyelf *e, const char *name)
{
	uint32_t i = strtab_find(e->markers, name, strlen(name)), f;

	f = i == STRTAB_NONE ? new_marker(e, name) : e->marker[i];
	return e->func[f].addr + PYELF_SLOT / 2;
}

size_t pyelf_count(const struct pyelf *e)
{
	return e->n - 1;
}

size_t pyelf_unlined(const struct pyelf *e)
{
	return e->unlined;
}

/* The end symbol, and whole pages. */
static uint64_t text_size(const struct pyelf *e)
{
	return (e->text + END_BYTES + PAGE - 1) / PAGE * PAGE;
}

void pyelf_cut(struct pyelf *e, size_t n)
{
	const struct pyelf_func *first = &e->func[n + 1];

	if (n >= pyelf_count(e))
		return;
	e->names.n = first->name;
	e->text = first->addr - PYELF_TEXT;
	e->n = n + 1;
}

/* The file after the text: sections, then their headers. */
struct tail {
	struct buf buf;
	uint64_t base; /* its offset in the file */
	Elf64_Shdr sh[SEC_N];
	struct buf names; /* .shstrtab */
};

static void put_section(struct tail *t, int i, const char *name, const struct buf *data)
{
	buf_align(&t->buf, 8);
	t->sh[i].sh_name = (uint32_t)t->names.n;
	buf_str(&t->names, name);
	if (!data)
		return;
	t->sh[i].sh_offset = t->base + t->buf.n;
	t->sh[i].sh_size = data->n;
	buf_put(&t->buf, data->at, data->n);
}

static void put_symbol(struct buf *b, uint64_t name, uint64_t addr, uint64_t size)
{
	Elf64_Sym sym = {
		.st_name = (uint32_t)name,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = SEC_TEXT,
		.st_value = addr,
		.st_size = size,
	};

	buf_put(b, &sym, sizeof(sym));
}

static void put_symbols(struct tail *t, const struct pyelf *e)
{
	struct buf syms = {}, names = {};

	buf_put(&names, e->names.at, e->names.n);
	buf_zero(&syms, sizeof(Elf64_Sym));
	for (size_t i = 0; i < e->n; i++)
		put_symbol(&syms, e->func[i].name, e->func[i].addr,
			   ((uint64_t)e->func[i].n_lines + 1) * PYELF_SLOT);
	put_symbol(&syms, names.n, PYELF_TEXT + text_size(e) - END_BYTES, END_BYTES);
	buf_str(&names, "pysampled.end");
	put_section(t, SEC_SYMTAB, ".symtab", &syms);
	put_section(t, SEC_STRTAB, ".strtab", &names);
	t->buf.oom |= syms.oom || names.oom;
	buf_deinit(&syms);
	buf_deinit(&names);
}

static int put_dwarf(struct tail *t, const struct pyelf *e)
{
	struct buf sec[DWARF_N] = {};
	int ret = pyelf_dwarf_build(sec, e->func, e->n, e->files, &e->names);

	for (int i = 0; i < DWARF_N; i++) {
		put_section(t, SEC_DWARF + i, pyelf_dwarf_names[i], &sec[i]);
		buf_deinit(&sec[i]);
	}
	return ret;
}

/* Each file's name once, then each function's. */
static int put_entries(struct tail *t, const struct pyelf *e)
{
	_cleanup_free_ uint32_t *file = calloc(strtab_count(e->files) + 1, sizeof(*file));
	struct buf funcs = {}, strings = {};

	for (size_t i = 0; file && i < e->n; i++)
		if (e->func[i].file != STRTAB_NONE)
			file[e->func[i].file] = 1;
	for (uint32_t i = 0; file && i < strtab_count(e->files); i++) {
		if (!file[i])
			continue;
		file[i] = (uint32_t)strings.n;
		buf_str(&strings, strtab_get(e->files, i));
	}
	for (size_t i = 0; file && i < e->n; i++) {
		const struct pyelf_func *f = &e->func[i];
		struct pyelf_entry entry = { .addr = f->addr,
					     .first = f->first,
					     .n_lines = f->n_lines,
					     .decl = f->decl,
					     .name = (uint32_t)strings.n,
					     .file = f->file == STRTAB_NONE ? UINT32_MAX :
									      file[f->file] };

		buf_str(&strings, strtab_get(e->raw, f->raw));
		buf_put(&funcs, &entry, sizeof(entry));
	}
	put_section(t, SEC_FUNCS, PYELF_FUNCS, &funcs);
	put_section(t, SEC_STRINGS, PYELF_STRINGS, &strings);
	t->buf.oom |= funcs.oom || strings.oom;
	buf_deinit(&funcs);
	buf_deinit(&strings);
	return file ? 0 : -ENOMEM;
}

static void set_section_headers(struct tail *t, const struct pyelf *e)
{
	for (int i = 1; i < SEC_N; i++) {
		t->sh[i].sh_type = SHT_PROGBITS;
		t->sh[i].sh_addralign = 1;
	}
	t->sh[SEC_NOTE].sh_type = SHT_NOTE;
	t->sh[SEC_NOTE].sh_flags = SHF_ALLOC;
	t->sh[SEC_NOTE].sh_addr = t->sh[SEC_NOTE].sh_offset = NOTE_OFF;
	t->sh[SEC_NOTE].sh_size = NOTE_SIZE;
	t->sh[SEC_NOTE].sh_addralign = 4;
	t->sh[SEC_TEXT].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	t->sh[SEC_TEXT].sh_addr = t->sh[SEC_TEXT].sh_offset = PYELF_TEXT;
	t->sh[SEC_TEXT].sh_size = text_size(e);
	t->sh[SEC_TEXT].sh_addralign = 16;
	t->sh[SEC_SYMTAB].sh_type = SHT_SYMTAB;
	t->sh[SEC_SYMTAB].sh_link = SEC_STRTAB;
	t->sh[SEC_SYMTAB].sh_info = 1; /* the first global symbol */
	t->sh[SEC_SYMTAB].sh_entsize = sizeof(Elf64_Sym);
	t->sh[SEC_SYMTAB].sh_addralign = 8;
	t->sh[SEC_STRTAB].sh_type = SHT_STRTAB;
	t->sh[SEC_SHSTRTAB].sh_type = SHT_STRTAB;
	t->sh[SEC_DWARF + DWARF_STR].sh_flags = SHF_MERGE | SHF_STRINGS;
	t->sh[SEC_DWARF + DWARF_STR].sh_entsize = 1;
}

/* Build everything behind the text; *@shoff is where the section headers are. */
static int build_tail(struct tail *t, const struct pyelf *e, uint64_t *shoff)
{
	struct buf *names = &t->names;
	int ret;

	buf_u8(names, 0);
	put_section(t, SEC_NOTE, ".note.gnu.build-id", NULL);
	put_section(t, SEC_TEXT, ".text", NULL);
	put_symbols(t, e);
	ret = put_dwarf(t, e);
	if (!ret)
		ret = put_entries(t, e);
	t->sh[SEC_SHSTRTAB].sh_name = (uint32_t)names->n;
	buf_str(names, ".shstrtab");
	buf_align(&t->buf, 8);
	t->sh[SEC_SHSTRTAB].sh_offset = t->base + t->buf.n;
	t->sh[SEC_SHSTRTAB].sh_size = names->n;
	buf_put(&t->buf, names->at, names->n);
	buf_align(&t->buf, 8);
	set_section_headers(t, e);
	*shoff = t->base + t->buf.n;
	buf_put(&t->buf, t->sh, sizeof(t->sh));
	return t->buf.oom || names->oom ? -ENOMEM : ret;
}

static void build_head(struct buf *b, const struct pyelf *e, uint64_t shoff)
{
	Elf64_Ehdr eh = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT, ELFOSABI_NONE },
		.e_type = ET_DYN,
		.e_machine = e->arch->elf_machine,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(eh),
		.e_shoff = shoff,
		.e_ehsize = sizeof(eh),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = N_PHDRS,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SEC_N,
		.e_shstrndx = SEC_SHSTRTAB,
	};
	uint64_t head = NOTE_OFF + NOTE_SIZE, text = text_size(e);
	Elf64_Phdr ph[N_PHDRS] = {
		{ PT_LOAD, PF_R, 0, 0, 0, head, head, PAGE },
		{ PT_LOAD, PF_R | PF_X, PYELF_TEXT, PYELF_TEXT, PYELF_TEXT, text, text, PAGE },
		{ PT_NOTE, PF_R, NOTE_OFF, NOTE_OFF, NOTE_OFF, NOTE_SIZE, NOTE_SIZE, 4 },
	};
	Elf64_Nhdr nh = { .n_namesz = 4,
			  .n_descsz = PYELF_BUILD_ID,
			  .n_type = NT_GNU_BUILD_ID };

	buf_put(b, &eh, sizeof(eh));
	buf_put(b, ph, sizeof(ph));
	buf_put(b, &nh, sizeof(nh));
	buf_put(b, "GNU", 4);
	buf_put(b, e->build_id, PYELF_BUILD_ID);
}

static int write_text(const struct pyelf *e, int fd)
{
	struct buf page = {};
	uint64_t end = PYELF_TEXT + text_size(e);
	int ret = 0;

	for (int i = 0; i < 16 * PAGE / PYELF_SLOT; i++)
		buf_put(&page, &e->arch->nop, PYELF_SLOT);
	for (uint64_t at = PYELF_TEXT; at < end && !ret; at += page.n) {
		page.n = MIN(page.n, end - at);
		ret = buf_pwrite(&page, fd, at, NULL);
	}
	buf_deinit(&page);
	return ret;
}

int pyelf_write(const struct pyelf *e, int fd)
{
	struct tail tail = { .base = PYELF_TEXT + text_size(e) };
	struct buf head = {};
	uint64_t shoff;
	int ret = build_tail(&tail, e, &shoff);

	build_head(&head, e, shoff);
	if (!ret)
		ret = write_text(e, fd);
	if (!ret)
		ret = buf_pwrite(&tail.buf, fd, tail.base, NULL);
	if (!ret)
		ret = buf_pwrite(&head, fd, 0, NULL);
	buf_deinit(&head);
	buf_deinit(&tail.buf);
	buf_deinit(&tail.names);
	return ret;
}
