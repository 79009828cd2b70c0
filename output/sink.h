/* SPDX-License-Identifier: MIT
 *
 * sink - the outputs that there are, one const sink_ops (lib/sample/sink.h) and one file a
 * format, opened and closed here; meson writes the list.
 */
#ifndef OUTPUT_SINK_H
#define OUTPUT_SINK_H

#include "sample/sink.h"

/* NULL-terminated. */
extern const struct sink_ops *const sink_formats[];

/* True: @s ends with @end, and is more than that. */
static inline bool sink_ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && !strcmp(s + n - m, end);
}

/* The format for --format @name, or by @path's extension when @name is NULL, or
 * folded for "-". NULL: no such format. */
const struct sink_ops *sink_pick(const char *name, const char *path);

/* Whether @path can be opened for @ops, as far as that can be told without writing. 0, or -errno
 * with a sentence. */
int sink_may_open(const struct sink_ops *ops, const char *path, struct err *err);

/* Open @path ("-" is stdout) and begin. A result is created 0666 less the umask, all
 * else 0600; where the format KEEPS_OLD an old file is kept as PATH.old, as perf
 * does. @path is borrowed until sink_close(). 0 or -errno with a sentence. */
int sink_open(struct sink *s, const struct sink_ops *ops, const char *path,
	      const struct session *session, struct err *err);

/* end(), flush, close. The first error of the sink's whole life, with a sentence. */
int sink_close(struct sink *s, struct err *err);

#endif
