/* SPDX-License-Identifier: MIT
 *
 * elfimage - an ELF file by its parts: the only reader of untrusted files. Format: elf(5).
 *
 * By pread, never mapped: a file that shrinks under a mapping would kill us.
 */
#ifndef ELFIMAGE_H
#define ELFIMAGE_H

#include <elf.h>
#include <stdbool.h>

#include "base/base.h"

enum {
	ELFIMAGE_MAX_PART = 256 << 20, /* bytes of one part */
	ELFIMAGE_MAX_ID = 64,	       /* bytes of a build-id */
	ELFIMAGE_WINDOW = 128 << 10,
};

/* What was read last of a file's beginning, and of what is behind that. */
struct elfimage_window {
	uint64_t left; /* bytes that may be read of the file yet */
	struct elfimage_block {
		uint64_t offset;
		size_t n;
		unsigned char at[ELFIMAGE_WINDOW];
	} block[2];
};

struct elfimage {
	int fd;
	struct bytes mem;
	struct elfimage_window *window; /* of the file; NULL: an image */
	uint64_t size;
	Elf64_Phdr *ph;
	size_t n_ph;
	Elf64_Shdr *sh;
	size_t n_sh;
	struct bytes sh_names; /* of sections */
	unsigned machine, type;
};

/* An open file, which must be a regular one, or (@fd < 0) an image in memory; either is
 * borrowed. 0; -ENOEXEC when it is no 64-bit little-endian ELF; -EIO; -ENOMEM. To be emptied
 * in any case. */
int elfimage_init(struct elfimage *im, int fd, struct bytes mem);
void elfimage_deinit(struct elfimage *im);

/* A part of the file as malloc'ed bytes with a NUL behind; empty when damaged or too large. */
struct bytes elfimage_part(const struct elfimage *im, uint64_t offset, uint64_t n);
void elfimage_free(const struct bytes *b);
#define _cleanup_bytes_ __attribute__((__cleanup__(elfimage_free)))

/* The same from @vaddr to the end of its segment. */
struct bytes elfimage_rest(const struct elfimage *im, uint64_t vaddr);

/* The first section of this name, NULL where there is none. */
const Elf64_Shdr *elfimage_section(const struct elfimage *im, const char *name);

/* A section's bytes, unpacked; empty for NULL, and for one that only says how large it was. */
struct bytes elfimage_bytes(const struct elfimage *im, const Elf64_Shdr *sh);

/* A note: what it is of whom, with the NUL behind the name. */
struct elfimage_note {
	uint32_t type;
	struct bytes name, desc;
};

/* The first of *@notes, which then are those behind it. False: there is none, or a damaged one.
 * Pure. */
bool elfimage_next_note(struct bytes *notes, struct elfimage_note *ret);

/* True: it is @name's, of @type. */
bool elfimage_note_is(const struct elfimage_note *note, const char *name, uint32_t type);

/* The build-id among notes, up to ELFIMAGE_MAX_ID bytes; how many, 0: none. Pure. */
size_t elfimage_id_in_notes(struct bytes notes, unsigned char ret[ELFIMAGE_MAX_ID]);

/* The same of the file. */
size_t elfimage_build_id(const struct elfimage *im, unsigned char ret[ELFIMAGE_MAX_ID]);

#endif
