/* SPDX-License-Identifier: MIT
 *
 * base - the few macros everything shares: sizes, containers, scope guards.
 */
#ifndef BASE_H
#define BASE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
/* For qsort(): below, at or above 0, as @a is beside @b. */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* Built with a sanitizer, whose runtime needs more than we do. */
#ifdef __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* A window on bytes that somebody else owns. */
struct bytes {
	const unsigned char *at;
	size_t n;
};

static inline void base_free(void *p)
{
	free(*(void **)p);
}

static inline void base_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void base_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

/* The descriptor, which _cleanup_close_ then leaves open. */
static inline int base_take(int *fd)
{
	int ret = *fd;

	*fd = -1;
	return ret;
}

/* Scope guards: freed or closed when the variable leaves its block. */
#define _cleanup_free_ __attribute__((__cleanup__(base_free)))
#define _cleanup_close_ __attribute__((__cleanup__(base_close)))
#define _cleanup_fclose_ __attribute__((__cleanup__(base_fclose)))

/* What comes behind the last slash. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Unaligned loads from bytes of any origin. */
static inline uint64_t load_u64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t load_u32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* How many of @n ascending rows of @each bytes, which begin with a uint64_t, begin at or
 * below @x: the last of them is the one that @x may lie in. */
static inline size_t rows_up_to(const void *rows, size_t n, size_t each, uint64_t x)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (load_u64((const char *)rows + mid * each) <= x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

#endif
