/* SPDX-License-Identifier: MIT
 *
 * elfplain - debug sections that were compressed with zstd, for a libdw that can't read them.
 *
 * elfutils reads them since 0.189; older ones say that there is nothing in them.
 */
#ifndef ELFPLAIN_H
#define ELFPLAIN_H

/* Of an open ELF file a descriptor of the same without such sections: a copy in memory where
 * there are some, else another of the file itself. -errno. */
int elfplain_open(int fd);

#endif
