/* SPDX-License-Identifier: MIT
 *
 * fuzz - what a fuzz target gives to main.c, which runs it without a fuzzing engine.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* As libFuzzer and others call it. @data lies in memory of exactly @n bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Seed @i of the target into @buf; its length, 0 past the last. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap);

/* What must hold whatever the input is. */
#define FUZZ_CHECK(what)                                                           \
	do {                                                                       \
		if (!(what)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                   \
		}                                                                  \
	} while (0)

/* The bytes at @p as a seed. */
static inline size_t fuzz_bytes(uint8_t *buf, size_t cap, const void *p, size_t n)
{
	n = MIN(n, cap);
	memcpy(buf, p, n);
	return n;
}

#endif
