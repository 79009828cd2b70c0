/* SPDX-License-Identifier: MIT
 *
 * jit - what a process wrote down about the code that it makes: /tmp/perf-PID.map in its own
 * root and under its own number, jit-PID.dump, which it maps to say where that is, and what it
 * registered for GDB (jit_objects.h).
 *
 * Files are read in a thread of their own (later.h), which has a process without rights do it
 * (file_helper.h), when a name is missing, and for a name that is known each 200 ms: JITs use
 * memory again. Only what is new of them is read, and until it is there names are those that were
 * read before. One user thread.
 */
#ifndef JIT_H
#define JIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sys/proc_maps.h"

struct jit;
struct file_helper;
struct quota;

/* Of the process that had number @pid at @since_ns, 0: now, while it is there: keeps its root
 * folder. All are borrowed; @files reads, or we do where it is NULL. NULL: gone, or there are
 * too many. */
struct jit *jit_create(pid_t pid, uint64_t since_ns, struct quota *quota,
		       struct file_helper *files);
void jit_destroy(struct jit *j);

/* The process has mapped a file, which may be the dump. */
void jit_mapped(struct jit *j, const struct proc_map *m);

/* The name of the code at @ip as the process wrote it (any bytes but NUL), valid until the
 * next call; NULL: none now, perhaps one the next time. */
const char *jit_name(struct jit *j, uint64_t ip);

/* When (now_ns()) a name that jit_name() told must be asked for again: memory may be used again.
 * 0: it has told none. */
uint64_t jit_stale_ns(const struct jit *j);

/* There was no thread or memory to look with when a name was to be looked for last, or too many
 * looked. */
bool jit_was_refused(const struct jit *j);

/* There was no room for all names that the process wrote down, until now. */
bool jit_lacks_room(const struct jit *j);

/* Is a map of this name where a JIT puts its code: memory that is of no file that one could
 * open? */
bool jit_is_memory(const char *path);

/* Is that name one of the trampolines of python -X perf, of which each runs one Python
 * function? */
bool jit_is_trampoline(const char *name);

#endif
