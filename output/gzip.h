/* SPDX-License-Identifier: MIT
 *
 * gzip - bytes into a file, compressed as they come; and how a compressed file begins.
 */
#ifndef OUTPUT_GZIP_H
#define OUTPUT_GZIP_H

#include <stddef.h>
#include <stdio.h>

#include "base/base.h"

struct gzip;

/* @out is borrowed. NULL: no memory. */
struct gzip *gzip_create(FILE *out);

/* Sets errors aside for gzip_finish(). */
void gzip_put(struct gzip *z, const void *p, size_t n);

/* Write what is left and free. 0 or -errno: the first error. */
int gzip_finish(struct gzip *z);

/* The first bytes, at most @cap, of what @packed is the beginning of, into @to; how many. */
size_t gzip_head(struct bytes packed, unsigned char *to, size_t cap);

#endif
