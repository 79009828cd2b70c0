/* SPDX-License-Identifier: MIT
 *
 * pyfind - is this process a CPython, which one, and where is its runtime?
 *
 * Looks at the mapped ELF files (through /proc/PID/root and map_files, so that
 * containers and deleted files work; never opens a FIFO or a device), finds
 * _PyRuntime (.PyRuntime section, dynsym or symtab), the version (DebugOffsets,
 * Py_Version, soname, Py_GetVersion text), picks the layout and proves it on
 * the live process before anybody trusts it.
 */
#ifndef PYFIND_H
#define PYFIND_H

#include <sys/types.h>

#include "base/err.h"
#include "offsets/pylayout.h"
#include "remote_mem.h"

/* The mapped code of an interpreter's file, by which the same file is known in another
 * process: there all lies as far from it as here. */
struct pyfind_code {
	uint32_t maj, min;
	uint64_t ino, pgoff;
	raddr at;
	raddr build_id_at;   /* the note as it lies in memory */
	uint32_t build_id_n; /* 0: there is none, so the file can't be known again */
	unsigned char build_id[64];
};

struct file_helper;

enum { PYFIND_OTHERS = 7 };

/* A further interpreter of a process: another libpython, or the same one loaded again. */
struct pyproc_other {
	bool proven; /* as the first one is; else nothing runs in it yet, as far as is known */
	bool begun;  /* it has an interpreter */
	uint32_t version;
	raddr runtime, code_versions;
	struct pylayout layout;
	bool no_jit;   /* struct pyproc */
	char file[64]; /* its last component, for messages */
};

struct pyproc {
	pid_t pid;
	uint32_t version;	/* PY_VERSION_HEX; micro 0xff.. unknown bits zero */
	raddr runtime;		/* address of _PyRuntime */
	raddr root;		/* where its main thread's stack begins; 0: not known */
	raddr code_versions;	/* address of its count of code objects where that is a
				 * global variable with a symbol, else 0 */
	struct pylayout layout; /* this process's own copy */
	bool no_jit;		/* the interpreter's file has no JIT */
	uint64_t looked_ns;	/* what is mapped was asked for then */
	size_t n_maps;		/* mappings of the process */
	bool partly;		/* with -ENOEXEC: a file that holds one is mapped in part */
	bool unborn; /* no interpreter was ever made in it yet, so no frame either */
	struct pyfind_code code;
	char module[256]; /* file that holds the interpreter, for messages */
	char build[96];	  /* "static, stripped", "shared", "free-threaded" ... */
	uint32_t n_others;
	struct pyproc_other other[PYFIND_OTHERS];
	char refused[200]; /* not empty: why one of them can't be read, or that there are more
			    */
};

/* Find the interpreter of @pid, reading its memory through @m. All reads of
 * /proc happen here, those of files by @files (NULL: here). 0; -ESRCH no such process, or one
 * that began after @since_ns: then nothing of it was read;
 * -EPERM/-EACCES not allowed; -ENOEXEC no CPython is mapped; -EAGAIN one is mapped but its
 * runtime is not initialised yet (or is finalising), then @ret is what it will be (where the
 * same file was proven before in another process that is 0, too); -ENOTSUP a CPython that we
 * have no table for, or whose layout failed the self-check. A sentence in @err. Of several the
 * first that is proven is @ret; the others are looked for in files that are named like Python.
 */
int pyfind(pid_t pid, uint64_t since_ns, struct rmem *m, struct file_helper *files,
	   struct pyproc *ret, struct err *err);

/* Whether the file at @path is named like one that holds an interpreter. */
bool pyfind_is_named_python(const char *path);

/* Whether it has others in which something runs, and which are not proven yet. */
bool pyproc_is_pending(const struct pyproc *p);

/* "3.13.0", or "3.8" where only the name of its file told which it is. Returns @buf. */
const char *pyproc_version(uint32_t version, char buf[16]);

/* The structural self-check alone: runtime -> interpreter -> thread -> frame ->
 * a code object whose type is named "code" and whose names decode. 0, -EAGAIN
 * (no interpreter or no thread yet), -EBADMSG with a sentence. */
int pyfind_selfcheck(const struct pyproc *p, struct rmem *m, struct err *err);

/* The same by so many looks at most. One is enough for a process that stands still. */
int pyfind_selfcheck_by(const struct pyproc *p, struct rmem *m, int looks, struct err *err);

#endif
