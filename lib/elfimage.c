/* SPDX-License-Identifier: MIT */
#include "elfimage.h"

#include <errno.h>
#include <sys/stat.h>

enum { MAX_PHDRS = 256, MAX_NOTES = 64 << 10 };

static int image_read(const struct elfimage *im, uint64_t offset, void *buf, size_t n)
{
	size_t got = 0;

	if (offset > im->size || n > im->size - offset)
		return -ENOEXEC;
	if (im->fd < 0) {
		memcpy(buf, im->mem.at + offset, n);
		return 0;
	}
	while (got < n) {
		ssize_t k = pread(im->fd, (char *)buf + got, n - got, (off_t)(offset + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return -EIO;
		got += (size_t)k;
	}
	return 0;
}

struct bytes elfimage_part(const struct elfimage *im, uint64_t offset, uint64_t n)
{
	unsigned char *p;

	if (n == 0 || n > ELFIMAGE_MAX_PART || offset > im->size || n > im->size - offset)
		return (struct bytes){ 0 };
	p = malloc(n + 1);
	if (!p || image_read(im, offset, p, n) < 0) {
		free(p);
		return (struct bytes){ 0 };
	}
	p[n] = '\0';
	return (struct bytes){ p, n };
}

static void *image_table(const struct elfimage *im, uint64_t offset, size_t n, size_t each)
{
	return n ? (void *)(uintptr_t)elfimage_part(im, offset, n * each).at : NULL;
}

int elfimage_init(struct elfimage *im, int fd, struct bytes mem)
{
	Elf64_Ehdr eh;
	struct stat st;

	*im = (struct elfimage){ .fd = fd, .mem = mem, .size = mem.n };
	if (fd >= 0) {
		if (fstat(fd, &st) < 0)
			return -EIO;
		if (!S_ISREG(st.st_mode))
			return -ENOEXEC;
		im->size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	}
	if (image_read(im, 0, &eh, sizeof(eh)) < 0)
		return -ENOEXEC;
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	if (eh.e_phentsize == sizeof(Elf64_Phdr) && eh.e_phnum <= MAX_PHDRS)
		im->ph = image_table(im, eh.e_phoff, eh.e_phnum, sizeof(Elf64_Phdr));
	if (eh.e_shentsize == sizeof(Elf64_Shdr))
		im->sh = image_table(im, eh.e_shoff, eh.e_shnum, sizeof(Elf64_Shdr));
	im->machine = eh.e_machine;
	im->sh_names = eh.e_shstrndx;
	im->n_ph = im->ph ? eh.e_phnum : 0;
	im->n_sh = im->sh ? eh.e_shnum : 0;
	return im->n_ph ? 0 : -ENOEXEC;
}

void elfimage_deinit(struct elfimage *im)
{
	free(im->ph);
	free(im->sh);
}

struct bytes elfimage_rest(const struct elfimage *im, uint64_t vaddr)
{
	for (size_t i = 0; i < im->n_ph; i++) {
		const Elf64_Phdr *p = &im->ph[i];
		uint64_t off = vaddr - p->p_vaddr;

		if (p->p_type == PT_LOAD && off < p->p_filesz)
			return elfimage_part(im, p->p_offset + off,
					     MIN(p->p_filesz - off, ELFIMAGE_MAX_PART));
	}
	return (struct bytes){ 0 };
}

const Elf64_Shdr *elfimage_section(const struct elfimage *im, const char *name)
{
	const Elf64_Shdr *names = im->sh_names < im->n_sh ? &im->sh[im->sh_names] : NULL;
	_cleanup_bytes_ struct bytes text = { 0 };

	if (names)
		text = elfimage_part(im, names->sh_offset, names->sh_size);
	for (size_t i = 0; text.at && i < im->n_sh; i++)
		if (im->sh[i].sh_name < text.n &&
		    strcmp((const char *)text.at + im->sh[i].sh_name, name) == 0)
			return &im->sh[i];
	return NULL;
}

/* A note: sizes of name and contents, type, both padded to 4 bytes (gABI, "Note
 * Section"). */
static size_t notes_build_id(struct bytes notes, unsigned char *buf, size_t cap)
{
	Elf64_Nhdr nh;

	for (size_t at = 0; notes.n - at >= sizeof(nh);) {
		uint64_t name, desc, end;

		memcpy(&nh, notes.at + at, sizeof(nh));
		name = at + sizeof(nh);
		desc = name + (((uint64_t)nh.n_namesz + 3) & ~(uint64_t)3);
		end = desc + (((uint64_t)nh.n_descsz + 3) & ~(uint64_t)3);
		if (end > notes.n)
			return 0;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 &&
		    memcmp(notes.at + name, "GNU", 4) == 0) {
			cap = MIN(cap, nh.n_descsz);
			memcpy(buf, notes.at + desc, cap);
			return cap;
		}
		at = end;
	}
	return 0;
}

size_t elfimage_build_id(const struct elfimage *im, unsigned char *buf, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < im->n_ph && n == 0; i++) {
		const Elf64_Phdr *p = &im->ph[i];
		_cleanup_bytes_ struct bytes notes = { 0 };

		if (p->p_type != PT_NOTE || p->p_filesz > MAX_NOTES)
			continue;
		notes = elfimage_part(im, p->p_offset, p->p_filesz);
		if (notes.at)
			n = notes_build_id(notes, buf, cap);
	}
	return n;
}
