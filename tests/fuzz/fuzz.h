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

/* A sum of all that a target has found out so far; main.c knows what it shall be. */
extern uint64_t fuzz_sum;
__attribute__((__weak__)) uint64_t fuzz_sum = 0xcbf29ce484222325u;

static inline void fuzz_note_bytes(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fuzz_sum = (fuzz_sum ^ ((const unsigned char *)p)[i]) * 0x100000001b3u;
}

static inline void fuzz_note(uint64_t v)
{
	fuzz_sum = (fuzz_sum ^ v) * 0x9e3779b97f4a7c15u;
	fuzz_sum ^= fuzz_sum >> 32;
}

static inline void fuzz_note_text(const char *s)
{
	fuzz_note_bytes(s, strlen(s) + 1);
}

/* Of what points into the input: where. */
static inline void fuzz_note_place(const void *p, const void *from)
{
	fuzz_note(p ? (uint64_t)((const char *)p - (const char *)from) : UINT64_MAX);
}

/* Of programs with large_blocks.c: no such block is in use between two inputs. */
__attribute__((__weak__)) void fuzz_all_is_freed(void);

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
