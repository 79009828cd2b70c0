/* SPDX-License-Identifier: MIT
 *
 * jit_objects - the code that a process told GDB of: a list of ELF images in its memory
 * (GDB manual, "JIT Compilation Interface"), as LLVM's JITs keep one and with them numba.
 *
 * For a thread that may hang (later.h): it reads the process's memory, and has its files and
 * the images parsed by @files (file_helper.h). Each call takes what is new since the last.
 */
#ifndef JIT_OBJECTS_H
#define JIT_OBJECTS_H

#include "elf/codemap.h"

struct file_helper;

enum { JIT_OBJECTS_LISTS = 4 };

/* Of a list. Where one was freed another may be. */
struct jit_objects_entry {
	uint64_t at, image, size;
};

struct jit_objects {
	pid_t pid;
	uint64_t since_ns;
	int pidfd; /* owned; < 0: @since_ns tells whether the process is another by now */
	struct codemap map; /* what was read, until somebody takes it out */
	bool anew;	    /* what was read before is of a list that is no more */
	struct {
		uint64_t at;   /* address of the list's descriptor */
		struct jit_objects_entry head; /* was first when it was read; at 0: none */
	} list[JIT_OBJECTS_LISTS];
	size_t n_lists;
	struct jit_objects_file *looked; /* mapped files that were searched for a list */
	size_t n_looked, cap_looked;
	uint64_t next_search_ns; /* for lists in files that were mapped since */
	uint64_t next_lists_ns;	 /* when they are read again */
	bool given_up;		 /* a file or an image ended who parsed it too often */
};

/* Of the process that had number @pid at @since_ns. */
void jit_objects_init(struct jit_objects *o, pid_t pid, uint64_t since_ns,
		      struct quota_share *share);
/* What was read of @pid until now may be another process's, which has its number. */
bool jit_objects_left(const struct jit_objects *o);
void jit_objects_deinit(struct jit_objects *o);

/* What was known may be of code that is gone, or there was no room for all of it. All lists are new
 * again. */
void jit_objects_begin_anew(struct jit_objects *o);

/* Read what is new. @files or NULL: we parse. 1: there was something; 0; -EAGAIN: not now;
 * -EPROTO, -EPIPE: who parsed it ended. */
int jit_objects_read(struct jit_objects *o, struct file_helper *files);

#endif
