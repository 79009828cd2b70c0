/* SPDX-License-Identifier: MIT
 *
 * xz - unpacks .xz bytes in memory, by liblzma where it was there when this was built.
 */
#ifndef XZ_H
#define XZ_H

#include <stdbool.h>

#include "base/base.h"

/* True: it is built in. */
extern const bool xz_built;

/* What @in unpacks to, malloc'ed; empty: damaged, or more than @max bytes. */
struct bytes xz_unpack(struct bytes in, size_t max);

#endif
