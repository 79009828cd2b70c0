/* SPDX-License-Identifier: MIT
 *
 * debugfile - the file with the symbols that were stripped from another one.
 */
#ifndef DEBUGFILE_H
#define DEBUGFILE_H

#include <limits.h>
#include <stdbool.h>

#include "elf/elfimage.h"

/* A debug file as the stripped file names it. Another process may have made this: no byte of
 * it is trusted. */
struct debugfile_want {
	uint32_t n_id, crc;
	unsigned char id[ELFIMAGE_MAX_ID]; /* its build-id; n_id < 2: none */
	char link[NAME_MAX + 1];	   /* .gnu_debuglink, whose CRC is @crc; "": none */
};

/* The places where it may be: by build-id, then by link in the file's folder, its .debug, and
 * /usr/lib/debug; each in the process's root, then in ours. They are gdb's ("Debugging
 * Information in Separate Files"). */
enum { DEBUGFILE_BY_ID = 2, DEBUGFILE_PLACES = DEBUGFILE_BY_ID + 6 };

/* Where a file was found: what is looked for, is looked for there. */
struct debugfile_origin {
	int root;	  /* rootfile_open() */
	const char *path; /* of the stripped file in that root; "": not known */
	/* Or who opens the files instead, as debugfile_open_all() does. NULL: nobody does. */
	void (*open)(void *arg, const struct debugfile_want *want, int fd[DEBUGFILE_PLACES]);
	void *arg;
};

/* What is at those places: descriptors, -1 where there is nothing. Of files that not all may
 * read only ELF files are opened, as whoever gets them has no right to others. */
void debugfile_open_all(const struct debugfile_want *want, int root, const char *path,
			int fd[DEBUGFILE_PLACES]);

/* Open the debug file of @im: the first that says the same build-id, or has the CRC that the
 * link tells. A descriptor; -ENOENT. */
int debugfile_open(const struct elfimage *im, const struct debugfile_origin *o);

/* True: the file has DWARF of its own. */
bool debugfile_has_dwarf(int fd);

/* The ELF in .gnu_debugdata, malloc'ed; empty: there is none, or it cannot be unpacked. */
struct bytes debugfile_mini(const struct elfimage *im);

#endif
