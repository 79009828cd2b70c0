/* SPDX-License-Identifier: MIT
 *
 * fuzz_elf - small ELF images with the begins of real files' sections, so that mutations hit
 * what is parsed rather than code.
 */
#ifndef FUZZ_ELF_H
#define FUZZ_ELF_H

#include <elf.h>
#include <fcntl.h>
#include <link.h>

#include "elf/elfimage.h"
#include "fuzz.h"

enum { ELF_SECTION_MAX = 2048, ELF_SECTIONS = 12 };

struct fuzz_elf {
	uint8_t *buf;
	size_t n, cap;
	Elf64_Shdr sh[ELF_SECTIONS];
	size_t n_sh;
	char names[256];
	size_t n_names;
};

static inline void elf_begin(struct fuzz_elf *e, uint8_t *buf, size_t cap)
{
	*e = (struct fuzz_elf){ .buf = buf, .cap = cap, .n_sh = 1, .n_names = 1 };
	e->n = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
}

static inline Elf64_Shdr *elf_add(struct fuzz_elf *e, const char *name, uint32_t type,
				  struct bytes b)
{
	Elf64_Shdr *sh = &e->sh[e->n_sh++];

	e->n = (e->n + 7) & ~(size_t)7;
	*sh = (Elf64_Shdr){ .sh_type = type,
			    .sh_name = (Elf64_Word)e->n_names,
			    .sh_offset = e->n,
			    .sh_size = MIN(b.n, e->cap / 2 - e->n) };
	memcpy(e->buf + e->n, b.at, sh->sh_size);
	e->n += sh->sh_size;
	e->n_names += (size_t)sprintf(e->names + e->n_names, "%s", name) + 1;
	return sh;
}

/* The headers; @ph: what lies behind the one segment of code. The length of the image. */
static inline size_t elf_end(struct fuzz_elf *e, const Elf64_Phdr *ph)
{
	Elf64_Phdr load = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X };
	Elf64_Ehdr eh = { .e_type = ET_DYN,
			  .e_machine = EM_X86_64,
			  .e_phoff = sizeof(eh),
			  .e_phentsize = sizeof(load),
			  .e_phnum = 2,
			  .e_shentsize = sizeof(Elf64_Shdr) };

	elf_add(e, ".shstrtab", SHT_STRTAB,
		(struct bytes){ (void *)e->names, sizeof(e->names) });
	e->n = (e->n + 7) & ~(size_t)7;
	memcpy(eh.e_ident, ELFMAG "\2\1\1", SELFMAG + 3);
	eh.e_shoff = e->n;
	eh.e_shnum = (Elf64_Half)e->n_sh;
	eh.e_shstrndx = (Elf64_Half)(e->n_sh - 1);
	memcpy(e->buf + e->n, e->sh, e->n_sh * sizeof(e->sh[0]));
	e->n += e->n_sh * sizeof(e->sh[0]);
	load.p_filesz = e->n;
	memcpy(e->buf, &eh, sizeof(eh));
	memcpy(e->buf + sizeof(eh), &load, sizeof(load));
	memcpy(e->buf + sizeof(eh) + sizeof(load), ph, sizeof(*ph));
	return e->n;
}

/* The begin of a section of @im; @at: its address. */
static inline Elf64_Shdr *elf_copy(struct fuzz_elf *e, const struct elfimage *im,
				   const char *name)
{
	const Elf64_Shdr *sh = elfimage_section(im, name);
	_cleanup_bytes_ struct bytes b = elfimage_bytes(im, sh);
	Elf64_Shdr *ret;

	if (!b.at)
		return NULL;
	ret = elf_add(e, name, sh->sh_type, (struct bytes){ b.at, MIN(b.n, ELF_SECTION_MAX) });
	ret->sh_addr = sh->sh_addr;
	ret->sh_entsize = sh->sh_entsize;
	return ret;
}

#endif
