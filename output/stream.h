/* SPDX-License-Identifier: MIT
 *
 * stream - writes to who may be slow, have stopped or be gone: pipes, sockets, terminals.
 */
#ifndef OUTPUT_STREAM_H
#define OUTPUT_STREAM_H

#include <stddef.h>

#include "base/stop.h"

/* Write the @n bytes at @p to @fd, which may be O_NONBLOCK. Its reader is waited for as long
 * as it takes, but once the end is asked for (@stop, which may be NULL) less than a second
 * each time. *@done is how much went. 0, -ETIMEDOUT if the reader has stopped, or -errno. */
int stream_write(int fd, const struct stop *stop, const void *p, size_t n, size_t *done);

#endif
