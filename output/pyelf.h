/* SPDX-License-Identifier: MIT
 *
 * pyelf - Python functions as an ELF file, for tools that only know addresses.
 *
 * Every function seen gets a stretch of addresses, four bytes a source line, and a
 * symbol "py::qualname:/abs/file.py"; DWARF tells the lines. docs/PERF_DATA.md has
 * the layout and why it is so.
 */
#ifndef PYELF_H
#define PYELF_H

#include "sample/sample.h"

enum {
	PYELF_TEXT = 0x10000,	   /* where the text starts, in the file and as address */
	PYELF_SPAN = 1 << 30,	   /* what a map of the text must cover */
	PYELF_SLOT = 4,		   /* bytes a line */
	PYELF_MAX_LINES = 1 << 17, /* of one function; lines beyond are unknown */
	PYELF_ALL_LINES = 1 << 23, /* of all; functions beyond have a name only */
	PYELF_MAX_FUNCS = 1 << 20,
	PYELF_BUILD_ID = 20,
	PYELF_MAX_BYTES = 1 << 30, /* of a file that is read */
};

/* The file of a recording's functions: in the folder OUT.pyframes. */
#define PYELF_NAME "pyframes.so"
#define PYELF_BESIDE ".pyframes/" PYELF_NAME

/* The text of the symbol file in every process: no user address of any machine. */
#define PYELF_BASE (1ull << 51)

/* What our own reader (pyelf_read) finds in the file besides, for tools' symbols are escaped
 * and cut: the functions, in the order of their addresses, and their strings. */
#define PYELF_FUNCS ".pysampled.functions"
#define PYELF_STRINGS ".pysampled.strings"
struct pyelf_entry {
	uint64_t addr;
	uint32_t first, n_lines; /* its slots; n_lines 0: a marker, or no lines are known */
	uint32_t decl;
	uint32_t name, file; /* offsets in the strings; file UINT32_MAX: a marker */
	uint32_t zero;
};

/* A new file @name in @folder, for writing: the old one may be in the build-id cache, or
 * mapped. A descriptor or -errno. */
int pyelf_new_file(int folder, const char *name);

struct pyelf;

/* @machine is an EM_* value, 0 for the one we run on. NULL: no memory, or a machine
 * whose nop we do not know. */
struct pyelf *pyelf_create(unsigned machine, const unsigned char build_id[PYELF_BUILD_ID]);
void pyelf_destroy(struct pyelf *e);

/* The address of a line of a function, inside its slot: two bytes in, so that tools
 * that look up ip-1 find the same line. Allots the function at first sight (by
 * func->index); the function is not kept. When space or memory is out it is an
 * address of "py::<too_many_functions>". */
uint64_t pyelf_line(struct pyelf *e, const struct pyfunc *func, int line);

/* The address of a symbol that is called @name exactly and has no lines. */
uint64_t pyelf_marker(struct pyelf *e, const char *name);

/* Functions and markers that have an address. */
size_t pyelf_count(const struct pyelf *e);

/* Functions that have no place for all their lines. */
size_t pyelf_unlined(const struct pyelf *e);

/* Leave out of the file all functions and markers but the first @n, for good: from then on it
 * is written only, and nothing gets an address. */
void pyelf_cut(struct pyelf *e, size_t n);

/* Write the file at the start of @fd, which is empty. 0 or -errno. */
int pyelf_write(const struct pyelf *e, int fd);

/* "py::QUALNAME:FILE" in printable ASCII without ' ', ';', '(', ')', '\'. Returns
 * the length; @buf is always terminated. */
size_t pyelf_name(char *buf, size_t n, const char *qualname, const char *file);

#endif
