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

static bool is_sample(const struct buf *b, size_t at)
{
	struct perf_event_header h;

	memcpy(&h, b->at + at, sizeof(h));
	return h.type == PERF_RECORD_SAMPLE;
}

static uint64_t samples_in(const struct buf *b)
{
	uint64_t n = 0;

	for (size_t at = 0, end; (end = end_of(b, at, b->n)); at = end)
		n += is_sample(b, at);
	return n;
}

/* A file may end here. Sparser as it grows. */
static void mark(struct perf_out *o)
{
	if (o->stream || o->n <= o->next_mark)
		return;
	buf_u64(&o->marks, o->n);
	buf_u64(&o->marks, o->n_samples);
	o->next_mark = o->n + MAX((uint64_t)PAGE_BYTES, o->n / 64);
}

/* The first @n bytes of @b are written: whole records count. */
static void count(struct perf_out *o, const struct buf *b, size_t n)
{
	for (size_t at = 0, end; (end = end_of(b, at, n)); at = end) {
		o->n += end - at;
		o->n_samples += is_sample(b, at);
		mark(o);
	}
}

/* Behind what there is; *@done is how much got there. */
static int append(const struct perf_out *o, const struct buf *b, size_t *done)
{
	*done = 0;
	return o->stream ? write_stream(o, b, done) :
			   buf_pwrite(b, o->fd, o->start + o->n, done);
}

int perf_out_plain(struct perf_out *o, struct buf *b)
{
	uint64_t before = o->n;
	size_t done;
	int ret = append(o, b, &done);

	count(o, b, ret ? done : b->n);
	if (!ret) /* the head of a stream is no record */
		o->n = before + b->n;
	b->n = 0;
	return ret;
}

/* A packed record must not be the last of those that were packed together. */
static int write_packed(struct perf_out *o, uint64_t n_samples)
{
	size_t done;
	int ret = append(o, &o->packed, &done);

	if (!ret) {
		o->n += o->packed.n;
		o->n_samples += n_samples;
		mark(o);
	}
	o->packed.n = 0;
	return ret;
}

int perf_out_records(struct perf_out *o, struct buf *records)
{
	uint64_t n;
	int ret;

	if (!o->packer)
		return perf_out_plain(o, records);
	n = samples_in(records);
	ret = perf_pack(o->packer, records, &o->packed);
	records->n = 0;
	return ret ? ret : write_packed(o, n);
}

int perf_out_cut(struct perf_out *o)
{
	return ftruncate(o->fd, (off_t)(o->start + o->n)) ? -errno : 0;
}

bool perf_out_give_back(struct perf_out *o)
{
	uint64_t most = o->n - o->n / 8, best = 0, n_samples = 0;

	for (size_t i = 0; i + 16 <= o->marks.n; i += 16) {
		uint64_t end = load_u64(o->marks.at + i);

		if (end < o->n && end <= most) {
			best = end;
			n_samples = load_u64(o->marks.at + i + 8);
		}
	}
	if (!best)
		return false;
	o->n = best;
	o->n_samples = n_samples;
	return perf_out_cut(o) == 0;
}
