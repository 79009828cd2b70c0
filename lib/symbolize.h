/* SPDX-License-Identifier: MIT
 *
 * symbolize - native and kernel addresses to names, for outputs that carry names.
 *
 * Looks up in the modules of each process's memory (modules/space.h) and keeps answers. One
 * user thread (the resolver). Memory is bounded.
 */
#ifndef SYMBOLIZE_H
#define SYMBOLIZE_H

#include "sample/sample.h"

struct kernel_names;
struct symbolizer;
struct places;
struct spaces;
struct stats;

/* @spaces: borrowed; what is mapped where. NULL: no memory. */
struct symbolizer *symbolizer_create(struct spaces *spaces);
void symbolizer_destroy(struct symbolizer *s);
/* The names of kernel addresses are asked of @k, borrowed; NULL: /proc/kallsyms is read. */
void symbolizer_asks(struct symbolizer *s, const struct kernel_names *k);
/* From now on names take about @bytes, and those that processes write down of their own code
 * @jit_bytes: new ones beyond are "[unknown]" or "[anon]", and counted in @stats (nameless),
 * which is borrowed. */
void symbolizer_limit(struct symbolizer *s, size_t bytes, size_t jit_bytes,
		      struct stats *stats);
struct spaces *symbolizer_spaces(const struct symbolizer *s); /* @spaces */

enum symbol_kind {
	SYMBOL_OTHER,
	SYMBOL_EVAL, /* the interpreter's eval loop (_PyEval_EvalFrameDefault), its cold part,
		      * and in a stripped build the function that has no name */
	SYMBOL_CALL, /* the interpreter's way from a caller to a callee; its functions without
		      * a name */
	SYMBOL_GC,	   /* the interpreter collects garbage */
	SYMBOL_COROUTINE,  /* greenlet: switches C stacks */
	SYMBOL_TRAMPOLINE, /* of python -X perf: each runs one Python function */
};

struct symbol {
	const char *name;
	const char *file; /* that is mapped there: "libc.so.6", "[vdso]"; or NULL */
	enum symbol_kind kind;
};

/* A user address of @pid: what it is called and belongs to. */
struct symbol symbolize(struct symbolizer *s, pid_t pid, uint64_t ip);

/* Its name alone, interned: the symbol; "module+0xoff" with the
 * start of the function from .eh_frame_hdr where there is no symbol, so that one
 * function is one name; "[unknown]" where nothing is mapped. Never NULL; lives as
 * long as the symbolizer. Names hold no ';' and no control characters. */
const char *symbolize_user(struct symbolizer *s, pid_t pid, uint64_t ip);

/* Its kind alone. */
enum symbol_kind symbolize_kind(struct symbolizer *s, pid_t pid, uint64_t ip);

/* Note a user address of @pid in @places, by the same name. @plain: without what is inlined
 * there of SYMBOL_EVAL and SYMBOL_CALL. Its number there; 0: none. */
uint32_t symbolize_place(struct symbolizer *s, struct places *places, pid_t pid, uint64_t ip,
			 bool plain);

/* A kernel address: "do_syscall_64_[k]"; "[kernel]_[k]" where the kernel tells no name. */
const char *symbolize_kernel(struct symbolizer *s, uint64_t ip);

/* Is that SYMBOL_EVAL? Keeps nothing, so that it can be asked of any number of addresses. */
bool symbolize_is_eval(struct symbolizer *s, pid_t pid, uint64_t ip);

#endif
