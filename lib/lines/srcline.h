/* SPDX-License-Identifier: MIT
 *
 * srcline - source lines and inlined functions of native code, from the DWARF of its file.
 *
 * libdw reads it in a process of its own, one a file: our program once more, which has the
 * open files, limits and, where we are root, no rights. What libdw allocates ends with it, and
 * so does what a hostile file makes of it.
 */
#ifndef SRCLINE_H
#define SRCLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One function at an address. */
struct srcline {
	const char *function; /* as the file has it, maybe mangled; "": not known */
	const char *file;     /* with its folder, as eu-addr2line prints it; "": not known */
	uint32_t line;	      /* 0: none */
};

struct srcline_file {
	int fd;
	int root;	  /* where it was found: rootfile_open() */
	const char *path; /* there */
};

/* Called for each function at address @i, innermost first; the last one is not inlined. */
typedef void srcline_answer(void *arg, size_t i, const struct srcline *s);

/* Have the lines of @n addresses of @f (as its segments have them, ascending) found, in @ms at
 * most. @debuginfod: fetch its debug file where it is not on this machine. 0; -ENOENT: there
 * is no debug information; -EINTR: a signal to our process group ended it; -ETIMEDOUT; -EIO:
 * it can't be read; -errno. What was answered until then is good. */
int srcline_ask(const struct srcline_file *f, const uint64_t *at, size_t n, bool debuginfod,
		int ms, srcline_answer *answer, void *arg);

/* The main() of that process, which a program that asks must run for argv[1]
 * SRCLINE_COMMAND. */
#define SRCLINE_COMMAND "--internal-srcline"
int srcline_main(void);

/* Was libdw there when pysampled was built? */
extern const bool srcline_built;

#endif
