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
#include "base/stats.h"
#include "copies.h"
#include "outfile.h"
#include "stream.h"

enum { SINK_ALIGN = 64 };

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

const struct sink_ops *sink_pick(const char *name, const char *path)
{
	if (name)
		return sink_by_name(name);
	for (size_t i = 0; sink_formats[i]; i++)
		for (const char *const *x = sink_formats[i]->extensions; x && *x; x++)
			if (sink_ends_with(path, *x))
				return sink_formats[i];
	return strcmp(path, "-") ? NULL : sink_by_name("folded");
}

static const char *sink_called(const struct sink *s)
{
	return strcmp(s->path, "-") ? s->path : "standard output";
}

/* A result is for everybody, like a shell's ">"; what may hold more is for the owner. */
static mode_t sink_mode(const struct sink_ops *ops)
{
	return ops->needs & SINK_IS_RESULT ? 0666 : 0600;
}

/* To who may stop reading. */
static ssize_t sink_send(void *arg, const char *at, size_t n)
{
	struct sink *s = arg;
	int ret = -ETIMEDOUT;
	size_t done;

	if (!s->deserted)
		ret = stream_write(s->fd, s->session->stop, at, n, &done);
	s->deserted = ret == -ETIMEDOUT;
	errno = -ret;
	return ret ? 0 : (ssize_t)n;
}

static int sink_sent(void *arg)
{
	const struct sink *s = arg;

	return strcmp(s->path, "-") ? close(s->fd) : 0;
}

/* What a link in /dev leads to has its name elsewhere, or none. */
static void forget_folder_of_link(struct sink *s, const char *name)
{
	struct stat st;

	if (fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISLNK(st.st_mode))
		return;
	close(s->folder);
	s->folder = -1;
}

static int sink_open_fd(struct sink *s, struct err *err)
{
	const char *name;
	int fd;

	if (!strcmp(s->path, "-"))
		return STDOUT_FILENO;
	s->folder = outfile_folder(s->path, &name, err);
	if (s->folder < 0)
		return s->folder;
	/* readable too: perf.data is patched at the end */
	fd = outfile_open(s->folder, name, s->path, sink_mode(s->ops),
			  s->ops->needs & SINK_KEEPS_OLD, s->ops->beside, err);
	if (fd >= 0)
		forget_folder_of_link(s, name);
	return fd;
}

static bool is_unfit(const struct sink_ops *ops, int fd, struct err *err)
{
	return ops->needs & SINK_IS_BINARY && isatty(fd) &&
	       err_set(err, -EINVAL,
		       "%s is not for a terminal: name a file, or send it down a pipe",
		       ops->name);
}

int sink_may_open(const struct sink_ops *ops, const char *path, struct err *err)
{
	if (!strcmp(path, "-"))
		return is_unfit(ops, STDOUT_FILENO, err) ? err->code : 0;
	return outfile_may_open(path, ops->needs & SINK_KEEPS_OLD, ops->beside, err);
}

static int sink_open_file(struct sink *s, struct err *err)
{
	const cookie_io_functions_t stream = { .write = sink_send, .close = sink_sent };
	bool is_stdout = !strcmp(s->path, "-"), file;
	struct stat st;

	s->fd = sink_open_fd(s, err);
	if (s->fd < 0)
		return s->fd;
	if (is_unfit(s->ops, s->fd, err)) {
		sink_sent(s);
		return err->code;
	}
	file = fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode);
	s->begin = file ? st.st_size : 0;
	if (file && is_stdout) /* which a shell opens for writing alone */
		s->back = open("/proc/self/fd/1", O_RDONLY | O_CLOEXEC);
	if (file && !is_stdout)
		s->out = fdopen(s->fd, "w");
	else
		s->out = fopencookie(s, "w", stream);
	if (!s->out) {
		sink_sent(s);
		return err_set(err, -ENOMEM, "opening %s: out of memory", s->path);
	}
	setvbuf(s->out, s->buffer, _IOFBF, SINK_BUFFER);
	return 0;
}

static void sink_free(struct sink *s)
{
	if (s->out)
		fclose(s->out);
	if (s->folder >= 0)
		close(s->folder);
	if (s->back >= 0)
		close(s->back);
	free(s->priv);
	s->folder = s->back = -1;
	s->out = NULL;
	s->priv = NULL;
}

int sink_open(struct sink *s, const struct sink_ops *ops, const char *path,
	      const struct session *session, struct err *err)
{
	size_t priv = (ops->priv_size + SINK_ALIGN) / SINK_ALIGN * SINK_ALIGN;
	int ret;

	*s = (struct sink){
		.ops = ops, .session = session, .path = path, .folder = -1, .back = -1
	};
	s->priv = calloc(1, priv + SINK_BUFFER);
	if (!s->priv)
		return err_set(err, -ENOMEM, "opening %s: out of memory", path);
	s->buffer = (char *)s->priv + priv;
	ret = sink_open_file(s, err);
	if (!ret)
		ret = ops->begin(s, err);
	if (ret)
		sink_free(s);
	return ret;
}

/* Behind the last newline from @s->begin to @end. -errno. */
static off_t whole_until(const struct sink *s, off_t end)
{
	char part[4096];

	while (end > s->begin) {
		off_t from = MAX(end - (off_t)sizeof(part), s->begin);
		ssize_t n = pread(sink_readable(s), part, (size_t)(end - from), from);

		if (n <= 0)
			return n ? -errno : -EIO;
		while (n > 0 && part[n - 1] != '\n')
			n--;
		end = from + n;
		if (n)
			break;
	}
	return end;
}

/* A text that could not be written whole ends with a whole line all the same. */
static void sink_cut_line(struct sink *s)
{
	struct stat st;
	off_t end;

	if (!(s->ops->needs & SINK_IS_RESULT) || fstat(s->fd, &st) || !S_ISREG(st.st_mode))
		return;
	__fpurge(s->out); /* or closing would try to write the rest again */
	end = whole_until(s, st.st_size);
	/* Who writes to standard output next shall not leave a hole. */
	if (end >= 0 && (ftruncate(s->fd, end) < 0 || lseek(s->fd, end, SEEK_SET) < 0))
		s->failed = -errno;
}

/* What was added up is written also after an error: it is readable. */
static void sink_finish(struct sink *s, struct err *why)
{
	int ret = s->ops->finish ? s->ops->finish(s) : 0;

	if (!ret)
		ret = copies_last(s, why);
	if (!s->failed)
		s->failed = ret;
	if (s->failed && !s->is_whole)
		sink_cut_line(s);
}

/* The books have what the output that lacks most does. */
static void note_lacking(const struct sink *s)
{
	struct stats *stats = s->session->stats;
	uint64_t before = stats ? STATS_GET(stats, unwritten) : UINT64_MAX;

	if (s->lacking > before)
		STATS_ADD(stats, unwritten, s->lacking - before);
}

/* Somebody else took its name, which *@err says: 0, or -errno. */
static int look_at_name(const struct sink *s, struct err *err)
{
	const char *name = base_name(s->path);
	int ret = s->folder < 0 ? 0 : outfile_named(s->folder, name, s->fd);

	if (ret == -EEXIST && s->ops->needs & SINK_KEEPS_OLD &&
	    outfile_is_old(s->folder, name, s->fd))
		return err_set(err, ret,
			       "another recording began in %s: what this one has is in %s.old",
			       s->path, s->path);
	return ret ? err_set(err, ret, "%s was %s while it was written", s->path,
			     ret == -ENOENT ? "removed" : "replaced by another file") :
		     0;
}

int sink_close(struct sink *s, struct err *err)
{
	struct err why = {};
	int ret, lost;

	if (!s->out)
		return 0;
	if (s->ops->copy)
		sink_finish(s, &why);
	ret = s->ops->end(s, &why);
	if (!s->failed && ret)
		s->failed = ret;
	if (fflush(s->out) && !s->failed)
		s->failed = -errno;
	lost = look_at_name(s, &why);
	if (fclose(s->out) && !s->failed)
		s->failed = -errno;
	s->out = NULL;
	if (lost)
		s->failed = lost;
	if (s->failed && s->is_whole)
		s->lacking = sink_taken(s) - s->copied;
	else if (s->failed && s->ops->copy && !(s->ops->needs & SINK_IS_LINES))
		s->lacking = sink_taken(s);
	note_lacking(s);
	if (s->ops->copy && s->folder >= 0)
		outfile_clean(s->folder, base_name(s->path));
	sink_free(s);
	if (!s->failed)
		return 0;
	if (s->failed == -ETIMEDOUT)
		return err_set(err, s->failed, "who reads %s has stopped reading",
			       sink_called(s));
	if (why.code == s->failed && *why.text)
		return err_set(err, s->failed, "%s", why.text);
	return err_set(err, s->failed, "writing %s: %s", sink_called(s), strerror(-s->failed));
}
