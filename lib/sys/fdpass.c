/* SPDX-License-Identifier: MIT
 *
 * fdpass - one sendmsg() and one recvmsg() with SCM_RIGHTS.
 */
#include "sys/fdpass.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/base.h"

int fdpass_send(int socket, const void *message, size_t n, const int *fds, size_t n_fds)
{
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(FDPASS_MAX * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)message, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t sent;

	if (n_fds) {
		m.msg_control = space;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	do
		sent = sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return (size_t)sent == n ? 0 : -EPROTO;
	return errno == ECONNRESET || errno == ENOTCONN ? -EPIPE : -errno;
}

/* The descriptors of @m. */
static size_t take_fds(struct msghdr *m, int fds[FDPASS_MAX])
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)FDPASS_MAX);
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	}
	return n;
}

int fdpass_receive(int socket, void *message, size_t n, int fds[FDPASS_MAX])
{
	/* Room for no more: the kernel closes others. */
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	struct iovec iov = { message, n };
	struct msghdr m;
	int resets = 0;
	size_t n_fds;
	ssize_t got;

	do {
		m = (struct msghdr){ .msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = space,
				     .msg_controllen = sizeof(space) };
		got = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
		/* Its end is told before what it sent last, if it left something unread. */
	} while (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
	if (got <= 0)
		return got == 0 || errno == ECONNRESET ? -EPIPE : -errno;
	n_fds = take_fds(&m, fds);
	if ((size_t)got == n && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return (int)n_fds;
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	/* Descriptors that could not be had: ours have run out. */
	return m.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
}

void fdpass_close(const int *fds, int n)
{
	while (n > 0)
		close(fds[--n]);
}
