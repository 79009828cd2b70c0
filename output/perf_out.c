/* SPDX-License-Identifier: MIT
 *
 * perf_out - writes whole records, and knows where a recording can end.
 */
#include "perf_out.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include "base/base.h"

enum { PAGE_BYTES = 4096 /* what a file system takes at least */ };

int perf_out_init(struct perf_out *o, int fd, bool stream, int level)
{
	*o = (struct perf_out){ .fd = fd, .stream = stream };
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
static int write_stream(int fd, const struct buf *b, size_t *done)
{
	size_t at = 0;

	while (at < b->n) {
		ssize_t n = write(fd, b->at + at, b->n - at);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
		*done = at;
	}
	return b->oom ? -ENOMEM : 0;
}

int perf_out_bytes(struct perf_out *o, const struct buf *b, uint64_t at)
{
	size_t done = 0;

	return o->stream ? write_stream(o->fd, b, &done) : buf_pwrite(b, o->fd, at, NULL);
}

size_t perf_out_whole(const struct buf *b, size_t n)
{
	struct perf_event_header h;
	size_t at = 0;

	for (; at + sizeof(h) <= n; at += h.size) {
		memcpy(&h, b->at + at, sizeof(h));
		if (h.size > n - at)
			break;
	}
	return at;
}

int perf_out_plain(struct perf_out *o, struct buf *b)
{
	size_t done = 0;
	int ret = o->stream ? write_stream(o->fd, b, &done) :
			      buf_pwrite(b, o->fd, o->start + o->n, &done);

	o->n += ret ? perf_out_whole(b, done) : done;
	b->n = 0;
	if (!o->stream && o->n > o->next_mark) { /* sparser as it grows */
		buf_u64(&o->marks, o->n);
		o->next_mark = o->n + MAX((uint64_t)PAGE_BYTES, o->n / 64);
	}
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
