/* SPDX-License-Identifier: MIT
 *
 * pyfind_elf - what one ELF file says about holding a Python interpreter.
 *
 * The file is the target's and hostile. Read by pread, never mapped: a file that
 * shrinks under a mapping would kill us.
 */
#ifndef PYFIND_ELF_H
#define PYFIND_ELF_H

#include <stdbool.h>
#include <stdint.h>

enum { PYFIND_ELF_LOADS = 16 };

struct pyfind_elf {
	/* Addresses as in the file, 0: not there. */
	/* _PyRuntime, or the .PyRuntime section that holds it alone; up to 3.6 interp_head. */
	uint64_t runtime;
	uint64_t interp_head;  /* a local symbol of 2.7 and 3.6, or what head_getter returns */
	uint64_t head_getter;  /* PyInterpreterState_Head() */
	uint64_t py_version;   /* Py_Version, 3.11+ */
	uint64_t func_version; /* _Py_next_func_version, a local symbol of 3.12 */
	uint64_t build_id;     /* .note.gnu.build-id, build_id_n bytes */
	uint32_t build_id_n;
	bool python; /* defines CPython's API */
	bool pypy;
	bool stripped; /* no .symtab */
	bool program;  /* has an ELF interpreter or is ET_EXEC: no library */
	struct {
		uint64_t offset, vaddr, filesz;
	} load[PYFIND_ELF_LOADS];
	uint32_t n_loads;
};

/* 0; -ENOEXEC no ELF of this machine's kind; -errno. */
int pyfind_elf_read(int fd, struct pyfind_elf *ret);

#endif
