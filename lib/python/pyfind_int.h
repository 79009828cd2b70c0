/* SPDX-License-Identifier: MIT
 *
 * pyfind_int - what the files of pyfind share, and nobody else sees: pyfind.c (which of a process's
 * interpreters counts), pyfind_try.c (one file), pyfind_mapped.c (which mapped files may hold an
 * interpreter, and where they lie), and pyfind_debug.c (layouts from debug info).
 */
#ifndef PYFIND_INT_H
#define PYFIND_INT_H

#include <limits.h>
#include <string.h>

#include "elf/elfpython.h"
#include "python/pyfind.h"
#include "python/pyfind_cache.h"
#include "sys/proc_maps.h"

/* A file that is mapped, once, however many mappings it has. */
struct candidate {
	const struct proc_map *map; /* its first */
	int rank;		    /* 0 the program, 1 named like libpython, 2 the rest */
	size_t order;
};

struct search {
	pid_t pid;
	struct rmem *m;
	struct file_helper *files; /* or NULL */
	struct proc_maps maps;
	char comm[16];
	uint64_t root;
	char exe[PATH_MAX];
	bool partly;	 /* a file that holds an interpreter is not all mapped */
	bool pypy;	 /* one of its files is PyPy's */
	struct err best; /* the most telling failure so far, code 0: none */
};

/* A file as it was read, or as memory tells it. */
struct look {
	const struct candidate *mod;
	bool mapped;
	bool believed; /* as another process has it in memory: this one's must agree */
	bool doubted;  /* it did not */
	struct elfpython elf;
	struct pyfind_file file;
};

/* pyfind_try.c: sentences. They return @code, and -ESRCH. */
int pyfind_denied(const struct search *s, int code, struct err *err);
int pyfind_no_process(pid_t pid, struct err *err);

/* pyfind_try.c: reads the file of @k. 0: it holds an interpreter. -ENOEXEC: no, as far as memory
 * or the file tells it. */
int pyfind_read(struct search *s, struct look *k, struct err *err);

/* pyfind_try.c: in @p the interpreter of @k, loaded at @bias, as far as is known. Its version is
 * what this process tells: another one may have mapped the file and written over what it maps. 0: it
 * is proven; -EAGAIN: it starts or ends; -ENOEXEC, -ENOTSUP, or what reading its memory came to. */
int pyfind_try(const struct search *s, const struct look *k, uint64_t bias, struct pyproc *p,
	       struct err *err);

/* pyfind_mapped.c: files with an executable mapping, best candidates first; *@ret malloc'ed.
 * The program itself counts without one: its text may be in huge pages. */
int pyfind_modules(const struct search *s, struct candidate **ret, size_t *n);

/* pyfind_mapped.c: what to add to the file's addresses, for each time that it was loaded
 * (dlmopen() does it again): at most @cap. A first one may be mapped in part. How many. */
size_t pyfind_biases(const struct search *s, const struct candidate *mod,
		     const struct elfpython *elf, uint64_t *ret, size_t cap);

/* pyfind_mapped.c: as opener_map(), with patience; -ENOBUFS: nobody is there that opens. */
int pyfind_open(const struct search *s, const struct proc_map *map, struct stat *st, int *root);

/* pyfind_debug.c: a layout for @p, of its version, made of the debug info of @mod, which is
 * @file. It proves nothing. */
int pyfind_debug_layout(const struct search *s, const struct candidate *mod,
			const struct pyfind_file *file, struct pyproc *p,
			struct pyfind_debug *ret);

#endif
