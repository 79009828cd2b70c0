/* SPDX-License-Identifier: MIT
 *
 * sealed - a file in memory that can't change any more, by which one process hands tables to
 * another that does not trust it.
 */
#ifndef SEALED_H
#define SEALED_H

#include <sys/uio.h>

#include "base/base.h"

/* One of @n parts, close-on-exec; @part is changed. Zeros as well are written: there are no
 * holes that could be filled only when they are read. Its descriptor; -ENOMEM. */
int sealed_make(struct iovec *part, size_t n);

/* The whole of @fd, which is borrowed and may be no such file, for reading; munmap() it. 0;
 * -EPROTO: it is none, it is empty, has a hole or more than @max bytes; -ENOMEM. */
int sealed_map(struct bytes *ret, int fd, uint64_t max);

#endif
