/* SPDX-License-Identifier: MIT
 *
 * jitdump - jit-PID.dump made by hand.
 */
#ifndef JITDUMP_H
#define JITDUMP_H

#include "base/base.h"

/* A dump in memory. */
struct dump {
	unsigned char at[4096];
	size_t n;
};

static inline void put32(struct dump *d, uint32_t v)
{
	memcpy(d->at + d->n, &v, 4);
	d->n += 4;
}

static inline void put64(struct dump *d, uint64_t v)
{
	memcpy(d->at + d->n, &v, 8);
	d->n += 8;
}

static inline void dump_begin(struct dump *d)
{
	d->n = 0;
	put32(d, 0x4a695444), put32(d, 1), put32(d, 40), put32(d, 62), put32(d, 0);
	put32(d, (uint32_t)getpid()), put64(d, 1), put64(d, 0);
}

/* @code: bytes of code, of which a file has all and this has none. */
static inline void dump_load(struct dump *d, uint64_t addr, uint64_t size, const char *name,
			     uint32_t code)
{
	size_t n = strlen(name) + 1;

	put32(d, 0), put32(d, (uint32_t)(56 + n + code)), put64(d, 2);
	put32(d, 1), put32(d, 1), put64(d, addr), put64(d, addr), put64(d, size), put64(d, 0);
	memcpy(d->at + d->n, name, n);
	d->n += n;
}

#endif
