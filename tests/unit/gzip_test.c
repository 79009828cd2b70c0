/* SPDX-License-Identifier: MIT
 *
 * gzip_test - what goes in comes out of zlib again, and a full disk is told.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "unit.h"
#include "../../output/gzip.h"

enum { MUCH = 300 * 1000 };

/* Bytes that hardly can be compressed, so that several buffers of output fill. */
static void fill(unsigned char *at, size_t n)
{
	uint32_t x = 1;

	for (size_t i = 0; i < n; i++)
		at[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
}

static void comes_out_again(void **state)
{
	static unsigned char in[MUCH], out[MUCH + 1];
	char *made;
	size_t n;
	FILE *f = open_memstream(&made, &n);
	struct gzip *g = gzip_create(f);
	z_stream z = { 0 };

	fill(in, sizeof(in));
	gzip_put(g, in, 0);
	gzip_put(g, in, 1);
	gzip_put(g, in + 1, MUCH - 2);
	gzip_put(g, in + MUCH - 1, 1);
	assert_int_equal(gzip_finish(g), 0);
	fclose(f);
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = (unsigned char *)made;
	z.avail_in = (unsigned)n;
	z.next_out = out;
	z.avail_out = sizeof(out);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	assert_int_equal(z.total_out, MUCH);
	assert_memory_equal(in, out, MUCH);
	inflateEnd(&z);
	free(made);
	(void)state;
}

/* The first error, though nothing fails later. */
static void full_disk_is_told(void **state)
{
	static unsigned char in[MUCH];
	FILE *f = fopen("/dev/full", "w");
	struct gzip *g = gzip_create(f);

	fill(in, sizeof(in));
	setvbuf(f, NULL, _IONBF, 0);
	gzip_put(g, in, sizeof(in));
	assert_int_equal(gzip_finish(g), -ENOSPC);
	fclose(f);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_out_again),
		cmocka_unit_test(full_disk_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
