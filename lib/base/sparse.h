/* SPDX-License-Identifier: MIT
 *
 * sparse - large blocks of which little is used: they take the pages that are touched, on
 * the NUMA node of the CPU that touches them first.
 */
#ifndef SPARSE_H
#define SPARSE_H

#include <stddef.h>

/* What @n bytes take of a block in which each part begins on a cache line. */
static inline size_t sparse_room(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

/* Call once, before there are threads: large blocks are the kernel's fresh pages from then
 * on, never what was used and freed before. */
void sparse_init(void);

/* @n bytes of zeros, not as huge pages, for free(); NULL: there are none. */
void *sparse_alloc(size_t n);

/* The pages that lie wholly in the @n bytes at @p, a part of such a block, are zeros again and
 * take no memory until they are touched. */
void sparse_drop(void *p, size_t n);

#endif
