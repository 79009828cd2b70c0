/* SPDX-License-Identifier: MIT
 *
 * large_blocks - calloc() and free() of libFuzzer's programs for blocks that ASan would map
 * and unmap: the pages of its shadow took half of a fuzzer's time. Such a block is kept for
 * the next of its size, poisoned meanwhile, and has poison before and behind it.
 *
 * The linker leads calls here: --wrap=calloc, --wrap=free.
 */
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include "fuzz.h"

enum { LARGE = 200 << 10, LARGEST = 1 << 20, EDGE = 4096, MAX_BLOCKS = 16 };

static struct {
	size_t n;
	bool used;
} blocks[MAX_BLOCKS];

static unsigned char *room; /* of MAX_BLOCKS times LARGEST and an EDGE, and one more EDGE */

void *__real_calloc(size_t n, size_t size);
void __real_free(void *p);
void *__wrap_calloc(size_t n, size_t size);
void __wrap_free(void *p);

static unsigned char *block_at(size_t i)
{
	return room + i * (LARGEST + EDGE) + EDGE;
}

static bool make_room(void)
{
	size_t n = MAX_BLOCKS * (LARGEST + EDGE) + EDGE;
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	ASAN_POISON_MEMORY_REGION(p, n);
	room = p;
	return true;
}

static void *take(size_t n)
{
	if (!room && !make_room())
		return NULL;
	for (size_t i = 0; i < MAX_BLOCKS; i++) {
		if (blocks[i].used || (blocks[i].n && blocks[i].n != n))
			continue;
		blocks[i].n = n;
		blocks[i].used = true;
		ASAN_UNPOISON_MEMORY_REGION(block_at(i), n);
		return block_at(i);
	}
	return NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
	size_t all;
	void *p = NULL;

	if (!__builtin_mul_overflow(n, size, &all) && all >= LARGE && all <= LARGEST)
		p = take(all);
	return p ? p : __real_calloc(n, size);
}

void __wrap_free(void *p)
{
	size_t at = (size_t)((unsigned char *)p - room), i = at / (LARGEST + EDGE);

	if (!room || at >= MAX_BLOCKS * (LARGEST + EDGE)) {
		__real_free(p);
		return;
	}
	FUZZ_CHECK(p == block_at(i) && blocks[i].used);
	blocks[i].used = false;
	madvise(p, blocks[i].n, MADV_DONTNEED);
	ASAN_POISON_MEMORY_REGION(p, blocks[i].n);
}

/* LeakSanitizer knows nothing of them. */
void fuzz_all_is_freed(void)
{
	for (size_t i = 0; i < MAX_BLOCKS; i++)
		FUZZ_CHECK(!blocks[i].used);
}
