/* SPDX-License-Identifier: MIT
 *
 * perf_read - takes records apart and names their addresses.
 */
#include "perf_read.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>

#include "base/printable.h"
#include "base/stats.h"
#include "base/strtab.h"
#include "modules/jit.h"
#include "modules/space.h"
#include "sample/perf_decode.h"
#include "symbolize.h"
#include "perf_head.h"
#include "perf_kernel.h"
#include "perf_zstd.h"
#include "pyelf.h"
#include "pyelf_read.h"

enum {
	MAX_RECORD = 1 << 16,
	MAX_FRAMES = MAX_RECORD / 8,
	MAX_MODULES = 256 << 20, /* bytes */
	COMM_BYTES = 256,
};

#define UNNAMED "[unnamed]"

struct perf_reader {
	FILE *in;
	const char *path;
	struct perf_head head;
	struct session session;
	struct stats stats;
	struct pyelf_table python;
	bool looked_for_python; /* then @python is empty if there was none */
	bool looked_for_kernel, same_kernel;
	struct spaces *spaces;
	struct symbolizer *symbols;
	struct strtab
		*texts;	  /* names of threads, of markers, of files that are others by now */
	uint64_t unnamed; /* frames of Python */
	char missing[PATH_MAX + 256];
	struct perf_unpacker *unpacker;	     /* once there is a packed record */
	struct frame frame[MAX_FRAMES];	     /* scratch memory */
	uint64_t record[MAX_RECORD / 8 + 1]; /* the same */
};

static const char *keep(struct perf_reader *r, const char *text)
{
	uint32_t id = strtab_add(r->texts, text, strlen(text));

	return id == STRTAB_NONE ? NULL : strtab_get(r->texts, id);
}

/* ---- who has names ---- */

static int read_embedded(struct perf_reader *r, struct bytes id)
{
	struct bytes image = { 0 };
	int ret = perf_head_pyelf(&r->head, r->in, &image);

	if (!ret)
		ret = pyelf_read(&r->python, -1, image, id);
	free((void *)(uintptr_t)image.at);
	return ret;
}

static void read_beside(struct perf_reader *r, struct bytes id)
{
	char path[PATH_MAX];
	int fd;

	if (!r->path || snprintf(path, sizeof(path), "%s" PYELF_BESIDE, r->path) >= PATH_MAX)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	pyelf_read(&r->python, fd, (struct bytes){ 0 }, id);
	close(fd);
}

static int find_python(struct perf_reader *r, struct bytes id)
{
	off_t at = ftello(r->in);

	if (r->looked_for_python || !id.n)
		return 0;
	r->looked_for_python = true;
	if (read_embedded(r, id))
		read_beside(r, id);
	return fseeko(r->in, at, SEEK_SET) ? -errno : 0;
}

/* The first record of a map of the kernel, and its map of now. */
struct kernel_question {
	const struct perf_reader *r;
	struct perf_kernel_map then;
	bool same;
};

static int compare_kernel(void *ctx, const struct perf_kernel_map *now)
{
	struct kernel_question *q = ctx;
	struct bytes id = perf_head_build_id(&q->r->head, now->dso);

	q->same = q->then.addr == now->addr && q->then.len == now->len &&
		  q->then.pgoff == now->pgoff && id.n && id.n == now->id.n &&
		  !memcmp(id.at, now->id.at, id.n);
	return 1;
}

static void take_kernel_map(struct perf_reader *r, const struct perf_event_header *h)
{
	const unsigned char *body = (const unsigned char *)(h + 1);
	struct kernel_question q = { .r = r };

	if (r->looked_for_kernel || h->size < sizeof(*h) + 32)
		return;
	q.then.addr = load_u64(body + 8);
	q.then.len = load_u64(body + 16);
	q.then.pgoff = load_u64(body + 24);
	perf_kernel_maps(compare_kernel, &q);
	r->looked_for_kernel = true;
	r->same_kernel = q.same;
}

/* A file that is another by now, or of which that is not known, lends no names. */
static int map_changed(struct perf_reader *r, struct side *side)
{
	struct bytes then = perf_head_build_id(&r->head, side->u.mmap.path);
	struct bytes now = side->u.mmap.file_id;
	char path[PATH_MAX + 16];

	if (!then.n || (now.n == then.n && !memcmp(now.at, then.at, now.n)))
		return 0;
	snprintf(path, sizeof(path), "%s (%s)", side->u.mmap.path,
		 now.n ? "another" : "unread");
	side->u.mmap.path = keep(r, path);
	if (!side->u.mmap.path)
		return -ENOMEM;
	spaces_side(r->spaces, side);
	return 0;
}

static int take_map(struct perf_reader *r, struct side *side)
{
	if (side->u.mmap.addr == PYELF_BASE + PYELF_TEXT)
		return find_python(
			r, (struct bytes){ side->u.mmap.build_id, side->u.mmap.build_id_n });
	/* What a process wrote down of its own code is gone with it. */
	if (jit_is_memory(side->u.mmap.path) || strstr(side->u.mmap.path, "/jit-"))
		side->u.mmap.prot = 0;
	if (!side->u.mmap.ino) /* a build-id stood in its place */
		side->u.mmap.ino = 1;
	spaces_side(r->spaces, side);
	return map_changed(r, side);
}

/* ---- records ---- */

static int take_side(struct perf_reader *r, struct sink *s, const struct perf_event_header *h)
{
	struct side side;
	char name[COMM_BYTES];
	int ret = perf_decode_side(h, &side);

	if (ret)
		return ret == -ENOENT ? 0 : ret;
	if (side.kind == SIDE_COMM) {
		side.u.comm.thread = false; /* a bit of another meaning in a file */
		printable(name, sizeof(name), side.u.comm.name);
		side.u.comm.name = keep(r, name);
		if (!side.u.comm.name)
			return -ENOMEM;
	}
	if (side.kind == SIDE_LOST)
		STATS_ADD(&r->stats, lost, side.u.lost.n);
	if (side.kind == SIDE_MMAP)
		return take_map(r, &side);
	spaces_side(r->spaces, &side);
	return s->ops->side ? s->ops->side(s, &side) : 0;
}

static struct frame python_frame(struct perf_reader *r, uint64_t addr)
{
	struct frame f;

	if (pyelf_frame(&r->python, addr, &f))
		return f;
	r->unnamed++;
	return (struct frame){ .kind = FRAME_PYTHON };
}

/* @leaf: the event was there; else it is where a call returns to. */
static struct frame user_frame(struct perf_reader *r, pid_t pid, uint64_t ip, bool leaf)
{
	if (ip - PYELF_BASE < PYELF_TEXT + (uint64_t)PYELF_SPAN)
		return python_frame(r, ip - PYELF_BASE);
	return (struct frame){ .kind = FRAME_NATIVE,
			       .ip = ip,
			       .name = symbolize_user(r->symbols, pid, ip - !leaf) };
}

static struct frame kernel_frame(struct perf_reader *r, uint64_t ip)
{
	return (struct frame){ .kind = FRAME_KERNEL,
			       .ip = ip,
			       .name = r->same_kernel ? symbolize_kernel(r->symbols, ip) :
							"[kernel]_[k]" };
}

static size_t take_chain(struct perf_reader *r, pid_t pid, const unsigned char *at, size_t n)
{
	bool kernel = false, leaf = true;
	size_t k = 0;

	for (size_t i = 0; i < n && k < MAX_FRAMES; i++) {
		uint64_t ip = load_u64(at + 8 * i);

		if (ip >= PERF_CONTEXT_MAX) {
			kernel = ip == PERF_CONTEXT_KERNEL;
			continue;
		}
		r->frame[k++] = kernel ? kernel_frame(r, ip) : user_frame(r, pid, ip, leaf);
		leaf &= kernel;
	}
	return k;
}

/* Markers say what a stack is worth; a frame without a name is one. */
static enum provenance judge(struct perf_reader *r, size_t n)
{
	enum provenance ret = PROV_NOPYTHON;

	for (size_t i = 0; i < n; i++) {
		struct frame *f = &r->frame[i];

		if (f->kind == FRAME_PYTHON && ret == PROV_NOPYTHON)
			ret = PROV_EXACT;
		if (f->kind == FRAME_PYTHON && !f->func)
			*f = (struct frame){ .kind = FRAME_MARKER, .name = UNNAMED };
		if (f->kind == FRAME_MARKER && !strcmp(f->name, "[late]"))
			ret = PROV_LATE;
		if (f->kind == FRAME_MARKER && !strcmp(f->name, "[torn]"))
			ret = PROV_TORN;
	}
	return ret;
}

static bool event_of(const struct perf_reader *r, uint64_t id, uint32_t *ret)
{
	for (size_t i = 0; i < r->head.n_events; i++)
		if (r->head.ids[i] == id) {
			*ret = (uint32_t)i;
			return true;
		}
	return false;
}

static int take_sample(struct perf_reader *r, struct sink *s,
		       const struct perf_event_header *h)
{
	const unsigned char *p = (const unsigned char *)(h + 1);
	size_t has_addr = r->head.sample_type & PERF_SAMPLE_ADDR ? 8 : 0;
	size_t fixed = 56 + has_addr;
	struct sample smp = { .misc = h->misc };
	uint64_t n;

	if (h->size < sizeof(*h) + fixed || !event_of(r, load_u64(p), &smp.event))
		return -EBADMSG;
	smp.ip = load_u64(p + 8);
	smp.pid = (pid_t)load_u32(p + 16);
	smp.tid = (pid_t)load_u32(p + 20);
	smp.time = load_u64(p + 24);
	smp.addr = has_addr ? load_u64(p + 32) : 0;
	smp.cpu = load_u32(p + 32 + has_addr);
	smp.period = load_u64(p + 40 + has_addr);
	n = load_u64(p + 48 + has_addr);
	if (n > (h->size - sizeof(*h) - fixed) / 8)
		return -EBADMSG;
	n = take_chain(r, smp.pid, p + fixed, n);
	smp.prov = judge(r, n);
	return s->ops->sample(s, &smp, &(struct stack){ n, r->frame });
}

static int take_record(struct perf_reader *r, struct sink *s,
		       const struct perf_event_header *h)
{
	switch (h->type) {
	case PERF_RECORD_SAMPLE:
		return take_sample(r, s, h);
	case PERF_RECORD_MMAP:
		take_kernel_map(r, h);
		return 0;
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_LOST_SAMPLES:
		return take_side(r, s, h);
	default:
		return 0;
	}
}

/* The records in a packed one; the last may go on in the next. */
static int take_packed(struct perf_reader *r, struct sink *s)
{
	struct perf_event_header *h = (struct perf_event_header *)(void *)r->record;
	int ret;

	if (!r->unpacker)
		r->unpacker = perf_unpacker_create();
	if (!r->unpacker)
		return -ENOMEM;
	perf_unpacker_feed(r->unpacker, h + 1, h->size - sizeof(*h));
	while ((ret = perf_unpacker_next(r->unpacker, h)) == 1) {
		ret = take_record(r, s, h);
		if (ret)
			break;
	}
	return ret;
}

int perf_reader_run(struct perf_reader *r, struct sink *s)
{
	struct perf_event_header *h = (struct perf_event_header *)(void *)r->record;
	uint64_t left = r->head.records.n;
	int ret = fseeko(r->in, (off_t)r->head.records.at, SEEK_SET) ? -errno : 0;

	while (!ret && left) {
		if (left < sizeof(*h) || fread(h, sizeof(*h), 1, r->in) != 1)
			return ferror(r->in) ? -EIO : -EBADMSG;
		if (h->size < sizeof(*h) || h->size > left ||
		    fread(h + 1, 1, h->size - sizeof(*h), r->in) != h->size - sizeof(*h))
			return ferror(r->in) ? -EIO : -EBADMSG;
		left -= h->size;
		ret = h->type == PERF_RECORD_COMPRESSED ? take_packed(r, s) :
							  take_record(r, s, h);
	}
	return ret;
}

/* ---- the reader ---- */

static int refuse(const char *path, int ret, struct err *err)
{
	if (ret == -EBADMSG)
		return err_set(err, ret, "%s is no perf.data, or a damaged one", path);
	if (ret == -ENOTSUP)
		return err_set(err, ret,
			       "%s is a perf.data of another program: only pysampled's can "
			       "be read",
			       path);
	if (ret == -ESPIPE)
		return err_set(err, ret,
			       "%s is a stream that was kept, as -o - writes it: perf report "
			       "-i - < %s reads it",
			       path, path);
	return err_set(err, ret, "reading %s: %s", path, strerror(-ret));
}

static int make_parts(struct perf_reader *r)
{
	r->texts = strtab_create();
	r->spaces = spaces_create(MAX_MODULES, SPACES_IDS);
	r->symbols = r->spaces ? symbolizer_create(r->spaces) : NULL;
	if (!r->texts || !r->symbols)
		return -ENOMEM;
	spaces_elsewhere(r->spaces, "/");
	return 0;
}

static void set_session(struct perf_reader *r)
{
	r->session.n_events = r->head.n_events;
	memcpy(r->session.events, r->head.events, sizeof(r->session.events));
	r->session.capture = r->session.capture_why = "";
	r->session.flags = SESSION_LINES;
	r->session.stats = &r->stats;
}

int perf_reader_open(struct perf_reader **ret, FILE *in, const char *path, struct err *err)
{
	struct perf_reader *r = calloc(1, sizeof(*r));
	int why = r ? make_parts(r) : -ENOMEM;

	if (!why) {
		r->in = in;
		r->path = path;
		why = perf_head_read(&r->head, in);
	}
	if (!why) {
		set_session(r);
		*ret = r;
		return 0;
	}
	perf_reader_close(r);
	return refuse(path ? path : "?", why, err);
}

void perf_reader_close(struct perf_reader *r)
{
	if (!r)
		return;
	perf_head_deinit(&r->head);
	perf_unpacker_destroy(r->unpacker);
	pyelf_table_deinit(&r->python);
	symbolizer_destroy(r->symbols);
	spaces_destroy(r->spaces);
	strtab_destroy(r->texts);
	free(r);
}

struct session *perf_reader_session(struct perf_reader *r)
{
	return &r->session;
}

const char *perf_reader_missing(struct perf_reader *r)
{
	if (!r->unnamed)
		return NULL;
	snprintf(r->missing, sizeof(r->missing),
		 r->python.n ? "%s: %llu Python frames were recorded after the last copy of "
			       "the symbol file: they are " UNNAMED :
			       "%s: neither it nor its folder .pyframes has its symbol file: "
			       "%llu Python frames are " UNNAMED,
		 r->path ? r->path : "?", (unsigned long long)r->unnamed);
	return r->missing;
}
