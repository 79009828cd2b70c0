/* SPDX-License-Identifier: MIT
 *
 * stop - has the end of a recording been asked for? What takes long looks now and then, also
 * before the recording begins.
 */
#ifndef STOP_H
#define STOP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

/* The caller's of recorder_create(), which owns the descriptor. */
struct stop {
	int fd; /* readable, for good, as soon as the end is asked for; -1: never */
};

/* Any thread. @s may be NULL: never. */
static inline bool stop_asked(const struct stop *s)
{
	struct pollfd p = { .fd = s ? s->fd : -1, .events = POLLIN };

	return s && poll(&p, 1, 0) > 0;
}

#endif
