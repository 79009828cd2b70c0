/* SPDX-License-Identifier: MIT
 *
 * tape_read - numbers on a tape back into names, functions and stacks.
 */
#include "tape_read.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/printable.h"
#include "base/stats.h"
#include "base/strtab.h"
#include "sample/tape_stream.h"
#include "buf.h"

enum {
	FRAME_BYTES = 16,
	COMM_BYTES = 256,
	MAX_KEPT = 1 << 30, /* bytes of names, functions and stacks */
};

/* As it is for Python, whose names outputs filter; and as it is shown. */
struct text {
	const char *name, *shown;
};

struct tape_reader {
	const char *path;
	struct tape_stream *stream;
	struct session session;
	struct stats stats;
	struct sink *sink;
	struct strtab *names; /* of @texts, and of threads */
	struct buf texts;     /* struct text each */
	struct buf funcs;     /* struct pyfunc * each, malloc'ed */
	struct buf stacks;    /* struct bytes each, malloc'ed; empty: the sink knows it */
	struct buf frames;    /* of the stack at hand */
	struct buf addresses; /* of those that have one, u64 each */
	struct buf told;      /* session.told */
	size_t kept;	      /* bytes */
	uint64_t last_ns;     /* time of the last sample */
	uint32_t type;	      /* the first chunk that is no event */
	struct bytes chunk;
	int next; /* what tape_stream_next() said of it */
};

/* True: @n more fit. */
static bool has_room(struct tape_reader *r, size_t n)
{
	if (n > MAX_KEPT - r->kept)
		return false;
	r->kept += n;
	return true;
}

/* The number that a chunk gives its text, function or stack must be the next one of @buf. */
static bool is_next(const struct buf *buf, size_t size, struct bytes chunk)
{
	return tape_get(chunk, TAPE_INDEX, 0) == buf->n / size;
}

static int put(struct buf *buf, const void *at, size_t n)
{
	buf_put(buf, at, n);
	return buf->oom ? -ENOMEM : 0;
}

/* ---- names, functions, stacks ---- */

static const char *keep(const struct tape_reader *r, const char *text)
{
	uint32_t id = strtab_add(r->names, text, strlen(text));

	return id == STRTAB_NONE ? NULL : strtab_get(r->names, id);
}

static int take_text(struct tape_reader *r, struct bytes chunk)
{
	char text[PYFUNC_NAME_MAX + 1];
	struct text t;

	if (!is_next(&r->texts, sizeof(t), chunk))
		return -EBADMSG;
	tape_get_text(chunk, TAPE_BYTES, text, sizeof(text));
	printable_utf8(text, sizeof(text), text);
	t.name = keep(r, text);
	printable(text, sizeof(text), text);
	t.shown = keep(r, text);
	if (!t.name || !t.shown || !has_room(r, sizeof(t) + 2 * strlen(text)))
		return -ENOMEM;
	return put(&r->texts, &t, sizeof(t));
}

/* NULL: there is no text of that number. */
static const struct text *text_at(const struct tape_reader *r, uint64_t i)
{
	return i < r->texts.n / sizeof(struct text) ?
		       (const struct text *)(const void *)r->texts.at + i :
		       NULL;
}

static int line_of(uint64_t line)
{
	return line <= INT_MAX ? (int)line : 0;
}

static int take_func(struct tape_reader *r, struct bytes chunk)
{
	const struct text *name = text_at(r, tape_get(chunk, TAPE_FUNC_NAME, 0)),
			  *file = text_at(r, tape_get(chunk, TAPE_FUNC_FILE, 0));
	struct pyfunc *f;
	int ret;

	if (!is_next(&r->funcs, sizeof(f), chunk) || !name || !file)
		return -EBADMSG;
	if (!has_room(r, sizeof(*f)) || !(f = malloc(sizeof(*f))))
		return -ENOMEM;
	*f = (struct pyfunc){
		.qualname = name->name,
		.file = file->name,
		.firstline = line_of(tape_get(chunk, TAPE_LINE_FIRST, 0)),
		.min = line_of(tape_get(chunk, TAPE_LINE_MIN, 0)),
		.max = line_of(tape_get(chunk, TAPE_LINE_MAX, 0)),
		.index = (uint32_t)(r->funcs.n / sizeof(f)),
	};
	f->max = MAX(f->min, f->max);
	ret = put(&r->funcs, &f, sizeof(f));
	if (ret)
		free(f);
	return ret;
}

static int take_stack(struct tape_reader *r, struct bytes chunk)
{
	struct bytes stack, copy;
	unsigned char *at;
	int ret;

	if (!is_next(&r->stacks, sizeof(copy), chunk))
		return -EBADMSG;
	tape_field(chunk, TAPE_BYTES, &stack);
	if (!has_room(r, sizeof(copy) + stack.n) || !(at = malloc(stack.n + 1)))
		return -ENOMEM;
	if (stack.n)
		memcpy(at, stack.at, stack.n);
	copy = (struct bytes){ at, stack.n };
	ret = put(&r->stacks, &copy, sizeof(copy));
	if (ret)
		free(at);
	return ret;
}

/* ---- samples ---- */

static bool decode_frame(const struct tape_reader *r, const unsigned char *at,
			 struct frame *ret)
{
	uint32_t kind = load_u32(at), number = load_u32(at + 4), of = load_u32(at + 12);
	const struct text *text = text_at(r, number), *file = text_at(r, of);

	*ret = (struct frame){ .kind = (enum frame_kind)kind };
	if (kind > FRAME_MARKER)
		return false;
	if (kind == FRAME_PYTHON) {
		if (number >= r->funcs.n / sizeof(ret->func))
			return false;
		ret->func = ((struct pyfunc **)(void *)r->funcs.at)[number];
		ret->line = line_of(load_u32(at + 8));
		return true;
	}
	ret->name = text ? text->shown : NULL;
	ret->file = file ? file->shown : NULL;
	if (!file && of != UINT32_MAX)
		return false;
	return text || (number == UINT32_MAX && kind != FRAME_MARKER);
}

/* The frames of @bytes into @r->frames. */
static int decode(struct tape_reader *r, struct bytes bytes)
{
	struct frame f;

	r->frames.n = 0;
	if (bytes.n % FRAME_BYTES)
		return -EBADMSG;
	for (size_t at = 0; at < bytes.n; at += FRAME_BYTES) {
		if (!decode_frame(r, bytes.at + at, &f))
			return -EBADMSG;
		buf_put(&r->frames, &f, sizeof(f));
	}
	return r->frames.oom ? -ENOMEM : 0;
}

/* The stack of number @i. Of one that the sink got before and knows, there are no frames. */
static int decode_known(struct tape_reader *r, uint64_t i)
{
	struct bytes *stack;
	int ret;

	if (i >= r->stacks.n / sizeof(*stack))
		return -EBADMSG;
	stack = (struct bytes *)(void *)r->stacks.at + i;
	ret = decode(r, *stack);
	if (!ret && r->sink->ops->needs & SINK_KNOWS_STACKS) {
		r->kept -= stack->n;
		free((void *)(uintptr_t)stack->at);
		*stack = (struct bytes){ 0 };
	}
	return ret;
}

static int take_addresses(struct tape_reader *r, struct bytes chunk)
{
	struct bytes all;

	tape_field(chunk, TAPE_BYTES, &all);
	r->addresses.n = 0;
	return put(&r->addresses, all.at, all.n);
}

/* The next sample has its own. */
static void give_addresses(struct tape_reader *r)
{
	struct frame *f = (struct frame *)(void *)r->frames.at;
	size_t at = 0;

	for (size_t i = 0; i < r->frames.n / sizeof(*f); i++)
		if ((f[i].kind == FRAME_KERNEL || f[i].kind == FRAME_NATIVE) &&
		    r->addresses.n - at >= sizeof(f->ip)) {
			f[i].ip = load_u64(r->addresses.at + at);
			at += sizeof(f->ip);
		}
	r->addresses.n = 0;
}

static bool get_id(struct bytes chunk, enum tape_tag tag, pid_t *ret)
{
	uint64_t id = tape_get(chunk, tag, 0);

	*ret = (pid_t)(uint32_t)id;
	return (int64_t)id >= INT_MIN && (int64_t)id <= INT_MAX;
}

static bool get_provenance(struct bytes chunk, enum provenance *ret)
{
	char name[16];

	tape_get_text(chunk, TAPE_PROV, name, sizeof(name));
	for (*ret = 0; *ret < PROV_N; ++*ret)
		if (!strcmp(name, tape_provenances[*ret]))
			return true;
	return false;
}

static int take_sample(struct tape_reader *r, struct bytes chunk)
{
	struct sample smp = { .time = tape_get(chunk, TAPE_TIME, 0),
			      .period = tape_get(chunk, TAPE_PERIOD, 0),
			      .cpu = (uint32_t)tape_get(chunk, TAPE_CPU, 0),
			      .event = (uint32_t)tape_get(chunk, TAPE_EVENT_INDEX, 0),
			      .ip = tape_get(chunk, TAPE_IP, 0),
			      .misc = (uint16_t)tape_get(chunk, TAPE_MISC, 0),
			      .addr = tape_get(chunk, TAPE_ADDR, 0) };
	uint64_t number = tape_get(chunk, TAPE_STACK_INDEX, 0);
	struct stack stk = { 0 };
	struct bytes own;
	int ret;

	if (!get_id(chunk, TAPE_PID, &smp.pid) || !get_id(chunk, TAPE_TID, &smp.tid) ||
	    !get_provenance(chunk, &smp.prov) || smp.event >= r->session.n_events)
		return -EBADMSG;
	if (tape_field(chunk, TAPE_BYTES, &own)) {
		ret = decode(r, own);
	} else {
		ret = decode_known(r, number);
		stk.same = (uint32_t)number + 1;
	}
	r->last_ns = MAX(r->last_ns, smp.time);
	give_addresses(r);
	stk.frames = (const struct frame *)(const void *)r->frames.at;
	stk.n = r->frames.n / sizeof(struct frame);
	return ret ? ret : r->sink->ops->sample(r->sink, &smp, &stk);
}

/* ---- what befell threads ---- */

static int take_name(struct tape_reader *r, struct bytes chunk, struct side *side)
{
	uint64_t is = tape_get(chunk, TAPE_IS, 0);
	char name[COMM_BYTES];

	tape_get_text(chunk, TAPE_BYTES, name, sizeof(name));
	printable(name, sizeof(name), name);
	side->u.comm.name = keep(r, name);
	side->u.comm.exec = is & TAPE_NAME_EXEC;
	side->u.comm.thread = is & TAPE_NAME_THREAD;
	side->u.comm.until = tape_get(chunk, TAPE_UNTIL, 0);
	return side->u.comm.name && has_room(r, strlen(name)) ? 0 : -ENOMEM;
}

/* Its path into @path. */
static void take_map(struct bytes chunk, struct side *side, char path[PATH_MAX])
{
	uint64_t is = tape_get(chunk, TAPE_IS, 0);
	struct bytes id;

	tape_get_text(chunk, TAPE_BYTES, path, PATH_MAX);
	tape_field(chunk, TAPE_BUILD_ID, &id);
	side->announced = is & TAPE_MAP_ANNOUNCED;
	side->u.mmap.kernel = is & TAPE_MAP_KERNEL;
	side->u.mmap.addr = tape_get(chunk, TAPE_AT, 0);
	side->u.mmap.len = tape_get(chunk, TAPE_N, 0);
	side->u.mmap.pgoff = tape_get(chunk, TAPE_FILE_PGOFF, 0);
	side->u.mmap.maj = (uint32_t)tape_get(chunk, TAPE_FILE_MAJ, 0);
	side->u.mmap.min = (uint32_t)tape_get(chunk, TAPE_FILE_MIN, 0);
	side->u.mmap.ino = tape_get(chunk, TAPE_FILE_INO, 0);
	side->u.mmap.ino_generation = tape_get(chunk, TAPE_FILE_GENERATION, 0);
	side->u.mmap.prot = (uint32_t)tape_get(chunk, TAPE_PROT, 0);
	side->u.mmap.flags = (uint32_t)tape_get(chunk, TAPE_MAP_FLAGS, 0);
	side->u.mmap.path = path;
	side->u.mmap.build_id = id.at;
	side->u.mmap.build_id_n = id.n;
	tape_field(chunk, TAPE_FILE_ID, &side->u.mmap.file_id);
}

static int take_side(struct tape_reader *r, struct bytes chunk)
{
	struct side side = { .time = tape_get(chunk, TAPE_TIME, 0),
			     .cpu = (uint32_t)tape_get(chunk, TAPE_CPU, 0) };
	uint64_t kind = tape_get(chunk, TAPE_WHAT, 0);
	bool maps = r->sink->ops->needs & SINK_NEEDS_IDS;
	char path[PATH_MAX];
	int ret = 0;

	if (!get_id(chunk, TAPE_PID, &side.pid) || !get_id(chunk, TAPE_TID, &side.tid))
		return -EBADMSG;
	switch (kind) {
	case SIDE_COMM:
		ret = take_name(r, chunk, &side);
		break;
	case SIDE_FORK:
	case SIDE_EXIT:
		if (!get_id(chunk, TAPE_PPID, &side.u.fork.ppid) ||
		    !get_id(chunk, TAPE_PTID, &side.u.fork.ptid))
			return -EBADMSG;
		break;
	case SIDE_LOST:
		side.u.lost.n = tape_get(chunk, TAPE_N, 0);
		STATS_ADD(&r->stats, lost, side.u.lost.n);
		break;
	case SIDE_MMAP:
		if (!maps)
			return 0;
		take_map(chunk, &side, path);
		break;
	case SIDE_THROTTLE:
		break;
	default: /* of a later version */
		return 0;
	}
	side.kind = (enum side_kind)kind;
	return ret || !r->sink->ops->side ? ret : r->sink->ops->side(r->sink, &side);
}

/* ---- the reader ---- */

static int take_chunk(struct tape_reader *r, uint32_t type, struct bytes chunk)
{
	switch (type) {
	case TAPE_TEXT:
		return take_text(r, chunk);
	case TAPE_FUNC:
		return take_func(r, chunk);
	case TAPE_STACK:
		return take_stack(r, chunk);
	case TAPE_HAPPENED:
		return take_side(r, chunk);
	case TAPE_SAMPLE:
		return take_sample(r, chunk);
	case TAPE_ADDRESSES:
		return take_addresses(r, chunk);
	case TAPE_ROUND:
		return r->sink->ops->round ? r->sink->ops->round(r->sink) : 0;
	default:
		return 0;
	}
}

int tape_reader_run(struct tape_reader *r, struct sink *s)
{
	int ret = 0;

	r->sink = s;
	while (!ret && r->next > 0) {
		ret = take_chunk(r, r->type, r->chunk);
		if (!ret)
			r->next = tape_stream_next(r->stream, &r->type, &r->chunk);
	}
	r->session.since = MIN(r->session.since,
			       clock_second_after(r->session.epoch_ns, r->last_ns));
	return ret ? ret : r->next;
}

bool tape_reader_is_cut(const struct tape_reader *r)
{
	return tape_stream_is_cut(r->stream);
}

/* -ENOENT: of a version that wrote no names. */
static int take_event(struct tape_reader *r, struct bytes chunk)
{
	struct event_info *e = &r->session.events[r->session.n_events];
	struct bytes attr;

	if (r->session.n_events == SESSION_MAX_EVENTS ||
	    tape_get(chunk, TAPE_INDEX, 0) != r->session.n_events)
		return -EBADMSG;
	if (!tape_get(chunk, TAPE_NAMED, 0))
		return -ENOENT;
	tape_get_text(chunk, TAPE_NAME, e->name, sizeof(e->name));
	printable(e->name, sizeof(e->name), e->name);
	tape_field(chunk, TAPE_ATTR, &attr);
	if (attr.n)
		memcpy(&e->attr, attr.at, MIN(attr.n, sizeof(e->attr)));
	r->session.epoch_ns = tape_get(chunk, TAPE_EPOCH, 0);
	r->session.how[r->session.n_events].led = tape_get(chunk, TAPE_HOW, 0) & TAPE_LED;
	r->session.how[r->session.n_events].probe = tape_get(chunk, TAPE_HOW, 0) & TAPE_PROBE;
	r->session.n_events++;
	return 0;
}

static int take_told(struct tape_reader *r, struct bytes chunk)
{
	struct bytes told;
	int ret;

	tape_field(chunk, TAPE_BYTES, &told);
	r->told.n = 0;
	ret = put(&r->told, told.at, told.n);
	r->session.told = (struct bytes){ r->told.at, r->told.n };
	r->session.shown = tape_get(chunk, TAPE_N, 0) ? PERF_SHOWS : 0;
	return ret;
}

static int read_events(struct tape_reader *r)
{
	int ret = 0;

	while (!ret && (r->next = tape_stream_next(r->stream, &r->type, &r->chunk)) > 0 &&
	       (r->type == TAPE_EVENT || r->type == TAPE_TOLD))
		ret = r->type == TAPE_EVENT ? take_event(r, r->chunk) : take_told(r, r->chunk);
	if (!ret && r->next < 0)
		ret = r->next;
	return ret || r->session.n_events ? ret : -ENOENT;
}

static int refuse(const char *path, int ret, struct err *err)
{
	if (ret == -EBADMSG)
		return err_set(err, ret, "%s is no tape, or a damaged one", path);
	if (ret == -ENOENT)
		return err_set(err, ret,
			       "%s is a tape without names, of an older pysampled: 'replay "
			       "%s > OUT.folded' (docs/TAPES.md) makes stacks of it that can "
			       "be read",
			       path, path);
	return err_set(err, ret, "reading %s: %s", path, strerror(-ret));
}

int tape_reader_open(struct tape_reader **ret, FILE *in, const char *path, struct err *err)
{
	struct tape_reader *r = calloc(1, sizeof(*r));
	int why = -ENOMEM;

	if (r) {
		r->path = path;
		r->names = strtab_create();
		r->session.capture = r->session.capture_why = "";
		r->session.flags = SESSION_LINES;
		r->session.stats = &r->stats;
	}
	if (r && r->names)
		why = tape_stream_create(&r->stream, in);
	if (!why)
		why = read_events(r);
	if (!why) {
		*ret = r;
		return 0;
	}
	tape_reader_close(r);
	return refuse(path, why, err);
}

void tape_reader_close(struct tape_reader *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->funcs.n / sizeof(struct pyfunc *); i++)
		free(((struct pyfunc **)(void *)r->funcs.at)[i]);
	for (size_t i = 0; i < r->stacks.n / sizeof(struct bytes); i++)
		free((void *)(uintptr_t)((struct bytes *)(void *)r->stacks.at)[i].at);
	buf_deinit(&r->texts);
	buf_deinit(&r->funcs);
	buf_deinit(&r->stacks);
	buf_deinit(&r->frames);
	buf_deinit(&r->addresses);
	buf_deinit(&r->told);
	strtab_destroy(r->names);
	tape_stream_destroy(r->stream);
	free(r);
}

struct session *tape_reader_session(struct tape_reader *r)
{
	return &r->session;
}
