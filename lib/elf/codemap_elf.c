/* SPDX-License-Identifier: MIT
 *
 * codemap_elf - what JITs tell GDB: the functions of ELF images that lie in memory, and in
 * which mapped file the list of those is (GDB manual, "JIT Compilation Interface").
 */
#include "elf/codemap.h"

#include <errno.h>

#include "elf/elfimage.h"

enum {
	MAX_SYMBOLS = 1 << 24,
	DESCRIPTOR_SIZE = 24, /* version, action; relevant entry, first entry */
};

/* Symbols of a table, and the text of their names. */
struct symbols {
	struct bytes table, names;
	size_t n;
};

static struct bytes part_of(const struct elfimage *im, const Elf64_Shdr *sh)
{
	return elfimage_part(im, sh->sh_offset, sh->sh_size);
}

/* The first table of @type, empty where there is none. */
static struct symbols symbols_of(const struct elfimage *im, unsigned type)
{
	struct symbols ret = { 0 };
	size_t i = 0;

	while (i < im->n_sh && im->sh[i].sh_type != type)
		i++;
	if (i == im->n_sh || im->sh[i].sh_link >= im->n_sh)
		return ret;
	ret.names = part_of(im, &im->sh[im->sh[i].sh_link]);
	ret.table = part_of(im, &im->sh[i]);
	ret.n = MIN(ret.table.n / sizeof(Elf64_Sym), (size_t)MAX_SYMBOLS);
	return ret;
}

static void symbols_free(struct symbols *s)
{
	elfimage_free(&s->table);
	elfimage_free(&s->names);
}

static Elf64_Sym symbol_at(const struct symbols *s, size_t i)
{
	Elf64_Sym ret;

	memcpy(&ret, s->table.at + i * sizeof(ret), sizeof(ret));
	return ret;
}

/* The name of @sym, and in @n how long it is; NULL: it has none. */
static const char *symbol_name(const struct symbols *s, const Elf64_Sym *sym, size_t *n)
{
	const char *name;
	size_t room;

	if (sym->st_name >= s->names.n)
		return NULL;
	name = (const char *)s->names.at + sym->st_name;
	room = s->names.n - sym->st_name;
	*n = strnlen(name, room);
	return *n > 0 && *n < room ? name : NULL;
}

/* ---- Images ---- */

/* In a relocatable file a symbol counts from its section, whose address is where it was
 * loaded. */
static void add_function(struct codemap *m, const struct elfimage *im, const struct symbols *s,
			 const Elf64_Sym *sym)
{
	const Elf64_Shdr *in;
	uint64_t start = sym->st_value;
	const char *name;
	size_t n;

	if (ELF64_ST_TYPE(sym->st_info) != STT_FUNC || sym->st_shndx >= im->n_sh)
		return;
	in = &im->sh[sym->st_shndx];
	if (im->type == ET_REL)
		start += in->sh_addr;
	if (!(in->sh_flags & SHF_EXECINSTR) || start - in->sh_addr >= in->sh_size ||
	    sym->st_size > in->sh_size - (start - in->sh_addr))
		return;
	name = symbol_name(s, sym, &n);
	if (name)
		codemap_add(m, start, sym->st_size, name, n);
}

static void add_functions(struct codemap *m, struct bytes object)
{
	struct symbols s = { 0 };
	struct elfimage im;

	if (elfimage_init(&im, -1, object) == 0)
		s = symbols_of(&im, SHT_SYMTAB);
	for (size_t i = 0; i < s.n; i++) {
		Elf64_Sym sym = symbol_at(&s, i);

		add_function(m, &im, &s, &sym);
	}
	symbols_free(&s);
	elfimage_deinit(&im);
}

size_t codemap_parse_objects(struct codemap *m, struct bytes b, uint64_t at)
{
	size_t used = 0;

	while (b.n - used >= sizeof(uint64_t)) {
		struct bytes rest = { b.at + used + 8, b.n - used - 8 };
		uint64_t n = load_u64(b.at + used);

		if (n > CODEMAP_MAX_OBJECT || n > rest.n)
			break;
		add_functions(m, (struct bytes){ rest.at, n });
		used += sizeof(uint64_t) + n;
	}
	return used;
}

/* ---- The list ---- */

static bool is_descriptor(const struct symbols *s, const Elf64_Sym *sym)
{
	const char *name;
	size_t n;

	if (ELF64_ST_TYPE(sym->st_info) != STT_OBJECT || sym->st_size != DESCRIPTOR_SIZE ||
	    sym->st_shndx == SHN_UNDEF)
		return false;
	name = symbol_name(s, sym, &n);
	return name && strcmp(name, CODEMAP_DESCRIPTOR) == 0;
}

/* Its address in the file. False: there is none. */
static bool find_descriptor(const struct elfimage *im, unsigned type, uint64_t *ret)
{
	struct symbols s = symbols_of(im, type);
	bool found = false;

	for (size_t i = 0; i < s.n && !found; i++) {
		Elf64_Sym sym = symbol_at(&s, i);

		found = is_descriptor(&s, &sym);
		*ret = sym.st_value;
	}
	symbols_free(&s);
	return found;
}

/* Where the file's first byte would be mapped, as an address in the file. */
static uint64_t first_byte(const struct elfimage *im)
{
	for (size_t i = 0; i < im->n_ph; i++)
		if (im->ph[i].p_type == PT_LOAD)
			return im->ph[i].p_vaddr - im->ph[i].p_offset;
	return 0;
}

void codemap_descriptor(struct codemap *m, int fd)
{
	struct elfimage im;
	uint64_t at;

	if (elfimage_init(&im, fd, (struct bytes){ 0 }) == 0 &&
	    (find_descriptor(&im, SHT_DYNSYM, &at) || find_descriptor(&im, SHT_SYMTAB, &at)))
		codemap_add(m, at - first_byte(&im), DESCRIPTOR_SIZE, CODEMAP_DESCRIPTOR,
			    strlen(CODEMAP_DESCRIPTOR));
	elfimage_deinit(&im);
}
