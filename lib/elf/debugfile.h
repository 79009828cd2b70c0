/* SPDX-License-Identifier: MIT
 *
 * debugfile - the file with the symbols that were stripped from another one.
 */
#ifndef DEBUGFILE_H
#define DEBUGFILE_H

#include "elf/elfimage.h"

/* Where a file was found: what is looked for, is looked for there. */
struct debugfile_origin {
	int root;	  /* rootfile_open() */
	const char *path; /* of the stripped file in that root; "": not known */
};

/* Open the debug file of @im: by build-id, then by .gnu_debuglink in the folder of the file,
 * its .debug, and /usr/lib/debug; in the process's root, then in ours. Only one that says the
 * same build-id, or has the CRC that the link tells. A descriptor; -ENOENT. The places are
 * gdb's
 * ("Debugging Information in Separate Files"). */
int debugfile_open(const struct elfimage *im, const struct debugfile_origin *o);

/* The ELF in .gnu_debugdata, malloc'ed; empty: there is none, or it cannot be unpacked. */
struct bytes debugfile_mini(const struct elfimage *im);

#endif
