/* SPDX-License-Identifier: MIT
 *
 * resident - touches memory before it is needed, so that nobody waits for a page then.
 */
#include "base/resident.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* By the linker: the first and the last byte of code and constants, which lie together. Where
 * we are a library there is no first one. */
extern const char __executable_start[] __attribute__((__weak__)), edata[];

/* Writes first what a fresh page holds. A read would map the kernel's page of zeros, and the
 * write behind it another one in its place: two faults, and each CPU that runs us is told. */
static void touch(char *at)
{
	char was = 0;

	while (!__atomic_compare_exchange_n(at, &was, was, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

void resident_touch(void *p, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *at = p;

	for (size_t i = 0; i < n; i += page)
		touch(at + i);
	if (n)
		touch(at + n - 1);
}

void resident_program(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)__executable_start & ~(page - 1);

	if (from)
		madvise((void *)from, (uintptr_t)edata - from, MADV_POPULATE_READ);
}
