/* SPDX-License-Identifier: MIT
 *
 * sparse - large blocks of which little is used: they take the pages that are touched, on
 * the NUMA node of the CPU that touches them first.
 */
#ifndef SPARSE_H
#define SPARSE_H

#include <stddef.h>

/* Call once, before there are threads: large blocks are the kernel's fresh pages from then
 * on, never what was used and freed before. */
void sparse_init(void);

/* @n bytes of zeros, not as huge pages, for free(); NULL: there are none. */
void *sparse_alloc(size_t n);

#endif
