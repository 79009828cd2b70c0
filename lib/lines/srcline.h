/* SPDX-License-Identifier: MIT
 *
 * srcline - source lines and inlined functions of native code, from the DWARF of its file.
 *
 * libdw reads it in processes of their own, one a file, which have the open files, limits and
 * no rights. They are the children of one that begins before the filter (harden.h) and serves
 * until it is let go: our program once more. What libdw allocates ends with them, and so does
 * what a hostile file makes of it.
 */
#ifndef SRCLINE_H
#define SRCLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One function at an address. */
struct srcline_text {
	const char *function; /* as the file has it, maybe mangled; "": not known */
	const char *file;     /* with its folder, as eu-addr2line prints it; "": not known */
	uint32_t line;	      /* 0: none */
};

struct pool;

struct srcline_file {
	int fd;
	int root;	  /* where it was found: rootfile_open() */
	const char *path; /* there */
	struct pool *openers; /* of files (opener.h), where @fd is O_PATH; or NULL */
};

/* Called for each function at address @i, innermost first; the last one is not inlined. */
typedef void srcline_answer(void *arg, size_t i, const struct srcline_text *s);

struct srcline;

/* Start the process that serves; before harden_process(), which forbids it. @debuginfod: it
 * may be asked to. NULL: it can't be had. */
struct srcline *srcline_start(bool debuginfod);
void srcline_end(struct srcline *s);
uint64_t srcline_cpu_ns(const struct srcline *s); /* family_cpu_ns(). 0 of NULL */

/* Have the lines of @n addresses of @f (as its segments have them, ascending) found, in @ms at
 * most. @debuginfod: fetch its debug file where it is not on this machine. 0; -ENOENT: there
 * is no debug information; -EINTR: a signal to our process group ended it; -ETIMEDOUT; -EBUSY:
 * its file system does not answer; -EIO:
 * it can't be read; -errno. What was answered until then is good. */
int srcline_ask(struct srcline *s, const struct srcline_file *f, const uint64_t *at, size_t n,
		bool debuginfod, int ms, srcline_answer *answer, void *arg);

/* The main() of the process that serves, which a program that asks must run for argv[1]
 * SRCLINE_COMMAND; @debuginfod: there is an argv[2]. */
#define SRCLINE_COMMAND "--internal-srcline"
int srcline_main(bool debuginfod);

/* True: libdw was there when pysampled was built. */
extern const bool srcline_built;

#endif
