/* SPDX-License-Identifier: MIT
 *
 * no_memory - allocations of this program fail from one on, or that one alone: whatever a test
 * does then ends well, or says that memory had run out. Sanitizers have allocators of their own:
 * under them none fails.
 */
#ifndef NO_MEMORY_H
#define NO_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NO_MEMORY_FAILS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NO_MEMORY_FAILS 0
#endif
#endif
#ifndef NO_MEMORY_FAILS
#define NO_MEMORY_FAILS 1
#endif

static struct {
	long fails; /* the number of the one that does; 0: none */
	bool alone; /* else all behind it too */
	_Atomic long n;
} no_memory;

#if NO_MEMORY_FAILS

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);

static inline bool memory_fails(void)
{
	long n = no_memory.fails ? ++no_memory.n : 0;
	bool fails = n && (n == no_memory.fails || (n > no_memory.fails && !no_memory.alone));

	if (fails)
		errno = ENOMEM;
	return fails;
}

void *malloc(size_t n)
{
	return memory_fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
	return memory_fails() ? NULL : __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
	return memory_fails() ? NULL : __libc_realloc(p, n);
}

void *reallocarray(void *p, size_t n, size_t each)
{
	size_t all;

	if (__builtin_mul_overflow(n, each, &all))
		return NULL;
	return realloc(p, all);
}

#endif

/* The @n'th allocation from now on fails; 0: no further one does. */
static inline void no_memory_from(long n, bool alone)
{
	no_memory.fails = n;
	no_memory.alone = alone;
	no_memory.n = 0;
}

/* No further one fails. True: one did. */
static inline bool no_memory_end(void)
{
	bool did = no_memory.fails && no_memory.n >= no_memory.fails;

	no_memory.fails = 0;
	return did;
}

#endif
