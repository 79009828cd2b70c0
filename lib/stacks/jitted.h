/* SPDX-License-Identifier: MIT
 *
 * jitted - does CPython's JIT run the innermost Python frame, so that its line can't be told?
 * Pure.
 *
 * What the JIT makes of bytecode (3.13 on) stores where it is before it calls what may run any
 * code, and nowhere else: between such calls the frame tells an instruction that has passed,
 * mostly in another line. The function is right at every moment.
 */
#ifndef JITTED_H
#define JITTED_H

#include <stdbool.h>
#include <stdint.h>

/* Where a native frame's code lies. */
enum jitted_code {
	JITTED_INTERPRETER, /* in the evaluation loop's file */
	JITTED_LIBRARY,	    /* in a file that a JIT's code may call by itself: libc, libm */
	JITTED_FOREIGN,	    /* in any other file: an extension module */
	JITTED_MEMORY,	    /* in no file */
};

/* The @n native frames inside the innermost activation of the evaluation loop, leaf first; the
 * loop's own is not among them. @gap: some frames between them may not have been found. True:
 * the frame's line may be another one. */
bool jitted_hides_line(const enum jitted_code *code, uint32_t n, bool gap);

#endif
