/* SPDX-License-Identifier: MIT */
#include "elf/elfimage.h"

#include <errno.h>
#include <sys/stat.h>

#include "elf/inflate.h"

enum {
	MAX_PHDRS = 256,
	MAX_NOTES = 64 << 10, /* bytes of notes */
	MAX_LOOKS = 64,	      /* sections of notes that may have a build-id */
};

#define MAX_READ ((uint64_t)1 << 30) /* bytes of one file, whatever it says of itself */

static int file_read(const struct elfimage *im, uint64_t offset, void *buf, size_t n)
{
	size_t got = 0;
	int fd = im->fd;

	if (n > im->window->left)
		return -EIO;
	im->window->left -= n;
	while (got < n) {
		ssize_t k = pread(fd, (char *)buf + got, n - got, (off_t)(offset + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return -EIO;
		got += (size_t)k;
	}
	return 0;
}

/* What is small lies beside what is wanted next: headers in the beginning, those of sections
 * and their names at the end. False: the file is another by now. */
static bool window_read(const struct elfimage *im, uint64_t offset, void *buf, size_t n)
{
	struct elfimage_block *w = &im->window->block[offset >= ELFIMAGE_WINDOW];
	uint64_t last = im->size - MIN(im->size, (uint64_t)sizeof(w->at));

	if (offset < w->offset || offset + n > w->offset + w->n) {
		w->offset = MIN(offset, last);
		w->n = (size_t)MIN(im->size, (uint64_t)sizeof(w->at));
		if (file_read(im, w->offset, w->at, w->n) < 0)
			w->n = 0;
	}
	if (offset + n > w->offset + w->n)
		return false;
	memcpy(buf, w->at + (offset - w->offset), n);
	return true;
}

static int image_read(const struct elfimage *im, uint64_t offset, void *buf, size_t n)
{
	if (offset > im->size || n > im->size - offset)
		return -ENOEXEC;
	if (im->fd < 0) {
		memcpy(buf, im->mem.at + offset, n);
		return 0;
	}
	if (n <= ELFIMAGE_WINDOW && window_read(im, offset, buf, n))
		return 0;
	return file_read(im, offset, buf, n);
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

/* How large a regular file is. Of one on another user's FUSE, which we were given, only its
 * end tells. */
static int file_size(int fd, uint64_t *ret)
{
	struct stat st;
	off_t end;

	if (fstat(fd, &st) == 0) {
		*ret = st.st_size > 0 ? (uint64_t)st.st_size : 0;
		return S_ISREG(st.st_mode) ? 0 : -ENOEXEC;
	}
	end = errno == EACCES ? lseek(fd, 0, SEEK_END) : -1;
	*ret = end > 0 ? (uint64_t)end : 0;
	return end < 0 ? -EIO : 0;
}

int elfimage_init(struct elfimage *im, int fd, struct bytes mem)
{
	Elf64_Ehdr eh;
	int r;

	*im = (struct elfimage){ .fd = fd, .mem = mem, .size = mem.n };
	if (fd >= 0) {
		r = file_size(fd, &im->size);
		if (r < 0)
			return r;
		im->window = malloc(sizeof(*im->window));
		if (!im->window)
			return -ENOMEM;
		im->window->left = MAX_READ;
		for (size_t i = 0; i < 2; i++)
			im->window->block[i].offset = im->window->block[i].n = 0;
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
	im->type = eh.e_type;
	im->n_ph = im->ph ? eh.e_phnum : 0;
	im->n_sh = im->sh ? eh.e_shnum : 0;
	if (eh.e_shstrndx < im->n_sh)
		im->sh_names = elfimage_bytes(im, &im->sh[eh.e_shstrndx]);
	return 0;
}

void elfimage_deinit(struct elfimage *im)
{
	free(im->ph);
	free(im->sh);
	elfimage_free(&im->sh_names);
	free(im->window);
}

void elfimage_free(const struct bytes *b)
{
	free((void *)(uintptr_t)b->at);
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

struct bytes elfimage_bytes(const struct elfimage *im, const Elf64_Shdr *sh)
{
	_cleanup_bytes_ struct bytes packed = { 0 };

	if (!sh || sh->sh_type == SHT_NOBITS)
		return (struct bytes){ 0 };
	if (!(sh->sh_flags & SHF_COMPRESSED))
		return elfimage_part(im, sh->sh_offset, sh->sh_size);
	packed = elfimage_part(im, sh->sh_offset, sh->sh_size);
	return inflate_section(packed, ELFIMAGE_MAX_PART);
}

static const char *name_of(const struct elfimage *im, const Elf64_Shdr *sh)
{
	return sh->sh_name < im->sh_names.n ? (const char *)im->sh_names.at + sh->sh_name : "";
}

const Elf64_Shdr *elfimage_section(const struct elfimage *im, const char *name)
{
	for (size_t i = 0; i < im->n_sh; i++)
		if (strcmp(name_of(im, &im->sh[i]), name) == 0)
			return &im->sh[i];
	return NULL;
}

static uint64_t padded(uint64_t n)
{
	return (n + 3) & ~(uint64_t)3;
}

/* Of notes: sizes of name and contents, type, name, contents, both padded to 4 bytes (gABI,
 * "Note Section"). */
bool elfimage_next_note(struct bytes *notes, struct elfimage_note *ret)
{
	uint64_t desc, next;
	Elf64_Nhdr nh;

	if (notes->n < sizeof(nh))
		return false;
	memcpy(&nh, notes->at, sizeof(nh));
	desc = sizeof(nh) + padded(nh.n_namesz);
	if (desc + nh.n_descsz > notes->n)
		return false;
	*ret = (struct elfimage_note){ .type = nh.n_type,
				       .name = { notes->at + sizeof(nh), nh.n_namesz },
				       .desc = { notes->at + desc, nh.n_descsz } };
	next = MIN(desc + padded(nh.n_descsz), notes->n);
	notes->at += next;
	notes->n -= next;
	return true;
}

bool elfimage_note_is(const struct elfimage_note *note, const char *name, uint32_t type)
{
	size_t n = strlen(name) + 1;

	return note->type == type && note->name.n == n && !memcmp(note->name.at, name, n);
}

size_t elfimage_id_in_notes(struct bytes notes, unsigned char ret[ELFIMAGE_MAX_ID])
{
	struct elfimage_note note;

	while (elfimage_next_note(&notes, &note)) {
		if (!elfimage_note_is(&note, "GNU", NT_GNU_BUILD_ID) ||
		    note.desc.n > ELFIMAGE_MAX_ID)
			continue;
		memcpy(ret, note.desc.at, note.desc.n);
		return note.desc.n;
	}
	return 0;
}

/* The build-id in @n bytes of notes at @offset: real ones are a few hundred bytes. */
static size_t read_id(const struct elfimage *im, uint64_t offset, uint64_t n,
		      unsigned char ret[ELFIMAGE_MAX_ID])
{
	_cleanup_bytes_ struct bytes notes = { 0 };

	if (n <= MAX_NOTES)
		notes = elfimage_part(im, offset, n);
	return elfimage_id_in_notes(notes, ret);
}

size_t elfimage_build_id(const struct elfimage *im, unsigned char ret[ELFIMAGE_MAX_ID])
{
	size_t n = 0, looks = 0;

	/* By section: in a debug file the segments are not where the headers say. */
	for (size_t i = 0; i < im->n_sh && n == 0 && looks < MAX_LOOKS; i++)
		if (im->sh[i].sh_type == SHT_NOTE) {
			n = read_id(im, im->sh[i].sh_offset, im->sh[i].sh_size, ret);
			looks++;
		}
	for (size_t i = 0; im->n_sh == 0 && i < im->n_ph && n == 0; i++)
		if (im->ph[i].p_type == PT_NOTE)
			n = read_id(im, im->ph[i].p_offset, im->ph[i].p_filesz, ret);
	return n;
}
