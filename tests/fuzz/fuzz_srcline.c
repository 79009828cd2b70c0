/* SPDX-License-Identifier: MIT
 *
 * fuzz_srcline - what the process that finds source lines answers: it reads foreign files, so
 * its answers are foreign too.
 */
#include "fuzz.h"
#include "lines/srcline_int.h"

static size_t told;

static void answer(void *arg, size_t i, const struct srcline_text *t)
{
	FUZZ_CHECK(strlen(t->function) <= SRCLINE_MAX_TEXT);
	FUZZ_CHECK(strlen(t->file) <= SRCLINE_MAX_TEXT);
	told++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	ssize_t used;

	told = 0;
	used = srcline_take((const char *)data, n, answer, NULL);
	FUZZ_CHECK(used <= (ssize_t)n);
	FUZZ_CHECK(used < 0 || told * sizeof(struct srcline_record) <= (size_t)used);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const char text[] = "main/src/main.c";
	struct srcline_record r = { 1, 17, 4, sizeof(text) - 5 };
	size_t n = 0;

	for (unsigned k = 0; i < 2 && k <= i; k++) {
		n += fuzz_bytes(buf + n, cap - n, &r, sizeof(r));
		n += fuzz_bytes(buf + n, cap - n, text, sizeof(text) - 1);
	}
	return n;
}
