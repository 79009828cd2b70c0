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

/* For the pages that lie wholly in there. */
static void advise(void *p, size_t n, int advice)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t lo = ((uintptr_t)p + page - 1) & ~(page - 1);
	uintptr_t hi = ((uintptr_t)p + n) & ~(page - 1);

	if (p && lo < hi)
		madvise((void *)lo, hi - lo, advice);
}

void *sparse_alloc(size_t n)
{
	char *p;

	n = MAX(n, (size_t)LARGE);
	p = calloc(1, n);
	/* Only advice: with huge pages a byte that is touched takes 2 MiB. */
	advise(p, n, MADV_NOHUGEPAGE);
	return p;
}

void sparse_drop(void *p, size_t n)
{
	advise(p, n, MADV_DONTNEED);
}
