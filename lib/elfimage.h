/* SPDX-License-Identifier: MIT
 *
 * elfimage - an ELF file's headers and parts: the only reader of untrusted files.
 *
 * By pread, never mapped: a file that shrinks under a mapping would kill us.
 */
#ifndef ELFIMAGE_H
#define ELFIMAGE_H

#include <elf.h>
#include <stdbool.h>

#include "base.h"

enum { ELFIMAGE_MAX_PART = 256 << 20 /* bytes of one part */ };

struct elfimage {
	int fd;
	struct bytes mem;
	uint64_t size;
	Elf64_Phdr *ph;
	size_t n_ph;
	Elf64_Shdr *sh;
	size_t n_sh, sh_names; /* the section with the names of sections */
	unsigned machine;
};

/* An open file, which must be a regular one, or (@fd < 0) an image in memory; either is
 * borrowed. 0; -ENOEXEC when it is no 64-bit little-endian ELF with program headers;
 * -EIO. To be emptied in any case. */
int elfimage_init(struct elfimage *im, int fd, struct bytes mem);
void elfimage_deinit(struct elfimage *im);

/* A part of the file as malloc'ed bytes with a NUL behind; empty when damaged. */
struct bytes elfimage_part(const struct elfimage *im, uint64_t offset, uint64_t n);

/* The same from @vaddr to the end of its segment. */
struct bytes elfimage_rest(const struct elfimage *im, uint64_t vaddr);

/* The first section of this name, NULL where there is none. */
const Elf64_Shdr *elfimage_section(const struct elfimage *im, const char *name);

/* The build-id's bytes into @buf; how many (at most @cap), 0: none. */
size_t elfimage_build_id(const struct elfimage *im, unsigned char *buf, size_t cap);

static inline void base_free_bytes(const struct bytes *b)
{
	free((void *)(uintptr_t)b->at);
}

#define _cleanup_bytes_ __attribute__((__cleanup__(base_free_bytes)))

#endif
