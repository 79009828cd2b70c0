/* SPDX-License-Identifier: MIT
 *
 * perf_read - goes through the records, in the order of time, and feeds a sink.
 */
#include "perf_read.h"

#include <errno.h>
#include <limits.h>

#include "base/clock.h"
#include "base/printable.h"
#include "base/stats.h"
#include "sample/perf_decode.h"
#include "perf_event.h"
#include "perf_chains.h"
#include "perf_frames.h"
#include "perf_head.h"
#include "perf_order.h"
#include "perf_zstd.h"

enum {
	MAX_RECORD = 1 << 16,
	MAX_FRAMES = MAX_RECORD / 8,
	COMM_BYTES = 256,
	RECORD_CALLCHAIN_DEFERRED = 22, /* 6.19: what ran in user mode at samples before */
	RECORD_FINISHED_ROUND = 68, /* perf's own, tools/perf/util/event.h */
	MISC_FILTERED = 1 << 15,    /* PERF_RECORD_MISC_LOST_SAMPLES_BPF there */
};

struct perf_reader {
	FILE *in;
	const char *path;
	struct perf_head head;
	uint32_t number[SESSION_MAX_EVENTS]; /* of an event of @head in @session; or IDMAP_NONE */
	struct session session;
	struct stats stats;
	struct perf_frames *frames;
	struct perf_order order;
	struct perf_chains chains;
	uint64_t last_ns; /* time of the last sample */
	uint64_t lost[2]; /* samples: as the kernel says, and as perf does */
	uint64_t deferred;	 /* stacks of user mode that come behind their samples */
	struct idmap counter_of; /* what a group's samples told last: a place in @counters */
	struct buf counters;	 /* uint64_t each */
	struct sink *sink;
	char missing[PATH_MAX + 256];
	struct perf_unpacker *unpacker;	     /* once there is a packed record */
	struct frame frame[MAX_FRAMES];	     /* scratch memory */
	uint64_t record[MAX_RECORD / 8 + 1]; /* the same */
};

static const struct perf_event_attr *first_attr(const struct perf_reader *r)
{
	return &r->head.events[0].attr;
}

/* ---- records ---- */

/* Text of the file, kept and made printable; NULL: no memory. */
static const char *keep_name(struct perf_reader *r, const char *text)
{
	char name[COMM_BYTES];

	printable(name, sizeof(name), text);
	return perf_frames_keep(r->frames, name);
}

/* Our own recordings also tell what the program calls a main thread. */
static int take_title(struct perf_reader *r, const struct perf_event_header *h, struct side side)
{
	const char *title = r->head.ours && side.tid == side.pid && r->sink->ops->side ?
				    perf_layout_title(first_attr(r), h) :
				    NULL;

	if (!title)
		return 0;
	side.u.comm = (typeof(side.u.comm)){ .name = keep_name(r, title), .thread = true };
	return side.u.comm.name ? r->sink->ops->side(r->sink, &side) : -ENOMEM;
}

/* Of what a ring had no room for perf tells twice: as the kernel did, and at the end what each
 * event counts of it. What a filter took is not lost. */
static void note_lost(struct perf_reader *r, const struct perf_event_header *h, uint64_t n)
{
	bool by_perf = h->type == PERF_RECORD_LOST_SAMPLES;

	if (!by_perf || !(h->misc & MISC_FILTERED))
		r->lost[by_perf] += n;
	r->stats.lost = MAX(r->lost[0], r->lost[1]);
}

static int take_side(struct perf_reader *r, const struct perf_event_header *h)
{
	struct sink *s = r->sink;
	struct side side;
	int ret = perf_layout_side(first_attr(r), h, &side);

	if (ret)
		return ret == -ENOENT ? 0 : ret;
	if (side.kind == SIDE_COMM) {
		side.u.comm.thread = false; /* a bit of another meaning in a file */
		side.u.comm.name = keep_name(r, side.u.comm.name);
		if (!side.u.comm.name)
			return -ENOMEM;
	}
	if (side.kind == SIDE_LOST)
		note_lost(r, h, side.u.lost.n);
	ret = perf_frames_side(r->frames, &side);
	if (!ret && side.kind != SIDE_MMAP && s->ops->side)
		ret = s->ops->side(s, &side);
	return ret || side.kind != SIDE_COMM ? ret : take_title(r, h, side);
}

/* Markers say what a stack is worth. */
static enum provenance judge(const struct perf_reader *r, size_t n)
{
	enum provenance ret = PROV_NOPYTHON;

	for (size_t i = 0; i < n; i++) {
		const struct frame *f = &r->frame[i];

		if (f->kind == FRAME_PYTHON && ret == PROV_NOPYTHON)
			ret = PROV_EXACT;
		if (f->kind == FRAME_MARKER && !strcmp(f->name, "[unnamed]") &&
		    ret == PROV_NOPYTHON)
			ret = PROV_EXACT;
		if (f->kind == FRAME_MARKER && !strcmp(f->name, "[late]"))
			ret = PROV_LATE;
		if (f->kind == FRAME_MARKER && !strcmp(f->name, "[torn]"))
			ret = PROV_TORN;
	}
	return ret;
}

static int event_of(const struct perf_reader *r, const struct perf_event_header *h,
		    uint32_t *ret)
{
	uint64_t id = 0;
	int why = perf_layout_id(first_attr(r), h, &id);

	*ret = why || r->head.n_events == 1 ? 0 : idmap_get(&r->head.ids, id);
	if (why == -ENOENT)
		why = r->head.n_events == 1 ? 0 : -EBADMSG;
	return *ret < r->head.n_events ? why : -EBADMSG;
}

/* What was found out about an equal stack before, and maybe its frames; @k: NULL, there is no
 * knowing. */
static struct stack take_stack(struct perf_reader *r, struct perf_chain *k, uint16_t misc,
			       const struct perf_event_attr *a, const struct perf_taken *t,
			       enum provenance *prov)
{
	uint64_t *unnamed = perf_frames_unnamed(r->frames), before = *unnamed;
	struct stack ret = { .frames = r->frame, .same = k ? k->same : 0 };

	if (k && !k->fresh && r->sink->ops->needs & SINK_KNOWS_STACKS) {
		*unnamed += k->unnamed;
		*prov = k->prov;
		return ret;
	}
	ret.n = perf_frames_take(r->frames, a, misc, t, r->frame, MAX_FRAMES);
	*prov = judge(r, ret.n);
	if (k)
		*k = (struct perf_chain){ k->same, false, *prov,
					  (uint32_t)(*unnamed - before) };
	return ret;
}

/* How much the counter @key has grown since it was told last, as @value. 0 or -ENOMEM. */
static int grown(struct perf_reader *r, uint64_t key, uint64_t value, uint64_t *ret)
{
	uint32_t i = idmap_get(&r->counter_of, key);
	uint64_t *last;

	if (i == IDMAP_NONE) {
		i = (uint32_t)(r->counters.n / sizeof(*last));
		buf_zero(&r->counters, sizeof(*last));
		if (r->counters.oom || idmap_set(&r->counter_of, key, i))
			return -ENOMEM;
	}
	last = (uint64_t *)(void *)r->counters.at + i;
	*ret = value > *last ? value - *last : 0;
	*last = value;
	return 0;
}

/* The samples of a group's other events ({A,B}:S), which only the leader's samples tell of: one
 * of each that was counted since. */
static int take_group(struct perf_reader *r, const struct perf_event_attr *a,
		      const struct perf_taken *t, const struct sample *leader,
		      const struct stack *stk)
{
	int ret = 0;

	for (uint64_t i = 0; !ret && i < t->n_group; i++) {
		const unsigned char *at = t->group + i * t->group_bytes;
		uint64_t id = load_u64(at + 8), key = id;
		struct sample smp = *leader;

		if (a->inherit) /* a counter a thread */
			key |= (uint64_t)(uint32_t)t->tid << 32;
		smp.event = idmap_get(&r->head.ids, id);
		if (smp.event >= r->head.n_events)
			continue;
		smp.event = r->number[smp.event];
		if (smp.event == IDMAP_NONE || smp.event == leader->event)
			continue;
		ret = grown(r, key, load_u64(at), &smp.period);
		if (!ret && smp.period)
			ret = r->sink->ops->sample(r->sink, &smp, stk);
	}
	return ret;
}

static int take_sample(struct perf_reader *r, const struct perf_event_header *h)
{
	struct sample smp = { .misc = h->misc };
	const struct perf_event_attr *a;
	struct perf_chain *known = NULL;
	struct perf_taken t;
	struct stack stk;
	int ret = event_of(r, h, &smp.event);

	if (ret)
		return ret;
	a = &r->head.events[smp.event].attr;
	ret = perf_layout_sample(a, h, &t);
	smp.event = r->number[smp.event];
	if (ret || smp.event == IDMAP_NONE)
		return ret;
	smp.ip = t.ip;
	smp.pid = t.pid;
	smp.tid = t.tid;
	smp.time = t.time;
	r->last_ns = MAX(r->last_ns, t.time);
	smp.addr = t.addr;
	smp.cpu = t.cpu;
	smp.period = t.period;
	if (t.n_chain && !t.stack.n && !t.n_calls) {
		uint64_t key[] = { (uint32_t)t.pid, perf_frames_state(r->frames, t.pid) };

		known = perf_chains_find(&r->chains, key, t.chain, t.n_chain);
	}
	stk = take_stack(r, known, h->misc, a, &t, &smp.prov);
	ret = r->sink->ops->sample(r->sink, &smp, &stk);
	return ret ? ret : take_group(r, a, &t, &smp, &stk);
}

static int take_record(void *arg, const struct perf_event_header *h)
{
	struct perf_reader *r = arg;

	switch (h->type) {
	case PERF_RECORD_SAMPLE:
		return take_sample(r, h);
	case PERF_RECORD_MMAP:
		perf_frames_kernel(r->frames, h);
		return 0;
	case PERF_RECORD_MMAP2:
		if ((h->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL) {
			perf_frames_kernel(r->frames, h);
			return 0;
		}
		return take_side(r, h);
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		return take_side(r, h);
	case RECORD_CALLCHAIN_DEFERRED:
		r->deferred++;
		return 0;
	default:
		return 0;
	}
}

/* Behind the record stands what is none. */
static int pass_behind(struct perf_reader *r, const struct perf_event_header *h, uint64_t *left)
{
	uint64_t n = perf_head_behind(h);

	if (n > *left)
		return -EBADMSG;
	*left -= n;
	return fseeko(r->in, (off_t)n, SEEK_CUR) ? -errno : 0;
}

/* Ours stand in the order of time. */
static int take_in_order(struct perf_reader *r, const struct perf_event_header *h,
			 uint64_t *left)
{
	uint64_t time;

	if (perf_head_behind(h))
		return pass_behind(r, h, left);
	if (h->type == PERF_HEAD_BUILD_ID)
		return perf_head_add_build_id(&r->head, h);
	if (r->head.ours)
		return take_record(r, h);
	if (h->type == RECORD_FINISHED_ROUND)
		return perf_order_round(&r->order, false, take_record, r);
	time = perf_layout_time(first_attr(r), h);
	return time ? perf_order_put(&r->order, h, time, take_record, r) : take_record(r, h);
}

/* The records in the packed one in @r->record; the last may go on in the next. */
static int take_packed(struct perf_reader *r, uint64_t *left)
{
	struct perf_event_header *h = (struct perf_event_header *)(void *)r->record;
	int ret;

	if (!r->unpacker)
		r->unpacker = perf_unpacker_create();
	if (!r->unpacker)
		return -ENOMEM;
	perf_unpacker_feed(r->unpacker, h);
	while ((ret = perf_unpacker_next(r->unpacker, h)) == 1) {
		ret = take_in_order(r, h, left);
		if (ret)
			break;
	}
	return ret;
}

/* The next record into @r->record. */
static int read_record(struct perf_reader *r, uint64_t *left)
{
	struct perf_event_header *h = (struct perf_event_header *)(void *)r->record;
	size_t n;

	if (*left < sizeof(*h) || (fread_unlocked)(h, sizeof(*h), 1, r->in) != 1)
		return ferror(r->in) ? -EIO : -EBADMSG;
	n = h->size - sizeof(*h);
	if (h->size < sizeof(*h) || h->size > *left ||
	    (fread_unlocked)(h + 1, 1, n, r->in) != n)
		return ferror(r->in) ? -EIO : -EBADMSG;
	*left -= h->size;
	return 0;
}

/* The kernel's own threads that wait for work, one a CPU, as perf calls them: no record does. */
static int name_idle(struct perf_reader *r)
{
	const struct side side = { .kind = SIDE_COMM, .u.comm.name = "swapper" };

	return r->head.ours || !r->sink->ops->side ? 0 : r->sink->ops->side(r->sink, &side);
}

int perf_reader_run(struct perf_reader *r, struct sink *s)
{
	const struct perf_event_header *h = (const void *)r->record;
	uint64_t left = r->head.records.n;
	int ret = fseeko(r->in, (off_t)r->head.records.at, SEEK_SET) ? -errno : 0, rest;

	r->sink = s;
	if (!ret)
		ret = name_idle(r);
	while (!ret && left) {
		ret = read_record(r, &left);
		if (!ret)
			ret = perf_is_packed(h->type) ? take_packed(r, &left) :
							take_in_order(r, h, &left);
	}
	rest = ret && ret != -EBADMSG ? 0 : perf_order_round(&r->order, true, take_record, r);
	r->session.since = MIN(r->session.since,
			       clock_second_after(r->session.epoch_ns, r->last_ns));
	return ret ? ret : rest;
}

/* ---- the reader ---- */

static int refuse(const char *path, int ret, struct err *err)
{
	if (ret == -EBADMSG)
		return err_set(err, ret, "%s is no perf.data, or a damaged one", path);
	if (ret == -ENOTSUP)
		return err_set(err, ret,
			       "%s can't be read: its samples don't say whose they are, or of "
			       "which event",
			       path);
	if (ret == -E2BIG)
		return err_set(err, ret, "%s can't be read: it has more than %d events", path,
			       SESSION_MAX_EVENTS);
	if (ret == -EISDIR)
		return err_set(err, ret,
			       "%s can't be read: its samples are in files of their own (perf "
			       "record --threads); record without that",
			       path);
	return err_set(err, ret, "reading %s: %s", path, strerror(-ret));
}

/* True: it takes no samples, and is counted at those of its group's leader. So perf tells it, too. */
static bool is_led(const struct perf_event_attr *a)
{
	return !a->freq && !a->sample_period &&
	       a->sample_type & (PERF_SAMPLE_PERIOD | PERF_SAMPLE_READ);
}

/* True: the kernel may give each sample a weight (a tracepoint's, what a BPF program tells). Where
 * all have the same nothing changes. */
static bool is_varying(const struct perf_reader *r, const struct perf_event_attr *a)
{
	return !r->head.ours && a->sample_type & PERF_SAMPLE_PERIOD && !perf_event_is_clock(a);
}

/* True: perf opened it by itself, for records of what has no samples. */
static bool is_tracking(const struct event_info *e)
{
	return e->attr.type == PERF_TYPE_SOFTWARE && e->attr.config == PERF_COUNT_SW_DUMMY &&
	       !strncmp(e->name, "dummy", 5);
}

static void take_event(struct perf_reader *r, size_t of)
{
	const struct event_info *e = &r->head.events[of];
	size_t i = r->session.n_events;

	r->number[of] = is_tracking(e) ? IDMAP_NONE : (uint32_t)i;
	if (is_tracking(e))
		return;
	r->session.n_events++;
	r->session.events[i] = *e;
	r->session.how[i].led = is_led(&e->attr);
	r->session.how[i].varies = is_varying(r, &e->attr);
}

static void set_session(struct perf_reader *r)
{
	for (size_t e = 0; e < r->head.n_events; e++)
		take_event(r, e);
	r->session.epoch_ns = r->head.epoch_ns;
	r->session.capture = r->session.capture_why = "";
	r->session.flags = SESSION_LINES | (r->head.wall ? SESSION_WALL | SESSION_PERIOD : 0);
	r->session.stats = &r->stats;
}

int perf_reader_open(struct perf_reader **ret, FILE *in, const char *path, struct err *err)
{
	struct perf_reader *r = calloc(1, sizeof(*r));
	int why = r ? 0 : -ENOMEM;

	if (!why) {
		r->in = in;
		r->path = path;
		why = perf_head_read(&r->head, in);
	}
	if (!why && !(r->frames = perf_frames_create(&r->head, in, path)))
		why = -ENOMEM;
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
	perf_frames_destroy(r->frames);
	perf_order_deinit(&r->order);
	perf_chains_deinit(&r->chains);
	idmap_deinit(&r->counter_of);
	buf_deinit(&r->counters);
	perf_head_deinit(&r->head);
	perf_unpacker_destroy(r->unpacker);
	free(r);
}

struct session *perf_reader_session(struct perf_reader *r)
{
	return &r->session;
}

const char *perf_reader_missing(struct perf_reader *r)
{
	uint64_t unnamed = *perf_frames_unnamed(r->frames);

	if (r->deferred)
		snprintf(r->missing, sizeof(r->missing),
			 "%s: stacks of user mode were recorded behind their samples (perf record "
			 "--call-graph fp,defer), %llu of them: those are not read; record "
			 "without defer",
			 r->path ? r->path : "?", (unsigned long long)r->deferred);
	if (!unnamed)
		return r->deferred ? r->missing : NULL;
	snprintf(r->missing, sizeof(r->missing),
		 perf_frames_have_python(r->frames) ?
			 "%s: %llu Python frames were recorded after the last copy of the "
			 "symbol file: they are [unnamed]" :
			 "%s: neither it nor its folder .pyframes nor ~/.debug has its symbol "
			 "file: %llu Python frames are [unnamed]",
		 r->path ? r->path : "?", (unsigned long long)unnamed);
	return r->missing;
}
