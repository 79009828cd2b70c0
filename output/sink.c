/* SPDX-License-Identifier: MIT
 *
 * sink - picks a format, opens and closes its file.
 */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio_ext.h>
#include <sys/stat.h>

#include "base/base.h"

enum { SINK_BUFFER = 256 * 1024, SINK_ALIGN = 64 };

#define X(name) extern const struct sink_ops sink_##name;
#include "sinks.inc"
#undef X

const struct sink_ops *const sink_formats[] = {
#define X(name) &sink_##name,
#include "sinks.inc"
#undef X
	NULL,
};

static const struct sink_ops *sink_by_name(const char *name)
{
	for (size_t i = 0; sink_formats[i]; i++)
		if (!strcmp(sink_formats[i]->name, name))
			return sink_formats[i];
	return NULL;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && !strcmp(s + n - m, end);
}

const struct sink_ops *sink_pick(const char *name, const char *path)
{
	if (name)
		return sink_by_name(name);
	for (size_t i = 0; sink_formats[i]; i++)
		for (const char *const *x = sink_formats[i]->extensions; x && *x; x++)
			if (ends_with(path, *x))
				return sink_formats[i];
	return sink_by_name(strcmp(path, "-") ? "perf" : "folded");
}

static const char *sink_called(const struct sink *s)
{
	return strcmp(s->path, "-") ? s->path : "standard output";
}

/* Text is for everybody, like a shell's ">"; what may hold more is for the owner. */
static mode_t sink_mode(const struct sink_ops *ops)
{
	return ops->needs & SINK_NEEDS_NAMES ? 0666 : 0600;
}

static int sink_open_file(struct sink *s, void *buffer, struct err *err)
{
	int fd, why;

	if (!strcmp(s->path, "-")) {
		s->out = stdout;
		return 0;
	}
	/* readable too: perf.data is patched at the end */
	fd = open(s->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY,
		  sink_mode(s->ops));
	why = errno;
	/* A device or a pipe that only takes writing. */
	if (fd < 0 && (why == EACCES || why == EINVAL || why == ENXIO))
		fd = open(s->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_set(err, -why, "opening %s: %s", s->path, strerror(why));
	s->out = fdopen(fd, "w");
	if (!s->out) {
		close(fd);
		return err_set(err, -ENOMEM, "opening %s: out of memory", s->path);
	}
	setvbuf(s->out, buffer, _IOFBF, SINK_BUFFER);
	return 0;
}

/* perf moves its last recording out of the way, and so do we. */
static void sink_keep_old(const struct sink *s)
{
	_cleanup_free_ char *old = NULL;
	struct stat st;

	if (!(s->ops->needs & SINK_NEEDS_FILE) || stat(s->path, &st) || !S_ISREG(st.st_mode) ||
	    !st.st_size)
		return;
	if (asprintf(&old, "%s.old", s->path) < 0)
		old = NULL;
	if (old && rename(s->path, old))
		unlink(s->path);
}

static void sink_free(struct sink *s)
{
	if (s->out && s->out != stdout)
		fclose(s->out);
	free(s->priv);
	s->out = NULL;
	s->priv = NULL;
}

int sink_open(struct sink *s, const struct sink_ops *ops, const char *path,
	      const struct session *session, struct err *err)
{
	size_t priv = (ops->priv_size + SINK_ALIGN) / SINK_ALIGN * SINK_ALIGN;
	int ret;

	*s = (struct sink){ .ops = ops, .session = session, .path = path };
	if (ops->needs & SINK_NEEDS_FILE && !strcmp(path, "-"))
		return err_set(err, -EINVAL,
			       "the format %s needs a file: it cannot go to standard output",
			       ops->name);
	sink_keep_old(s);
	s->priv = calloc(1, priv + SINK_BUFFER);
	if (!s->priv)
		return err_set(err, -ENOMEM, "opening %s: out of memory", path);
	ret = sink_open_file(s, (char *)s->priv + priv, err);
	if (!ret)
		ret = ops->begin(s, err);
	if (ret)
		sink_free(s);
	return ret;
}

/* A text that could not be written whole ends with a whole line all the same. */
static void sink_cut_line(struct sink *s)
{
	char tail[4096];
	struct stat st;
	off_t from;
	ssize_t n;

	if (!(s->ops->needs & SINK_NEEDS_NAMES) || fstat(fileno(s->out), &st) ||
	    !S_ISREG(st.st_mode))
		return;
	__fpurge(s->out); /* or closing would try to write the rest again */
	from = MAX(st.st_size - (off_t)sizeof(tail), 0);
	n = pread(fileno(s->out), tail, sizeof(tail), from);
	while (n > 0 && tail[n - 1] != '\n')
		n--;
	if (n > 0 && ftruncate(fileno(s->out), from + n) < 0)
		s->failed = -errno;
}

int sink_close(struct sink *s, struct err *err)
{
	struct err why = {};
	int ret;

	if (!s->out)
		return 0;
	ret = s->ops->end(s, &why);
	if (!s->failed && ret)
		s->failed = ret;
	if (fflush(s->out) && !s->failed)
		s->failed = -errno;
	if (s->failed && s->out != stdout)
		sink_cut_line(s);
	if (s->failed && s->out == stdout) {
		/* it is told here, and not again by who flushes it next */
		__fpurge(stdout);
		clearerr(stdout);
	}
	if (s->out != stdout && fclose(s->out) && !s->failed)
		s->failed = -errno;
	s->out = NULL;
	sink_free(s);
	if (!s->failed)
		return 0;
	if (why.code == s->failed && *why.text)
		return err_set(err, s->failed, "%s", why.text);
	return err_set(err, s->failed, "writing %s: %s", sink_called(s), strerror(-s->failed));
}
