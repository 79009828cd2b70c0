/* SPDX-License-Identifier: MIT
 *
 * resident - touches memory before it is needed, so that nobody waits for a page then.
 */
#include "base/resident.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* By the linker: the first and the last byte of code and constants, which lie together. Where
 * we are a library there is no first one. */
extern const char __executable_start[] __attribute__((__weak__)), edata[];

void resident_touch(void *p, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	volatile char *at = p;

	for (size_t i = 0; i < n; i += page)
		at[i] += 0;
	if (n)
		at[n - 1] += 0;
}

void resident_program(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)__executable_start & ~(page - 1);

	if (from)
		madvise((void *)from, (uintptr_t)edata - from, MADV_POPULATE_READ);
}
