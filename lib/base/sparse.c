/* SPDX-License-Identifier: MIT
 *
 * sparse - zeroed blocks of which only what is written becomes resident.
 */
#include "base/sparse.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/base.h"

enum { LARGE = 128 << 10 };

void sparse_init(void)
{
	/* By default it grows with what is freed; then calloc() has to clear old pages. */
	mallopt(M_MMAP_THRESHOLD, LARGE);
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
