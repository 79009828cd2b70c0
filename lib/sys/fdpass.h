/* SPDX-License-Identifier: MIT
 *
 * fdpass - messages with descriptors between processes of ours, over SOCK_SEQPACKET.
 */
#ifndef FDPASS_H
#define FDPASS_H

#include <stddef.h>

enum { FDPASS_MAX = 8 };

/* 0 or -errno: -EPIPE when the other end is gone. It does not wait: -EAGAIN. */
int fdpass_send(int socket, const void *message, size_t n, const int *fds, size_t n_fds);

/* Wait for one of exactly @n bytes, into @message. Its descriptors to @fds, close-on-exec, of
 * which there may be FDPASS_MAX; how many. -EPIPE: the other end is gone; -EPROTO: it was
 * another message, and its descriptors are closed; -errno. */
int fdpass_receive(int socket, void *message, size_t n, int fds[FDPASS_MAX]);

/* Close the @n of them; none where that is an error. */
void fdpass_close(const int *fds, int n);

#endif
