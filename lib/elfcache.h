/* SPDX-License-Identifier: MIT
 *
 * elfcache - what one ELF file says about its functions, kept small and bounded.
 *
 * Tables are read once, by descriptor and with pread (a file that shrinks under a
 * mapping would kill us), into sorted rows; the descriptor is closed then. Every
 * byte is taken for hostile. One user thread.
 */
#ifndef ELFCACHE_H
#define ELFCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base.h"

/* Addresses in rows are file addresses (vaddr) less elfcache_tables.base. */
struct elfcache_sym {
	uint32_t start, size;
	uint32_t name; /* offset in elfcache_tables.names */
};

/* A function as .eh_frame knows it: no name. Rows do not overlap. */
struct elfcache_func {
	uint32_t start, size;
};

/* An executable PT_LOAD. */
struct elfcache_load {
	uint64_t offset, vaddr, size;
};

enum { ELFCACHE_MAX_LOADS = 8 };

struct elfcache_tables {
	uint64_t base; /* lowest vaddr of the file */
	struct elfcache_load load[ELFCACHE_MAX_LOADS];
	size_t n_loads;
	struct elfcache_sym *sym; /* functions, by start; may be nested */
	size_t n_syms;
	char *names; /* as the file has them: "read@@GLIBC_2.2.5", "f.cold" */
	struct elfcache_func *func;
	size_t n_funcs;
	/* What the symbol _PyEval_EvalFrameDefault covers, if exported; and in a stripped
	 * file the nameless part that the compiler split off. Size 0: none. */
	struct elfcache_func eval, eval_rest;
	bool stripped;	     /* no .symtab, here or in a debug file */
	bool exports_python; /* defines CPython's main or eval loop for others */
	size_t bytes;	     /* of memory held */
};

struct debugfile_origin;

/* Read the tables of an open file, or (@fd < 0) of an image in memory; where that has no
 * .symtab, with the symbols of the debug file that @from leads to (NULL: none). 0; -ENOEXEC
 * when it is no ELF of this machine's kind; -EIO; -ENOMEM. A part that is damaged is empty. */
int elfcache_tables_read(struct elfcache_tables *t, int fd, struct bytes image,
			 const struct debugfile_origin *from);
void elfcache_tables_deinit(struct elfcache_tables *t);

/* File offset of code to vaddr. False when no executable segment holds it. */
bool elfcache_vaddr(const struct elfcache_tables *t, uint64_t offset, uint64_t *ret);

/* The innermost symbol that covers @vaddr, or NULL. */
const char *elfcache_symbol(const struct elfcache_tables *t, uint64_t vaddr);

/* The row of @func that covers @x (relative to base), or NULL. */
const struct elfcache_func *elfcache_row(const struct elfcache_tables *t, uint64_t x);

/* Is @vaddr in the eval loop's nameless part? */
bool elfcache_is_eval_rest(const struct elfcache_tables *t, uint64_t vaddr);

/* The .eh_frame function that covers @vaddr; its start as vaddr in @start. */
bool elfcache_function(const struct elfcache_tables *t, uint64_t vaddr, uint64_t *start);

/* Pure: the functions in a .eh_frame_hdr window loaded at @hdr_at, sizes from the
 * .eh_frame window at @frame_at. Fills at most @cap rows, sorted, disjoint; how
 * many. */
size_t elfcache_eh_functions(struct bytes hdr, uint64_t hdr_at, struct bytes frame,
			     uint64_t frame_at, uint64_t base, struct elfcache_func *ret,
			     size_t cap);

/* Where a .eh_frame_hdr window says that .eh_frame and its own rows are. */
struct elfcache_eh_hdr {
	uint64_t frame_at;
	size_t rows_at, n_rows; /* offset of the table in the window, rows in it */
};
int elfcache_eh_hdr(struct elfcache_eh_hdr *ret, struct bytes hdr, uint64_t hdr_at);

/* A file by its identity. Lives as long as the cache; its tables may be dropped
 * when the cache is full. */
struct elfcache_id {
	uint64_t dev, ino, generation; /* generation 0: not known, matches any */
	const char *path;
};

struct elfcache;
struct elfcache_elf;

/* What a cache makes of its files; 0 or -errno. */
struct elfcache_kind {
	/* In a thread of its own, which may take long and outlive the cache (later.h): what
	 * the file says. @fd, or -1 and an image in memory; all borrowed. */
	int (*read)(int fd, struct bytes image, const struct debugfile_origin *from,
		    void **ret);
	/* In the cache's thread: makes of what was read, and takes over, what is kept, and
	 * tells how many bytes that holds. */
	int (*make)(void *arg, void *read, void **ret, size_t *bytes);
	void (*drop)(void *read); /* what was read and is not wanted any more */
	void (*free)(void *arg, void *made);
};
extern const struct elfcache_kind elfcache_symbols; /* struct elfcache_tables */

struct elfcache *elfcache_create(size_t max_bytes, const struct elfcache_kind *kind,
				 void *arg);
void elfcache_destroy(struct elfcache *c);

/* Of all that its user has done in threads of their own. Borrowed. */
struct quota *elfcache_quota(const struct elfcache *c);

/* Find or add. NULL when there are too many. */
struct elfcache_elf *elfcache_get(struct elfcache *c, const struct elfcache_id *id);
const char *elfcache_path(const struct elfcache_elf *e);

/* Has it no descriptor and no tables: never given, or dropped since? No longer after many
 * misses. */
bool elfcache_wants_file(const struct elfcache_elf *e);
void elfcache_missed(struct elfcache_elf *e);

/* Take over a descriptor (read on first use) and the root that its path and its debug file are
 * in (rootfile_open(); may be -1), or borrow an image in memory. @fd < 0: never mind the file.
 */
void elfcache_give_fd(struct elfcache *c, struct elfcache_elf *e, int fd, int root);
void elfcache_give_image(struct elfcache *c, struct elfcache_elf *e, struct bytes image);

/* Or give what was made elsewhere, of @bytes (NULL: nothing could be). */
void elfcache_give_made(struct elfcache *c, struct elfcache_elf *e, void *made, size_t bytes);

/* Something takes too long with this file: it and its whole device are left alone, until it no
 * longer does. */
void elfcache_slow(struct elfcache *c, struct elfcache_elf *e, bool slow);
bool elfcache_is_slow(const struct elfcache *c, const struct elfcache_elf *e);

/* Is it being read just now, or waits for another of its device that is? That can take long,
 * or for ever where the mount is dead. */
bool elfcache_pending(const struct elfcache_elf *e);

/* What was made of the file, valid until the next call; NULL where there is no readable ELF,
 * or not yet. */
const void *elfcache_made(struct elfcache *c, struct elfcache_elf *e);

/* How often tables had to be dropped. */
uint64_t elfcache_dropped(const struct elfcache *c);

#endif
