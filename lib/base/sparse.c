/* SPDX-License-Identifier: MIT
 *
 * sparse - zeroed blocks of which only what is written becomes resident.
 */
#include "base/sparse.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/base.h"

enum { LARGE = 128 << 10, HEAP_STEP = 1 << 20 };

void sparse_init(void)
{
	/* By default it grows with what is freed; then calloc() has to clear old pages. */
	mallopt(M_MMAP_THRESHOLD, LARGE);
	/* Readers do not allocate, and the other threads share one heap: one of its own would
	 * take each some system calls, and memory. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, HEAP_STEP);
}

void *sparse_alloc(size_t n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), lo, hi;
	char *p;

	n = MAX(n, (size_t)LARGE);
	p = calloc(1, n);
	lo = ((uintptr_t)p + page - 1) & ~(page - 1);
	hi = ((uintptr_t)p + n) & ~(page - 1);
	/* Only advice: with huge pages a byte that is touched takes 2 MiB. */
	if (p && lo < hi)
		madvise((void *)lo, hi - lo, MADV_NOHUGEPAGE);
	return p;
}
