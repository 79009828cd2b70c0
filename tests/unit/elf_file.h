/* SPDX-License-Identifier: MIT
 *
 * elf_file - ELF files made up in memory, for tests of what reads them.
 */
#ifndef TESTS_ELF_FILE_H
#define TESTS_ELF_FILE_H

#include <elf.h>
#include <string.h>

#include "base/base.h"

enum {
	BASE = 0x400000, /* of a segment without code */
	TEXT = 0x401000,
	TEXT_SIZE = 0x2000,
};

/* A file under construction: headers first, then what put() adds. */
struct file {
	_Alignas(8) unsigned char b[128 << 10];
	size_t n;
	Elf64_Ehdr eh;
	Elf64_Phdr ph[16];
	Elf64_Shdr sh[12];
	char name[256]; /* of sections */
	size_t name_n;
};

static uint64_t put(struct file *f, const void *p, size_t n)
{
	size_t at = (f->n + 7) & ~(size_t)7;

	assert_true(at + n <= sizeof(f->b));
	memcpy(f->b + at, p, n);
	f->n = at + n;
	return at;
}

static Elf64_Phdr *segment(struct file *f, uint32_t type, uint32_t flags, uint64_t vaddr,
			   uint64_t offset, uint64_t size)
{
	Elf64_Phdr *p = &f->ph[f->eh.e_phnum++];

	*p = (Elf64_Phdr){ .p_type = type,
			   .p_flags = flags,
			   .p_vaddr = vaddr,
			   .p_offset = offset,
			   .p_filesz = size };
	return p;
}

static Elf64_Shdr *section(struct file *f, const char *name, uint32_t type, const void *p,
			   size_t n)
{
	Elf64_Shdr *sh = &f->sh[f->eh.e_shnum++];

	*sh = (Elf64_Shdr){ .sh_name = (uint32_t)f->name_n, .sh_type = type, .sh_size = n };
	sh->sh_offset = put(f, p, n);
	strcpy(f->name + f->name_n, name);
	f->name_n += strlen(name) + 1;
	return sh;
}

static void begin(struct file *f)
{
	memset(f, 0, sizeof(*f));
	f->n = sizeof(Elf64_Ehdr) + sizeof(f->ph) + sizeof(f->sh);
	f->name_n = 1;
	memcpy(f->eh.e_ident, ELFMAG, SELFMAG);
	f->eh.e_ident[EI_CLASS] = ELFCLASS64;
	f->eh.e_ident[EI_DATA] = ELFDATA2LSB;
	f->eh.e_type = ET_DYN, f->eh.e_machine = EM_X86_64;
	f->eh.e_phentsize = sizeof(Elf64_Phdr), f->eh.e_shentsize = sizeof(Elf64_Shdr);
	f->eh.e_phoff = sizeof(Elf64_Ehdr);
	f->eh.e_shoff = sizeof(Elf64_Ehdr) + sizeof(f->ph);
	f->eh.e_shnum = 1; /* the empty one */
	segment(f, PT_LOAD, PF_R, BASE, 0, 0x1000);
	segment(f, PT_LOAD, PF_R | PF_X, TEXT, 0x1000, TEXT_SIZE);
}

/* Its bytes, once all is in it. They are the file's. */
static struct bytes file_bytes(struct file *f)
{
	section(f, ".shstrtab", SHT_STRTAB, f->name, sizeof(f->name));
	f->eh.e_shstrndx = (Elf64_Half)(f->eh.e_shnum - 1);
	memcpy(f->b + f->sh[f->eh.e_shstrndx].sh_offset, f->name, sizeof(f->name));
	memcpy(f->b, &f->eh, sizeof(f->eh));
	memcpy(f->b + f->eh.e_phoff, f->ph, sizeof(f->ph));
	memcpy(f->b + f->eh.e_shoff, f->sh, sizeof(f->sh));
	return (struct bytes){ f->b, f->n };
}

#endif
