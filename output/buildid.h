/* SPDX-License-Identifier: MIT
 *
 * buildid - the build-ids of files, modules and the kernel, and ~/.debug.
 */
#ifndef BUILDID_H
#define BUILDID_H

#include "base/base.h"

enum { BUILDID_MAX = 20 };

struct buildid {
	unsigned char at[BUILDID_MAX];
	size_t n; /* 0: none */
};

/* Pure: the NT_GNU_BUILD_ID among ELF notes. */
struct buildid buildid_in_notes(struct bytes notes);

/* Of a file that consists of notes (/sys/kernel/notes), of an ELF file. */
struct buildid buildid_of_notes_file(const char *path);
struct buildid buildid_of_elf(int fd);

/* Add the ELF file at @path (absolute) to perf's build-id cache, as perf record
 * does. Best effort: nobody is told when it can't be done. */
void buildid_cache_add(const char *path, struct buildid id);

#endif
