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

/* As much of @id as perf keeps. */
struct buildid buildid_from(struct bytes id);

/* Of a file that consists of notes (/sys/kernel/notes). */
struct buildid buildid_of_notes_file(const char *path);

/* Add the ELF file at @path (absolute) to perf's build-id cache, as perf record does. 0, also
 * where it is there already, or -errno. */
int buildid_cache_add(const char *path, struct buildid id);

/* The folder of ROOT/PATH/ID in the same cache, which is ready for a file BUILDID_CACHE_FILE:
 * for a file of that build-id that is nowhere else. A descriptor (O_PATH) or -errno. */
#define BUILDID_CACHE_FILE "elf"
int buildid_cache_place(const char *path, struct buildid id);

/* The file of that build-id in the same cache, to be read: a descriptor or -errno. */
int buildid_cache_open(struct buildid id);

#endif
