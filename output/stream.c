/* SPDX-License-Identifier: MIT
 *
 * stream - asks before it writes, for a write into a full pipe can't be given up.
 */
#include "stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "base/base.h"

enum { PATIENCE_MS = 300 };

/* Until PIPE_BUF bytes can be written without waiting. Errors are left to write(). */
static int wait_for_reader(int fd, const struct stop *stop)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	bool asked = false;

	while (poll(&p, 1, PATIENCE_MS) == 0) {
		if (asked)
			return -ETIMEDOUT;
		asked = stop_asked(stop);
	}
	return 0;
}

int stream_write(int fd, const struct stop *stop, const void *p, size_t n, size_t *done)
{
	for (*done = 0; *done < n;) {
		int ret = wait_for_reader(fd, stop);
		ssize_t went;

		if (ret)
			return ret;
		went = write(fd, (const char *)p + *done, MIN(n - *done, (size_t)PIPE_BUF));
		if (went < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		*done += went > 0 ? (size_t)went : 0;
	}
	return 0;
}
