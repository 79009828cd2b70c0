/* SPDX-License-Identifier: MIT
 *
 * others - unwinders besides our own, for who trusts them more, and as oracles: --unwinder
 * NAME. One file and one word in meson.build each.
 */
#ifndef UNWIND_OTHERS_H
#define UNWIND_OTHERS_H

#include "modules/codefile.h"
#include "unwind/unwind.h"

/* One user thread (the resolver). */
struct unwind_other {
	const char *name;
	const char *library; /* create() loads it; unwind_other_here() */
	/* NULL: no memory, or no library. @files is borrowed. */
	void *(*create)(struct codefile *files);
	void (*destroy)(void *u); /* NULL does nothing */
	/* As unwinder_stack(), for the process of @sp. */
	void (*stack)(void *u, const struct space *sp, const struct unwind_regs *regs,
		      const struct unwind_memory *mem, struct unwind_stack *ret);
};

/* Those that are built in; NULL-terminated. */
extern const struct unwind_other *const unwind_others[];

/* Is its library installed? Then it stays loaded. */
bool unwind_other_here(const struct unwind_other *o);

/* NULL: there is none of that name. */
const struct unwind_other *unwind_other_find(const char *name);

#endif
