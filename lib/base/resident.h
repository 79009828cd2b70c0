/* SPDX-License-Identifier: MIT
 *
 * resident - memory that is there before a thread is held. A page fault makes a hold longer,
 * and it may sleep: until a file is read, or another thread of ours has mapped its memory. The
 * held thread runs on then.
 */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <stddef.h>

/* The pages of @p's first @n bytes, which nobody else uses meanwhile. They keep what is in
 * them. */
void resident_touch(void *p, size_t n);

/* The pages of our own program, as far as the kernel does that (Linux 5.14). */
void resident_program(void);

#endif
