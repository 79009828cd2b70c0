/* SPDX-License-Identifier: MIT
 *
 * elfplain - debug sections that were compressed with zstd, for a libdw that can't read them.
 *
 * elfutils reads them since 0.189; older ones say that there is nothing in them.
 */
#ifndef ELFPLAIN_H
#define ELFPLAIN_H

#include <stdint.h>

#define ELFPLAIN_MAX ((uint64_t)1 << 30) /* bytes of a copy */

/* Of an open ELF file a descriptor of the same without such sections: a copy in memory where
 * there are some, else another of the file itself. -errno; -E2BIG: the copy would be too large. */
int elfplain_open(int fd);

#endif
