/* SPDX-License-Identifier: MIT
 *
 * perf_out - writes whole records, and knows where a recording can end.
 */
#include "perf_out.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include "base/base.h"
#include "stream.h"

enum { PAGE_BYTES = 4096 }; /* what a file system takes at least */

int perf_out_init(struct perf_out *o, int fd, bool stream, const struct stop *stop, int level)
{
	*o = (struct perf_out){ .fd = fd, .stream = stream, .stop = stop };
	if (level)
		o->packer = perf_packer_create(level);
	return level && !o->packer ? -ENOMEM : 0;
}

void perf_out_deinit(struct perf_out *o)
{
	perf_packer_destroy(o->packer);
	buf_deinit(&o->packed);
	buf_deinit(&o->marks);
}

/* All of it down a pipe; *@done is how much went. */
static int write_stream(const struct perf_out *o, const struct buf *b, size_t *done)
{
	int ret = stream_write(o->fd, o->stop, b->at, b->n, done);

	return !ret && b->oom ? -ENOMEM : ret;
}

int perf_out_bytes(struct perf_out *o, const struct buf *b, uint64_t at)
{
	size_t done = 0;

	return o->stream ? write_stream(o, b, &done) : buf_pwrite(b, o->fd, at, NULL);
}

/* Where the record at @at of the first @n bytes of @b ends; 0: it is not whole. */
static size_t end_of(const struct buf *b, size_t at, size_t n)
{
	struct perf_event_header h;

	if (n - at < sizeof(h))
		return 0;
	memcpy(&h, b->at + at, sizeof(h));
	return h.size < sizeof(h) || h.size > n - at ? 0 : at + h.size;
}

/* How many of the first @n bytes of @b are whole records. */
static size_t whole(const struct buf *b, size_t n)
{
	size_t at = 0;

	for (size_t end; (end = end_of(b, at, n)); at = end)
		;
	return at;
}

/* Sparser as it grows. */
static void mark(struct perf_out *o, uint64_t end)
{
	if (end <= o->next_mark)
		return;
	buf_u64(&o->marks, end);
	o->next_mark = end + MAX((uint64_t)PAGE_BYTES, end / 64);
}

/* @n bytes of whole records are written, behind @o->n others. A packed one must not be the
 * last of those that were packed together. */
static void mark_ends(struct perf_out *o, const struct buf *b, size_t n)
{
	for (size_t end = 0; !o->packer && (end = end_of(b, end, n));)
		mark(o, o->n + end);
	mark(o, o->n + n);
}

int perf_out_plain(struct perf_out *o, struct buf *b)
{
	size_t done = 0;
	int ret = o->stream ? write_stream(o, b, &done) :
			      buf_pwrite(b, o->fd, o->start + o->n, &done);

	if (ret)
		done = whole(b, done);
	if (!o->stream)
		mark_ends(o, b, done);
	o->n += done;
	b->n = 0;
	return ret;
}

int perf_out_records(struct perf_out *o, struct buf *records)
{
	int ret;

	if (!o->packer)
		return perf_out_plain(o, records);
	ret = perf_pack(o->packer, records, &o->packed);
	records->n = 0;
	return ret ? ret : perf_out_plain(o, &o->packed);
}

int perf_out_cut(struct perf_out *o)
{
	return ftruncate(o->fd, (off_t)(o->start + o->n)) ? -errno : 0;
}

bool perf_out_give_back(struct perf_out *o)
{
	uint64_t most = o->n - o->n / 8, best = 0;

	for (size_t i = 0; i < o->marks.n; i += 8) {
		uint64_t mark = load_u64(o->marks.at + i);

		if (mark < o->n && mark <= most)
			best = mark;
	}
	if (!best)
		return false;
	o->n = best;
	return perf_out_cut(o) == 0;
}
