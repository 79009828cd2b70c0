/* SPDX-License-Identifier: MIT
 *
 * chunks_test - pieces do not overlap, memory is used again, and what is not needed any more
 * goes.
 */
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "base/base.h"
#include "base/chunks.h"

enum { N = 1000, BYTES = 9000, BIG = 1 << 20 };

static void get_all(struct chunks *c, unsigned char *piece[N], unsigned char fill)
{
	for (size_t i = 0; i < N; i++) {
		piece[i] = chunks_get(c, BYTES + i);
		assert_non_null(piece[i]);
		assert_int_equal((uintptr_t)piece[i] % 16, 0);
		memset(piece[i], (int)(fill + i), BYTES + i);
	}
}

static void put_all(struct chunks *c, unsigned char *piece[N], unsigned char fill)
{
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(piece[i][0], (unsigned char)(fill + i));
		assert_int_equal(piece[i][BYTES + i - 1], (unsigned char)(fill + i));
		chunks_put(c, piece[i]);
	}
}

static void used_again(void **state)
{
	unsigned char *a[N], *b[N];
	struct chunks c;
	size_t most;

	chunks_init(&c);
	get_all(&c, a, 1);
	get_all(&c, b, 2);
	most = c.n_used;
	assert_in_range(most, 2 * N * BYTES / (256 << 10),
			2 * N * (BYTES + N) / (256 << 10) + 9);
	for (int i = 0; i < 20; i++) {
		put_all(&c, a, 1);
		assert_in_range(c.n_spare, most / 4, most);
		get_all(&c, a, 1);
		chunks_age(&c);
		assert_in_range(c.n_used + c.n_spare, 1, most + 1);
	}
	put_all(&c, a, 1);
	put_all(&c, b, 2);
	assert_int_equal(c.n_used, 1);
	for (int i = 0; i < 200; i++)
		chunks_age(&c);
	assert_int_equal(c.n_used + c.n_spare, 1);
	chunks_deinit(&c);
}

/* More than a chunk holds. */
static void big(void **state)
{
	struct chunks c;
	unsigned char *p, *q;

	chunks_init(&c);
	p = chunks_get(&c, BIG);
	q = chunks_get(&c, 1);
	memset(p, 1, BIG);
	*q = 2;
	assert_int_equal(c.n_used, 2);
	chunks_put(&c, p);
	assert_int_equal(c.n_used, 1);
	assert_int_equal(c.n_spare, 0);
	chunks_put(&c, q);
	chunks_deinit(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(used_again),
					    cmocka_unit_test(big) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
