/* SPDX-License-Identifier: MIT
 *
 * idmap - numbers to numbers: pids to comms, (function, line) to frame ids.
 */
#ifndef IDMAP_H
#define IDMAP_H

#include <stddef.h>
#include <stdint.h>

enum { IDMAP_NONE = 0x7fffffff };

struct idmap {
	struct idmap_entry *at;
	uint32_t n, cap; /* entries that are not free; a power of two */
};

void idmap_deinit(struct idmap *m);

size_t idmap_bytes(const struct idmap *m); /* that it takes */

/* The value of @key, or IDMAP_NONE. */
uint32_t idmap_get(const struct idmap *m, uint64_t key);

/* IDMAP_NONE forgets the key. 0 or -ENOMEM. */
int idmap_set(struct idmap *m, uint64_t key, uint32_t val);

void idmap_forget(struct idmap *m, uint64_t key);

#endif
