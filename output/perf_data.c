/* SPDX-License-Identifier: MIT
 *
 * perf_data - a recording that perf, hotspot, samply and their like open.
 *
 * Python frames are addresses in a synthetic ELF file (pyelf), which is written
 * beside the recording. docs/PERF_DATA.md says what is written and why.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/base.h"
#include "base/stats.h"
#include "outfile.h"
#include "perf_file.h"
#include "perf_records.h"
#include "sink.h"

enum {
	FLUSH_BYTES = 256 * 1024,
	PATCH_MS = 200,		/* a recording that is killed loses no more */
	ROOM_BYTES = 16 * 1024, /* for the features, when the disk is full */
	PAGE_BYTES = 4096,	/* what a file system takes at least */
	PYELF_FIRST = 1,	/* functions that make the first copy of the symbol file */
};

struct perf_data {
	int fd;
	bool regular; /* a regular file: it has a symbol file, and can be cut */
	struct perf_records rec;
	uint64_t start, n;  /* where records start in the file, and how many bytes */
	struct buf marks;   /* u64 each: values of @n on the way, where it may end */
	uint64_t next_mark; /* the value of @n from which on there is another */
	uint64_t patched_ms;
	uint64_t first_ns, last_ns;
	size_t unlined;	   /* functions that are counted as such */
	size_t pyelf_next; /* functions that make the next copy */
	char *pyelf_path;
	int pyelf_folder; /* where PYELF_NAME is; -1: it has none */
};

static const uint64_t no_features[PERF_FILE_BITS / 64];

static int fail(struct sink *s, int ret)
{
	if (ret && !s->failed)
		s->failed = ret;
	return ret;
}

static int flush(struct sink *s)
{
	struct perf_data *d = s->priv;
	size_t done;
	int ret;

	if (s->failed)
		return s->failed;
	ret = buf_pwrite(&d->rec.buf, d->fd, d->start + d->n, &done);
	d->n += ret ? perf_records_whole(&d->rec.buf, done) : done;
	d->rec.buf.n = 0;
	if (d->n > d->next_mark) { /* sparser as it grows */
		buf_u64(&d->marks, d->n);
		d->next_mark = d->n + MAX((uint64_t)PAGE_BYTES, d->n / 64);
	}
	return fail(s, ret);
}

static int patch_head(struct sink *s, const uint64_t bits[PERF_FILE_BITS / 64])
{
	struct perf_data *d = s->priv;
	struct buf head = {};
	int ret;

	perf_file_head(&head, s->session, d->n, bits);
	d->start = head.n;
	ret = buf_pwrite(&head, d->fd, 0, NULL);
	buf_deinit(&head);
	return ret;
}

static int write_pyelf(struct perf_data *d)
{
	_cleanup_close_ int fd = pyelf_new_file(d->pyelf_folder);
	int ret;

	if (fd < 0)
		return fd;
	ret = pyelf_write(d->rec.pyelf, fd);
	if (ret)
		unlinkat(d->pyelf_folder, PYELF_NAME, 0);
	return ret;
}

/* OUT.pyframes/pyframes.so, absolute: perf diff pairs functions of files that are called
 * alike. */
static int name_pyelf(struct perf_data *d, const char *out)
{
	const char *base = strrchr(out, '/');
	char dir[PATH_MAX], real[PATH_MAX];
	int n;

	base = base ? base + 1 : out;
	n = snprintf(dir, sizeof(dir), "%.*s.", (int)(base - out), out);
	if (n >= (int)sizeof(dir))
		return -ENAMETOOLONG;
	if (!realpath(dir, real))
		return -errno;
	n = asprintf(&d->pyelf_path, "%s/%s" PYELF_BESIDE, strcmp(real, "/") ? real : "",
		     base);
	if (n < 0)
		d->pyelf_path = NULL;
	return n < 0 ? -ENOMEM : n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* What follows every record: @ret is how it went. */
static int recorded(struct sink *s, int ret)
{
	struct perf_data *d = s->priv;

	if (ret)
		return fail(s, ret);
	return d->rec.buf.n < FLUSH_BYTES ? 0 : flush(s);
}

static int perf_data_side(struct sink *s, const struct side *side)
{
	struct perf_data *d = s->priv;

	return s->failed ? s->failed : recorded(s, perf_records_side(&d->rec, side));
}

static int perf_data_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct perf_data *d = s->priv;
	bool cut = false;
	int ret;

	if (s->failed)
		return s->failed;
	ret = recorded(s, perf_records_sample(&d->rec, smp, stk, &cut));
	if (ret)
		return ret;
	d->first_ns = s->samples ? MIN(d->first_ns, smp->time) : smp->time;
	d->last_ns = MAX(d->last_ns, smp->time);
	s->samples++;
	s->cut += cut;
	return 0;
}

static void count_unlined(struct sink *s)
{
	struct perf_data *d = s->priv;
	size_t n = pyelf_unlined(d->rec.pyelf);

	if (n > d->unlined)
		STATS_ADD(s->session->stats, unlined, n - d->unlined);
	d->unlined = n;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Keep the file such that it can be read if we are killed now. */
static int perf_data_round(struct sink *s)
{
	struct perf_data *d = s->priv;
	uint64_t now = now_ms();
	int ret = s->failed;

	if (!ret)
		ret = recorded(s, perf_records_round(&d->rec));
	if (ret || now - d->patched_ms < PATCH_MS)
		return ret;
	d->patched_ms = now;
	count_unlined(s);
	ret = flush(s);
	if (!ret)
		ret = fail(s, patch_head(s, no_features));
	if (!ret && d->regular && pyelf_count(d->rec.pyelf) >= d->pyelf_next) {
		d->pyelf_next = 2 * pyelf_count(d->rec.pyelf);
		ret = fail(s, write_pyelf(d));
	}
	return ret;
}

static int begin_kernel_map(void *ctx, const struct perf_kernel_map *map)
{
	struct sink *s = ctx;
	struct perf_data *d = s->priv;

	return recorded(s, perf_records_kernel(&d->rec, map));
}

/* Without the kernel's map perf warns when an event may sample the kernel. */
static bool wants_kernel(const struct session *session)
{
	bool ret = session->flags & SESSION_KERNEL;

	for (size_t i = 0; i < session->n_events; i++)
		ret |= !session->events[i].attr.exclude_kernel;
	return ret;
}

static void perf_data_free(struct perf_data *d)
{
	perf_records_deinit(&d->rec);
	buf_deinit(&d->marks);
	free(d->pyelf_path);
	if (d->pyelf_folder >= 0)
		close(d->pyelf_folder);
}

static int begin_file(struct sink *s)
{
	struct perf_data *d = s->priv;
	const char *slash = strrchr(s->path, '/');
	struct stat st;
	int ret;

	d->fd = fileno(s->out);
	d->regular = !fstat(d->fd, &st) && S_ISREG(st.st_mode);
	d->pyelf_next = PYELF_FIRST;
	d->pyelf_folder = -1;
	ret = name_pyelf(d, s->path);
	if (!ret && d->regular)
		ret = d->pyelf_folder =
			outfile_beside(s->folder, slash ? slash + 1 : s->path, PYELF_BESIDE);
	if (ret < 0)
		return ret;
	ret = perf_records_init(&d->rec, s->session, d->pyelf_path);
	return ret ? ret : patch_head(s, no_features);
}

static int perf_data_begin(struct sink *s, struct err *err)
{
	int ret = begin_file(s);

	if (!ret && wants_kernel(s->session))
		ret = perf_kernel_maps(begin_kernel_map, s);
	if (!ret)
		ret = flush(s);
	if (!ret)
		return 0;
	perf_data_free(s->priv);
	if (ret == -ESPIPE)
		return err_set(err, ret, "%s is a pipe: the format perf needs a file",
			       s->path);
	return err_set(err, ret, "writing %s: %s", s->path, strerror(-ret));
}

/* End the recording at an earlier mark, an eighth before where it ends. False: it can't. */
static bool give_back(struct perf_data *d)
{
	uint64_t most = d->n - d->n / 8, best = 0;

	for (size_t i = 0; i < d->marks.n; i += 8) {
		uint64_t mark = load_u64(d->marks.at + i);

		if (mark < d->n && mark <= most)
			best = mark;
	}
	if (!best)
		return false;
	d->n = best;
	return ftruncate(d->fd, (off_t)(d->start + d->n)) == 0;
}

static bool is_full(int ret)
{
	return ret == -ENOSPC || ret == -EDQUOT || ret == -EFBIG;
}

/* Would there be room for the symbols if all records were given back? */
static bool can_have_room(const struct perf_data *d)
{
	struct statvfs fs;

	return !fstatvfs(d->fd, &fs) && (uint64_t)fs.f_bavail * fs.f_frsize + d->n >
						pyelf_size(d->rec.pyelf) + PAGE_BYTES;
}

/* Where the disk is full, the last records are given back for the symbols, as many as it
 * takes: without them a record of Python says nothing. */
static int write_last_pyelf(struct sink *s)
{
	struct perf_data *d = s->priv;
	int first = write_pyelf(d), ret = first;

	while (is_full(ret) && can_have_room(d) && give_back(d))
		ret = write_pyelf(d);
	if (first && !ret)
		fail(s, first); /* the recording ends early */
	return ret;
}

/* Append the symbol file to the recording, at @off. */
static int embed_pyelf(const struct perf_data *d, uint64_t off)
{
	_cleanup_close_ int in = openat(d->pyelf_folder, PYELF_NAME, O_RDONLY | O_CLOEXEC);
	struct buf block = {};
	int ret = in < 0 ? -errno : 0;

	buf_zero(&block, FLUSH_BYTES);
	while (!ret && !block.oom) {
		ssize_t n = read(in, block.at, block.cap);

		if (n <= 0) {
			ret = n ? -errno : 0;
			break;
		}
		block.n = (size_t)n;
		ret = buf_pwrite(&block, d->fd, off, NULL);
		off += block.n;
	}
	if (block.oom)
		ret = -ENOMEM;
	buf_deinit(&block);
	return ret;
}

/* Features after the records, then the header that tells of them. */
static int write_features(struct sink *s, uint64_t pyelf_n)
{
	struct perf_data *d = s->priv;
	struct perf_file_facts facts = { d->first_ns, d->last_ns, &d->rec.build_ids, pyelf_n };
	uint64_t bits[PERF_FILE_BITS / 64], at = d->start + d->n;
	struct buf b = {};
	int ret;

	perf_file_features(&b, at, s->session, &facts, bits);
	ret = buf_pwrite(&b, d->fd, at, NULL);
	if (!ret && pyelf_n)
		ret = embed_pyelf(d, at + b.n);
	buf_deinit(&b);
	return ret ? ret : patch_head(s, bits);
}

/* The best end that the disk has room for: records are given back for features, and for a copy
 * of the symbols where that costs a small part of them. */
static int write_end(struct sink *s, uint64_t pyelf_n)
{
	struct perf_data *d = s->priv;
	int first = write_features(s, pyelf_n), ret = first;

	while (is_full(ret)) {
		bool copy = pyelf_n && 4 * pyelf_n < d->n;

		if (ftruncate(d->fd, (off_t)(d->start + d->n)) || (copy && !give_back(d)))
			break;
		ret = write_features(s, copy ? pyelf_n : 0);
		if (is_full(ret) && !copy && !give_back(d))
			break;
	}
	if (ret)
		patch_head(s, no_features);
	return first;
}

static int perf_data_end(struct sink *s, struct err *err)
{
	struct perf_data *d = s->priv;
	struct stat st = {};
	int ret = flush(s), pyelf = 0;

	count_unlined(s);
	if (d->regular) {
		if (ret) /* of a record that is half written */
			ret = ftruncate(d->fd, (off_t)(d->start + d->n));
		pyelf = write_last_pyelf(s);
		if (!pyelf && !fstatat(d->pyelf_folder, PYELF_NAME, &st, 0))
			buildid_cache_add(d->pyelf_path, d->rec.id);
	}
	fail(s, write_end(s, (uint64_t)st.st_size));
	fail(s, pyelf);
	if (pyelf)
		err_set(err, s->failed,
			"writing %s: %s: the names of Python functions are lost",
			d->pyelf_path, strerror(-pyelf));
	else if (s->failed && d->regular)
		err_set(err, s->failed,
			"writing %s: %s: the recording ends early; its Python functions have "
			"their names",
			s->path, strerror(-s->failed));
	perf_data_free(d);
	return s->failed;
}

static const char *const extensions[] = { ".data", NULL };

const struct sink_ops sink_perf_data = {
	.name = "perf",
	.extensions = extensions,
	.beside = PYELF_BESIDE,
	.next = "perf report -i ",
	.help = "perf.data, for perf, hotspot, samply and others",
	.needs = SINK_NEEDS_FILE | SINK_NEEDS_IDS,
	.priv_size = sizeof(struct perf_data),
	.begin = perf_data_begin,
	.side = perf_data_side,
	.sample = perf_data_sample,
	.round = perf_data_round,
	.end = perf_data_end,
};
