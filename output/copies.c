/* SPDX-License-Identifier: MIT
 *
 * copies - writes a file anew beside the old one, which it then replaces.
 */
#include "copies.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio_ext.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/clock.h"
#include "outfile.h"

enum { FIRST_MS = 250, SHARE = 50, /* one part in so many of the time */ MS = 1000000 };

/* Where @s's file can be replaced: whoever holds it under another name keeps the old one,
 * whose it is stays, and what somebody else put in its place is not ours to replace. */
static bool is_replaceable(const struct sink *s, struct stat *st)
{
	return s->folder >= 0 && fstat(s->fd, st) == 0 && S_ISREG(st->st_mode) &&
	       st->st_nlink == 1 && st->st_uid == geteuid() &&
	       outfile_named(s->folder, base_name(s->path), s->fd) != -EEXIST;
}

/* All that is known so far, into @out. */
static int write_to(struct sink *s, FILE *out)
{
	FILE *own = s->out;
	int ret;

	s->out = out;
	errno = 0;
	ret = s->ops->copy(s);
	if (!ret && (fflush(out) || ferror(out)))
		ret = errno ? -errno : -EIO;
	s->out = own;
	return ret;
}

static off_t size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_size;
}

/* What was written into @out, @fd, under the name @fresh, becomes the file. */
static int take_place(struct sink *s, const char *fresh, const struct stat *old, FILE *out,
		      int fd)
{
	if (fchmod(fd, old->st_mode & 07777) ||
	    renameat(s->folder, fresh, s->folder, base_name(s->path)))
		return -errno;
	__fpurge(s->out);
	fclose(s->out);
	s->out = out;
	s->fd = fd;
	s->copied = s->samples;
	s->is_whole = true;
	return 0;
}

/* *@got: the bytes of a copy that there was room for; -1: none was begun. */
static int replace(struct sink *s, off_t *got)
{
	char fresh[NAME_MAX + 1];
	struct stat old;
	FILE *out;
	int fd, ret;

	*got = -1;
	if (!is_replaceable(s, &old))
		return -EPERM;
	fd = outfile_fresh(s->folder, base_name(s->path), old.st_mode & 0777, fresh);
	if (fd < 0)
		return fd;
	out = fdopen(fd, "w");
	if (!out) {
		ret = -errno;
		close(fd);
		unlinkat(s->folder, fresh, 0);
		return ret;
	}
	setvbuf(out, s->buffer, _IOFBF, SINK_BUFFER); /* the other one has nothing in it */
	ret = write_to(s, out);
	*got = size_of(fd);
	if (!ret)
		ret = take_place(s, fresh, &old, out, fd);
	if (!ret)
		return 0;
	__fpurge(out);
	fclose(out);
	unlinkat(s->folder, fresh, 0);
	return ret;
}

int copies_round(struct sink *s)
{
	uint64_t began, took, step = s->session->copy_ms * (uint64_t)MS;
	off_t got;
	int ret;

	if (!step || s->failed || s->samples == s->copied)
		return 0;
	began = now_ns();
	if (began < s->copy_due)
		return 0;
	ret = replace(s, &got);
	took = now_ns() - began;
	s->copy_step = MIN(step, MAX(2 * s->copy_step, (uint64_t)FIRST_MS * MS));
	s->copy_due = began + MAX(s->copy_step, SHARE * took);
	return ret == -ENOMEM ? ret : 0;
}

static ssize_t count_bytes(void *n, const char *at, size_t bytes)
{
	*(off_t *)n += (off_t)bytes;
	return (ssize_t)bytes;
}

/* How large the file will be; 0: that can't be known. */
static off_t needed(struct sink *s)
{
	const cookie_io_functions_t counter = { .write = count_bytes };
	off_t n = 0;
	FILE *out = fopencookie(&n, "w", counter);
	int ret = out ? write_to(s, out) : -ENOMEM;

	if (out)
		fclose(out);
	return ret ? 0 : n;
}

static int in_place(struct sink *s)
{
	s->is_whole = false;
	if (s->folder >= 0 && size_of(s->fd) && ftruncate(s->fd, 0) == 0)
		rewind(s->out);
	return write_to(s, s->out);
}

int copies_last(struct sink *s, struct err *err)
{
	off_t got, need;
	int ret = replace(s, &got);

	if (!ret)
		return 0;
	if (!s->is_whole || got < 0)
		return in_place(s);
	need = needed(s);
	if (need && need <= got + size_of(s->fd))
		return in_place(s);
	return err_set(err, ret,
		       "writing %s: %s; it has the first %" PRIu64 " of %" PRIu64 " samples",
		       s->path, strerror(-ret), s->copied, sink_taken(s));
}
