/* SPDX-License-Identifier: MIT
 *
 * symbolize - native and kernel addresses to names, for outputs that carry names.
 *
 * Follows the targets' maps (first /proc/PID/maps, then the MMAP records), loads
 * each ELF once by (dev, inode) through /proc/PID/root or map_files, keeps sorted
 * symbol tables. One user thread (the resolver). Memory is bounded.
 */
#ifndef SYMBOLIZE_H
#define SYMBOLIZE_H

#include "sample.h"

struct symbolizer;

struct symbolizer *symbolizer_create(void);
void symbolizer_destroy(struct symbolizer *s);

/* Keep the address space of a process up to date. MMAP, FORK (copy), COMM with
 * exec (forget), EXIT of the leader. Others are ignored. */
void symbolizer_side(struct symbolizer *s, const struct side *side);

/* A user address of @pid. The interned name: the symbol; "module+0xoff" with the
 * start of the function from .eh_frame_hdr where there is no symbol, so that one
 * function is one name; "[unknown]" where nothing is mapped. Never NULL; lives as
 * long as the symbolizer. Names hold no ';' and no control characters. */
const char *symbolize_user(struct symbolizer *s, pid_t pid, uint64_t ip);

/* A kernel address, from /proc/kallsyms: "do_syscall_64_[k]"; "[kernel]_[k]" where
 * kallsyms tells nothing. */
const char *symbolize_kernel(struct symbolizer *s, uint64_t ip);

/* Is @ip inside the interpreter's eval loop (_PyEval_EvalFrameDefault, its cold
 * part, and in a stripped build the largest function of the module that holds
 * it)? Such leaf frames are hidden by default. */
bool symbolize_is_eval(struct symbolizer *s, pid_t pid, uint64_t ip);

#endif
