/* SPDX-License-Identifier: MIT
 *
 * pymapped - reads a program header, the dynamic section and GNU hash tables out of memory.
 */
#include "python/pymapped.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/base.h"
#include "elf/elfimage.h"
#include "remote/remote_pages.h"

enum { PAGES = 24, MAX_DYNAMIC = 64, MAX_CHAIN = 64, NAMES = 4, MAX_NAME = 32 };

struct image {
	struct rmem *m;
	raddr at, end, bias; /* of the mapped file; what to add to its addresses */
	unsigned char head[RMEM_PAGE];
	raddr dynamic, hash, symbols, names;
	size_t n_dynamic;
};

/* What is looked for, in the order of struct found. */
static const char wanted[NAMES][MAX_NAME] = { "_PyRuntime", "Py_Version",
					      "_PyEval_EvalFrameDefault",
					      "_PyOptimizer_Optimize" };

struct found {
	uint32_t hash, bucket, chain[MAX_CHAIN], n;
	Elf64_Sym sym;
	char name[MAX_NAME];
};

/* Notes in the file's first page: the one that tells the build. */
static void read_notes(const struct image *im, const Elf64_Phdr *p, struct elfpython *ret)
{
	struct bytes all = { im->head, 0 }, notes;
	struct elfimage_note note;

	if (p->p_offset <= RMEM_PAGE && p->p_filesz <= RMEM_PAGE - p->p_offset)
		all = (struct bytes){ im->head + p->p_offset, p->p_filesz };
	notes = all;
	for (const unsigned char *at = all.at; elfimage_next_note(&notes, &note); at = notes.at) {
		if (!elfimage_note_is(&note, "GNU", NT_GNU_BUILD_ID))
			continue;
		ret->build_id = p->p_vaddr + (uint64_t)(at - all.at);
		ret->build_id_n = (uint32_t)(note.desc.at + note.desc.n - at);
	}
}

static void read_load(struct image *im, const Elf64_Phdr *p, struct elfpython *ret)
{
	if (ret->n_loads == ELFPYTHON_LOADS)
		return;
	if (ret->n_loads == 0)
		im->bias = im->at - p->p_vaddr + p->p_offset;
	im->end = im->bias + p->p_vaddr + p->p_memsz;
	ret->load[ret->n_loads].offset = p->p_offset;
	ret->load[ret->n_loads].vaddr = p->p_vaddr;
	ret->n_loads++;
}

static int read_head(struct image *im, struct elfpython *ret)
{
	Elf64_Ehdr e;

	if (rmem_read(im->m, im->at, im->head, sizeof(im->head)) < 0)
		return -ENOENT;
	memcpy(&e, im->head, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_machine != arch_host->elf_machine || e.e_phentsize != sizeof(Elf64_Phdr) ||
	    e.e_phoff > RMEM_PAGE || e.e_phnum > (RMEM_PAGE - e.e_phoff) / sizeof(Elf64_Phdr))
		return -ENOENT;
	ret->program = e.e_type == ET_EXEC;
	for (size_t i = 0; i < e.e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, im->head + e.e_phoff + i * sizeof(p), sizeof(p));
		ret->program |= p.p_type == PT_INTERP;
		if (p.p_type == PT_LOAD)
			read_load(im, &p, ret);
		if (p.p_type == PT_NOTE)
			read_notes(im, &p, ret);
		if (p.p_type == PT_DYNAMIC) {
			im->dynamic = p.p_vaddr;
			im->n_dynamic =
				MIN(p.p_memsz / sizeof(Elf64_Dyn), (uint64_t)MAX_DYNAMIC);
		}
	}
	return ret->n_loads ? 0 : -ENOENT;
}

/* glibc's linker writes the address where it lies over the one that the file says. */
static raddr pointed(const struct image *im, uint64_t v)
{
	return v - im->at < im->end - im->at ? v : v + im->bias;
}

static int read_dynamic(struct image *im)
{
	Elf64_Dyn d[MAX_DYNAMIC];

	if (rmem_read(im->m, im->bias + im->dynamic, d, im->n_dynamic * sizeof(*d)) < 0)
		return -ENOENT;
	for (size_t i = 0; i < im->n_dynamic && d[i].d_tag != DT_NULL; i++) {
		if (d[i].d_tag == DT_GNU_HASH)
			im->hash = pointed(im, d[i].d_un.d_ptr);
		if (d[i].d_tag == DT_SYMTAB)
			im->symbols = pointed(im, d[i].d_un.d_ptr);
		if (d[i].d_tag == DT_STRTAB)
			im->names = pointed(im, d[i].d_un.d_ptr);
	}
	return im->hash && im->symbols && im->names ? 0 : -ENOENT;
}

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

/* Which symbol may be the one, by its hash; 0: none. */
static uint32_t in_chain(const struct found *f)
{
	for (uint32_t i = 0; f->bucket && i < MAX_CHAIN; i++) {
		if ((f->chain[i] | 1) == (f->hash | 1))
			return f->bucket + i;
		if (f->chain[i] & 1)
			return 0;
	}
	return 0;
}

/* By the hash table, each step for all names at once. */
static void find_symbols(struct image *im, struct found f[NAMES])
{
	uint32_t head[4]; /* buckets, the first symbol, words of a filter, its shift */
	raddr buckets, chains;
	struct rmem_vec v[NAMES];

	if (rmem_read(im->m, im->hash, head, sizeof(head)) < 0 || !head[0])
		return;
	buckets = im->hash + sizeof(head) + 8ull * head[2];
	chains = buckets + 4ull * head[0];
	for (size_t i = 0; i < NAMES; i++) {
		f[i].hash = hash_of(wanted[i]);
		v[i] = (struct rmem_vec){ buckets + 4ull * (f[i].hash % head[0]), &f[i].bucket,
					  sizeof(f[i].bucket) };
	}
	if (rmem_readv(im->m, v, NAMES) < NAMES)
		return;
	for (size_t i = 0; i < NAMES; i++) {
		f[i].bucket = f[i].bucket >= head[1] ? f[i].bucket : 0;
		v[i] = (struct rmem_vec){
			chains + 4ull * (f[i].bucket ? f[i].bucket - head[1] : 0), f[i].chain,
			sizeof(f[i].chain)
		};
	}
	if (rmem_readv(im->m, v, NAMES) < NAMES)
		return;
	for (size_t i = 0; i < NAMES; i++) {
		f[i].n = in_chain(&f[i]);
		v[i] = (struct rmem_vec){ im->symbols + sizeof(f[i].sym) * (uint64_t)f[i].n,
					  &f[i].sym, sizeof(f[i].sym) };
	}
	if (!f[0].n || rmem_readv(im->m, v, NAMES) < NAMES)
		return;
	for (size_t i = 0; i < NAMES; i++)
		v[i] = (struct rmem_vec){ im->names + f[i].sym.st_name, f[i].name,
					  strlen(wanted[i]) + 1 };
	rmem_readv(im->m, v, NAMES);
}

static uint64_t value_of(const struct found *f, size_t i)
{
	bool its = f[i].n && f[i].sym.st_shndx != SHN_UNDEF &&
		   !memcmp(f[i].name, wanted[i], strlen(wanted[i]) + 1);

	return its ? f[i].sym.st_value : 0;
}

/* Surely no symbol of that hash: its chain ends before. */
static bool is_absent(const struct found *f)
{
	bool ends = !f->bucket;

	for (uint32_t i = 0; !f->n && i < MAX_CHAIN; i++)
		ends |= f->chain[i] & 1;
	return !f->n && ends;
}

int pymapped_read(struct rmem *m, raddr at, struct elfpython *ret)
{
	unsigned char page[PAGES][RMEM_PAGE];
	struct found f[NAMES] = { 0 };
	struct image im = { .at = at };
	struct rmem_pages pages;
	int r;

	*ret = (struct elfpython){ .python = 1 };
	rmem_pages_init(&pages, m, page, PAGES);
	im.m = &pages.base;
	r = read_head(&im, ret);
	if (r == 0)
		r = read_dynamic(&im);
	if (r < 0)
		return r;
	find_symbols(&im, f);
	ret->runtime = value_of(f, 0);
	ret->py_version = value_of(f, 1);
	ret->exports = (value_of(f, 2) ? ELFPYTHON_LOOP : 0) |
		       (is_absent(&f[3]) ? 0 : ELFPYTHON_OPTIMIZER);
	return ret->runtime ? 0 : -ENOENT;
}
