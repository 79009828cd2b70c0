/* SPDX-License-Identifier: MIT
 *
 * inflate - contents of compressed ELF sections, by zlib where it was there when this was
 * built, and zstd. Format: gABI, "Section Compression".
 */
#ifndef INFLATE_H
#define INFLATE_H

#include <stdbool.h>

#include "base/base.h"

/* True: zlib is built in. */
extern const bool inflate_zlib_built;

/* What the bytes of a section with SHF_COMPRESSED stand for, malloc'ed, with a NUL behind;
 * empty: damaged, or more than @max bytes. */
struct bytes inflate_section(struct bytes section, size_t max);

#endif
