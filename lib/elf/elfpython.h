/* SPDX-License-Identifier: MIT
 *
 * elfpython - what one ELF file says about holding a Python interpreter.
 *
 * The file is the target's and hostile: a process without rights reads it (file_helper.h) and
 * hands this over, as it is here. Read by pread, never mapped: a file that shrinks under a
 * mapping would kill us.
 */
#ifndef ELFPYTHON_H
#define ELFPYTHON_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ELFPYTHON_LOADS = 16,
	/* What it exports: the evaluation loop, and the optimizer whose traces a JIT compiles
	 * (3.13 on), which is part of each build that has a JIT. */
	ELFPYTHON_LOOP = 1 << 0,
	ELFPYTHON_OPTIMIZER = 1 << 1,
};

struct elfpython {
	/* Addresses as in the file, 0: not there. */
	/* _PyRuntime, or the .PyRuntime section that holds it alone; up to 3.6 interp_head. */
	uint64_t runtime;
	uint64_t interp_head;  /* a local symbol of 2.7 and 3.6, or what head_getter returns */
	uint64_t head_getter;  /* PyInterpreterState_Head() */
	uint64_t py_version;   /* Py_Version, 3.11+ */
	uint64_t func_version; /* _Py_next_func_version, a local symbol of 3.12 */
	uint64_t build_id;     /* .note.gnu.build-id, build_id_n bytes */
	uint32_t build_id_n;
	uint8_t python; /* not 0: defines CPython's API */
	uint8_t pypy;
	uint8_t stripped; /* no .symtab */
	uint8_t program;  /* has an ELF interpreter or is ET_EXEC: no library */
	uint8_t exports;  /* ELFPYTHON_LOOP, ELFPYTHON_OPTIMIZER */
	struct {
		uint64_t offset, vaddr;
	} load[ELFPYTHON_LOADS];
	uint32_t n_loads;
};

/* 0; -ENOEXEC no ELF of this machine's kind; -errno. What is left out for want of memory looks
 * like what the file does not have: only errno tells. */
int elfpython_read(int fd, struct elfpython *ret);

/* Where others cannot see the loop, the optimizer may be hidden from them, too. */
static inline bool elfpython_has_no_jit(const struct elfpython *p)
{
	return (p->exports & (ELFPYTHON_LOOP | ELFPYTHON_OPTIMIZER)) == ELFPYTHON_LOOP;
}

/* The same of a file that is open. Pure but for memory. */
struct elfimage;
int elfpython_of(const struct elfimage *im, struct elfpython *ret);

#endif
