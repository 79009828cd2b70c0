/* SPDX-License-Identifier: MIT
 *
 * perf_data - a recording that perf, hotspot, samply and their like open.
 *
 * Python frames are addresses in a synthetic ELF file (pyelf), which is written
 * beside the recording. docs/PERF_DATA.md says what is written and why.
 */
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/base.h"
#include "base/stats.h"
#include "comms.h"
#include "outfile.h"
#include "perf_file.h"
#include "perf_out.h"
#include "perf_records.h"
#include "sink.h"

enum {
	FLUSH_BYTES = 256 * 1024,
	PATCH_MS = 200,		/* a recording that is killed loses no more */
	ROOM_BYTES = 16 * 1024, /* for the features, when the disk is full */
	PAGE_BYTES = 4096,	/* what a file system takes at least */
	PYELF_FIRST = 1,	/* functions that make the first copy of the symbol file */
	SYMBOLS_LEAST = 8 * PAGE_BYTES, /* of a symbol file */
};

struct perf_data {
	struct perf_out out;
	bool has_symbols; /* it goes where readers can have a symbol file */
	struct perf_records rec;
	uint64_t patched_ms;
	uint64_t first_ns, last_ns;
	size_t unlined;	   /* functions that are counted as such */
	size_t pyelf_next; /* functions that make the next copy */
	/* u64 each: behind how many bytes of records the function or marker was met first. */
	struct buf met;
	bool early; /* records are missing at the end */
	char *pyelf_path;
	const char *pyelf_name; /* the symbol file's, in @pyelf_folder */
	int pyelf_folder;
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

	if (!s->failed)
		fail(s, perf_out_records(&d->out, &d->rec.buf));
	return s->failed;
}

static int patch_head(struct sink *s, const uint64_t bits[PERF_FILE_BITS / 64])
{
	struct perf_data *d = s->priv;
	struct buf head = {};
	int ret;

	if (d->out.stream)
		return 0;
	perf_file_head(&head, s->session, d->out.n, bits);
	d->out.start = head.n;
	ret = perf_out_bytes(&d->out, &head, 0);
	buf_deinit(&head);
	return ret;
}

static int write_pyelf(struct perf_data *d)
{
	_cleanup_close_ int fd = pyelf_new_file(d->pyelf_folder, d->pyelf_name);
	int ret;

	if (fd < 0)
		return fd;
	ret = pyelf_write(d->rec.pyelf, fd);
	if (ret)
		unlinkat(d->pyelf_folder, d->pyelf_name, 0);
	return ret;
}

/* OUT.pyframes/pyframes.so, absolute: perf diff pairs functions of files that are called
 * alike. */
static int name_pyelf(struct perf_data *d, const char *out)
{
	const char *base = base_name(out);
	char dir[PATH_MAX], real[PATH_MAX];
	int n = snprintf(dir, sizeof(dir), "%.*s.", (int)(base - out), out);

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

	if (comms_elsewhere(s->session, side))
		STATS_ADD(s->session->stats, elsewhere, 1);
	return s->failed ? s->failed : recorded(s, perf_records_side(&d->rec, side));
}

/* What is new among functions and markers was met by a record behind @at bytes of others. */
static void note_met(struct perf_data *d, uint64_t at)
{
	while (d->met.n / 8 < pyelf_count(d->rec.pyelf) && !d->met.oom)
		buf_u64(&d->met, at);
}

static int perf_data_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct perf_data *d = s->priv;
	uint64_t at = d->out.n + (d->out.packer ? 0 : d->rec.buf.n);
	bool cut = false;
	int ret;

	if (s->failed)
		return s->failed;
	ret = perf_records_sample(&d->rec, smp, stk, &cut);
	note_met(d, at);
	ret = recorded(s, ret);
	if (ret)
		return ret;
	d->first_ns = s->samples ? MIN(d->first_ns, smp->time) : smp->time;
	d->last_ns = MAX(d->last_ns, smp->time);
	s->samples++;
	s->cut += cut;
	return 0;
}

static void count_lacks(struct sink *s)
{
	struct perf_data *d = s->priv;
	size_t n = pyelf_unlined(d->rec.pyelf);

	if (n > d->unlined)
		STATS_ADD(s->session->stats, unlined, n - d->unlined);
	d->unlined = n;
	if (d->rec.n_elided)
		STATS_ADD(s->session->stats, elided, d->rec.n_elided);
	d->rec.n_elided = 0;
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

	if (!ret && !d->out.stream) /* a stream's reader has names when all is there */
		ret = recorded(s, perf_records_round(&d->rec));
	if (ret || now - d->patched_ms < PATCH_MS)
		return ret;
	d->patched_ms = now;
	count_lacks(s);
	ret = flush(s);
	if (!ret)
		ret = fail(s, patch_head(s, no_features));
	if (!ret && d->has_symbols && pyelf_count(d->rec.pyelf) >= d->pyelf_next) {
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

static void perf_data_free(struct perf_data *d)
{
	perf_records_deinit(&d->rec);
	perf_out_deinit(&d->out);
	buf_deinit(&d->met);
	free(d->pyelf_path);
	if (d->pyelf_folder >= 0)
		close(d->pyelf_folder);
}

/* Beside the recording, or where perf looks for it. */
static int begin_symbols(struct sink *s)
{
	struct perf_data *d = s->priv;
	int ret = 0;

	d->pyelf_next = PYELF_FIRST;
	if (d->out.stream) {
		d->pyelf_name = BUILDID_CACHE_FILE;
		d->pyelf_path = strdup("/" PYELF_NAME);
		return d->pyelf_path ? 0 : -ENOMEM;
	}
	d->pyelf_name = PYELF_NAME;
	ret = name_pyelf(d, s->path);
	if (!ret && d->has_symbols)
		ret = d->pyelf_folder =
			outfile_beside(s->folder, base_name(s->path), PYELF_BESIDE);
	return MIN(ret, 0);
}

/* What stands before the records, and of those what tells how the others are packed: it must
 * be known although the recording is killed, or sent. */
static int begin_head(struct sink *s)
{
	struct perf_data *d = s->priv;
	struct buf head = {};
	int ret = patch_head(s, no_features);

	if (d->out.stream)
		perf_file_stream(&head, s->session);
	if (d->out.packer)
		perf_file_packed(&head, s->session);
	if (!ret)
		ret = perf_out_plain(&d->out, &head);
	buf_deinit(&head);
	return ret;
}

static int begin_file(struct sink *s)
{
	struct perf_data *d = s->priv;
	/* What has no name has no place for its symbols beside it. */
	bool stream = s->folder < 0 || (lseek(s->fd, 0, SEEK_CUR) < 0 && errno == ESPIPE);
	struct stat st;
	int ret;

	d->pyelf_folder = -1;
	d->has_symbols = stream || (!fstat(s->fd, &st) && S_ISREG(st.st_mode));
	ret = perf_out_init(&d->out, s->fd, stream, s->session->stop, s->session->compress);
	if (!ret)
		ret = begin_symbols(s);
	if (!ret)
		ret = perf_records_init(&d->rec, s->session, d->pyelf_path, stream);
	if (!ret && stream)
		ret = d->pyelf_folder = buildid_cache_place(d->pyelf_path, d->rec.id);
	return ret < 0 ? ret : begin_head(s);
}

static int perf_data_begin(struct sink *s, struct err *err)
{
	struct perf_data *d = s->priv;
	int ret;

	ret = begin_file(s);
	if (!ret && perf_kernel_is_wanted(s->session))
		ret = perf_kernel_maps(begin_kernel_map, s);
	if (!ret && !d->out.stream) /* perf takes no file without records, if we end now */
		ret = recorded(s, perf_records_round(&d->rec));
	if (!ret)
		ret = flush(s);
	if (!ret)
		return 0;
	if (d->out.stream && d->pyelf_folder < 0)
		err_set(err, ret,
			"perf finds the names of a stream in ~/.debug only, where this could "
			"not be written: %s; set HOME, or write to a file",
			strerror(-ret));
	else
		err_set(err, ret, "writing %s: %s", s->path, strerror(-ret));
	perf_data_free(d);
	return ret;
}

static bool is_full(int ret)
{
	return ret == -ENOSPC || ret == -EDQUOT || ret == -EFBIG;
}

/* True: there would be room for some symbols if nearly all records were given back. */
static bool can_have_room(const struct perf_data *d)
{
	struct statvfs fs;

	return !fstatvfs(d->out.fd, &fs) &&
	       (uint64_t)fs.f_bavail * fs.f_frsize + d->out.n > SYMBOLS_LEAST;
}

/* Give the last records back, and what only they have met. */
static bool give_back(struct perf_data *d)
{
	size_t n = 0;

	if (!perf_out_give_back(&d->out))
		return false;
	d->early = true;
	while (n < d->met.n / 8 && load_u64(d->met.at + 8 * n) < d->out.n)
		n++;
	if (n < d->met.n / 8)
		pyelf_cut(d->rec.pyelf, n);
	return true;
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

static int copy_file(int in, int out, uint64_t off, uint64_t *n)
{
	struct buf block = {};
	int ret = 0;

	*n = 0;
	buf_zero(&block, FLUSH_BYTES);
	while (!ret && !block.oom) {
		ssize_t got = read(in, block.at, block.cap);

		if (got <= 0) {
			ret = got ? -errno : 0;
			break;
		}
		block.n = (size_t)got;
		ret = buf_pwrite(&block, out, off + *n, NULL);
		*n += block.n;
	}
	if (block.oom)
		ret = -ENOMEM;
	buf_deinit(&block);
	return ret;
}

/* Append the symbol file to the recording, which is @off bytes. */
static int embed_pyelf(const struct sink *s, uint64_t off)
{
	const struct perf_data *d = s->priv;
	_cleanup_close_ int in = openat(d->pyelf_folder, d->pyelf_name, O_RDONLY | O_CLOEXEC);
	struct buf tail = {};
	uint64_t n;
	int ret = in < 0 ? -errno : 0;

	if (!ret)
		ret = d->out.packer ?
			      perf_pack_file(in, d->out.fd, off, s->session->compress, &n) :
			      copy_file(in, d->out.fd, off, &n);
	if (ret)
		return ret;
	perf_file_tail(&tail, off, n);
	ret = buf_pwrite(&tail, d->out.fd, off + n, NULL);
	buf_deinit(&tail);
	return ret;
}

/* Features after the records, then the header that tells of them. */
static int write_features(struct sink *s, uint64_t pyelf_n)
{
	struct perf_data *d = s->priv;
	struct perf_file_facts facts = {
		.first_ns = d->first_ns,
		.last_ns = d->last_ns,
		.build_ids = &d->rec.build_ids,
		.ratio = d->out.packer ? perf_packer_ratio(d->out.packer) : 0,
	};
	uint64_t bits[PERF_FILE_BITS / 64], at = d->out.start + d->out.n;
	struct buf b = {};
	int ret;

	perf_file_features(&b, at, s->session, &facts, bits);
	ret = buf_pwrite(&b, d->out.fd, at, NULL);
	if (!ret && pyelf_n)
		ret = embed_pyelf(s, at + b.n);
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
		bool copy = pyelf_n && 4 * pyelf_n < d->out.n;

		if (perf_out_cut(&d->out) || (copy && !give_back(d)))
			break;
		ret = write_features(s, copy ? pyelf_n : 0);
		if (is_full(ret) && !copy && !give_back(d))
			break;
	}
	if (ret)
		patch_head(s, no_features);
	return first;
}

/* The symbol file is there before a stream ends, for its reader looks for it then. */
static int end_symbols(struct sink *s)
{
	struct perf_data *d = s->priv;
	int ret;

	count_lacks(s);
	if (!d->has_symbols)
		return 0;
	ret = d->out.stream ? write_pyelf(d) : write_last_pyelf(s);
	if (!ret && !d->out.stream && !s->session->no_cache)
		buildid_cache_add(d->pyelf_path, d->rec.id);
	return ret;
}

static void end_file(struct sink *s, int pyelf)
{
	struct perf_data *d = s->priv;
	struct stat st = {};

	if (!pyelf && d->has_symbols && fstatat(d->pyelf_folder, d->pyelf_name, &st, 0))
		st.st_size = 0;
	fail(s, write_end(s, (uint64_t)st.st_size));
}

static int perf_data_end(struct sink *s, struct err *err)
{
	struct perf_data *d = s->priv;
	char what_lacks[100] = "it has no copy of its symbols for other machines";
	int ret = 0, pyelf;

	if (!d->out.stream)
		ret = flush(s);
	d->early = s->failed;
	if (ret && d->has_symbols) /* of a record that is half written */
		perf_out_cut(&d->out);
	pyelf = end_symbols(s);
	if (d->out.stream)
		flush(s);
	else
		end_file(s, pyelf);
	fail(s, pyelf);
	if (d->early && !d->out.stream)
		s->lacking = sink_taken(s) - d->out.n_samples;
	if (d->early)
		snprintf(what_lacks, sizeof(what_lacks),
			 "it has the first %" PRIu64 " of %" PRIu64 " samples",
			 d->out.n_samples, sink_taken(s));
	if (pyelf)
		err_set(err, s->failed,
			"writing %s: %s: the names of Python functions are lost",
			d->pyelf_path, strerror(-pyelf));
	else if (s->failed && d->has_symbols && !d->out.stream)
		err_set(err, s->failed,
			"writing %s: %s: %s; its Python functions have their names", s->path,
			strerror(-s->failed), what_lacks);
	perf_data_free(d);
	return s->failed;
}

static const char *const extensions[] = { ".data", NULL };

const struct sink_ops sink_perf_data = {
	.name = "perf",
	.extensions = extensions,
	.beside = PYELF_BESIDE,
	.next = "perf report -i ",
	.lines = "pysampled report --by line ",
	.moved = "pysampled unpack ",
	.help = "perf.data, for perf, hotspot, samply and others",
	.needs = SINK_KEEPS_OLD | SINK_NEEDS_IDS | SINK_IS_BINARY,
	.priv_size = sizeof(struct perf_data),
	.begin = perf_data_begin,
	.side = perf_data_side,
	.sample = perf_data_sample,
	.round = perf_data_round,
	.end = perf_data_end,
};
