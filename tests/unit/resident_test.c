/* SPDX-License-Identifier: MIT
 *
 * resident: memory that is touched is there, once, and holds what it held.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit.h"
#include "base/resident.h"

enum { PAGES = 256 };

static long faults(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
	return u.ru_minflt;
}

static unsigned char *fresh(size_t n)
{
	unsigned char *p =
		mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	madvise(p, n, MADV_NOHUGEPAGE);
	return p;
}

/* Not first for the page of zeros and then for its own. */
static void a_page_takes_one_fault(void **state)
{
	size_t n = PAGES * (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *p = fresh(n), there[PAGES];
	long before = faults(), after;

	resident_touch(p, n);
	after = faults();
	assert_in_range(after - before, PAGES, PAGES + PAGES / 4);
	assert_int_equal(mincore(p, n, there), 0);
	for (size_t i = 0; i < PAGES; i++)
		assert_true(there[i] & 1);
	for (size_t i = 0; i < n; i += 64)
		p[i] = 1;
	assert_in_range(faults() - after, 0, PAGES / 4);
	munmap(p, n);
}

static void what_was_there_stays(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 4 * page;
	unsigned char *p = fresh(n);

	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i % 251);
	resident_touch(p + 1, n - 2);
	resident_touch(p, n);
	resident_touch(p, 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(p[i], i % 251);
	munmap(p, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_takes_one_fault),
		cmocka_unit_test(what_was_there_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
