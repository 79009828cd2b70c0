/* SPDX-License-Identifier: MIT
 *
 * pyfind_cache - what the files that were looked at hold: processes map the same ones again
 * and again, and to look into one takes milliseconds.
 *
 * Any thread.
 */
#ifndef PYFIND_CACHE_H
#define PYFIND_CACHE_H

#include <sys/stat.h>

#include "elf/elfpython.h"
#include "offsets/pylayout.h"

struct file_helper;

/* One content of one file. */
struct pyfind_file {
	dev_t dev;
	ino_t ino; /* 0: it is not known: nothing is kept of it */
	off_t size;
	struct timespec mtim, ctim;
};

/* Which one it is. */
struct pyfind_file pyfind_cache_file(const struct stat *st);

/* What was read of @file. False: nothing. */
bool pyfind_cache_read_before(const struct pyfind_file *file, struct elfpython *ret, int *code);

/* The same of what its process had in memory of it. That is another process's business only as
 * far as its own memory agrees. */
bool pyfind_cache_mapped_before(const struct pyfind_file *file, struct elfpython *ret);
void pyfind_cache_keep_mapped(const struct pyfind_file *file, const struct elfpython *elf);

/* elfpython_read() by @files (NULL: here), once for each content of a file, of which @path is
 * one name; @file tells which it is. -EPROTO: whoever reads it ends; what
 * proc_is_short() knows. */
int pyfind_cache_read(int fd, const char *path, struct file_helper *files,
		      struct elfpython *ret, const struct pyfind_file *file);

/* The interpreter in @file was proven in a process, by @layout. */
void pyfind_cache_prove(const struct pyfind_file *file, const struct pylayout *layout);

/* True: it was by that one. */
bool pyfind_cache_proven_by(const struct pyfind_file *file, const struct pylayout *layout);

/* A layout made of the file's debug info, or why there is none. */
struct pyfind_debug {
	int code; /* 0; -ENOENT nothing tells */
	bool separate, proven; /* it is in a debug file; and it is what the file was proven by */
	uint64_t view; /* proc_view() of the process through which the debug file was looked for */
	struct pylayout layout;
};

/* What was kept of @file. False: nothing, or by what is in another root than @pid's. */
bool pyfind_cache_debug(const struct pyfind_file *file, pid_t pid, struct pyfind_debug *ret);
void pyfind_cache_keep_debug(const struct pyfind_file *file, const struct pyfind_debug *d);

#endif
