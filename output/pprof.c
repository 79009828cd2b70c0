/* SPDX-License-Identifier: MIT
 *
 * pprof - the gzipped protobuf that Go's pprof and its like read.
 *
 * The message is written field by field as its parts are met, so that memory holds one sample
 * of it at most: a generated encoder wants all of it at once. Numbers are the fields' in
 * profile.proto.
 */
#include <errno.h>
#include <string.h>

#include "copies.h"
#include "gzip.h"
#include "perf_event.h"
#include "tree.h"

enum profile {
	SAMPLE_TYPE = 1,
	SAMPLE,
	MAPPING,
	LOCATION,
	FUNCTION,
	STRING,
	TIME_NS = 9,
	DURATION_NS,
	PERIOD_TYPE,
	PERIOD,
	DEFAULT_TYPE = 14,
};
enum { WIRE_VARINT, WIRE_BYTES = 2 };

struct pprof {
	const struct tree *t;
	const struct session *session;
	struct gzip *z;
	struct buf msg, sub, path;
	uint32_t samples, count, nanoseconds, pid, tid, thread, provenance, program, prov[PROV_N],
		event[SESSION_MAX_EVENTS];
};

static void put_int(struct buf *b, unsigned field, uint64_t v)
{
	buf_uleb(b, field << 3 | WIRE_VARINT);
	buf_uleb(b, v);
}

static void put_bytes(struct buf *b, unsigned field, const void *p, size_t n)
{
	buf_uleb(b, field << 3 | WIRE_BYTES);
	buf_uleb(b, n);
	buf_put(b, p, n);
}

/* A message within another; it is emptied. */
static void put_sub(struct buf *b, unsigned field, struct buf *sub)
{
	put_bytes(b, field, sub->at, sub->n);
	sub->n = 0;
}

/* What is in @msg becomes a field of the profile itself. */
static void emit(struct pprof *p, unsigned field)
{
	struct buf head = {};

	buf_uleb(&head, field << 3 | WIRE_BYTES);
	buf_uleb(&head, p->msg.n);
	gzip_put(p->z, head.at, head.n);
	gzip_put(p->z, p->msg.at, p->msg.n);
	p->msg.oom |= head.oom;
	p->msg.n = 0;
	buf_deinit(&head);
}

/* String 0 must be empty, and so is the tree's. */
static uint32_t text(const struct pprof *p, const char *s)
{
	return strtab_add(p->t->strings, s, strlen(s));
}

static void intern_words(struct pprof *p)
{
	static const char *const prov[] = { [PROV_EXACT] = "exact",
					    [PROV_LATE] = "late",
					    [PROV_TORN] = "torn",
					    [PROV_NOPYTHON] = "nopython" };

	p->samples = text(p, "samples");
	p->count = text(p, "count");
	p->nanoseconds = text(p, "nanoseconds");
	p->pid = text(p, "pid");
	p->tid = text(p, "tid");
	p->thread = text(p, "thread");
	p->provenance = text(p, "provenance");
	p->program = tree_n_threads(p->t) ? tree_thread(p->t, 0)->process : text(p, "python");
	for (size_t i = 0; i < PROV_N; i++)
		p->prov[i] = text(p, prov[i]);
	for (size_t i = 0; i < p->session->n_events; i++)
		p->event[i] = text(p, p->session->events[i].name);
}

static void put_type(struct pprof *p, uint32_t type, uint32_t unit)
{
	put_int(&p->msg, 1, type);
	put_int(&p->msg, 2, unit);
	emit(p, SAMPLE_TYPE);
}

static void put_label(struct pprof *p, uint32_t key, unsigned field, uint64_t v)
{
	struct buf label = {};

	put_int(&label, 1, key);
	put_int(&label, field, v);
	p->msg.oom |= label.oom;
	put_sub(&p->msg, 3, &label);
	buf_deinit(&label);
}

static void put_row(struct pprof *p, const struct tree_row *row)
{
	enum { TEXT = 2, NUMBER = 3 };
	const struct tree_thread *th = tree_thread(p->t, row->thread);
	size_t n = tree_path(p->t, row->node, &p->path);

	for (size_t i = 0; i < n; i++)
		buf_uleb(&p->sub, (uint64_t)load_u32(p->path.at + 4 * i) + 1);
	put_sub(&p->msg, 1, &p->sub);
	buf_uleb(&p->sub, p->session->flags & SESSION_PERIOD ? row->samples : row->count);
	for (size_t i = 0; i < p->session->n_events; i++)
		buf_uleb(&p->sub, i == row->event ? row->period : 0);
	put_sub(&p->msg, 2, &p->sub);
	put_label(p, p->pid, NUMBER, (uint64_t)th->pid);
	put_label(p, p->tid, NUMBER, (uint64_t)th->tid);
	put_label(p, p->thread, TEXT, th->name);
	put_label(p, p->provenance, TEXT, p->prov[row->prov]);
	emit(p, SAMPLE);
}

/* One for all, with functions, files and lines: else pprof looks for a binary. */
static void put_mapping(struct pprof *p)
{
	enum { FILE_NAME = 5, HAS_FUNCTIONS = 7, HAS_FILES, HAS_LINES };

	put_int(&p->msg, 1, 1);
	put_int(&p->msg, FILE_NAME, p->program);
	put_int(&p->msg, HAS_FUNCTIONS, 1);
	put_int(&p->msg, HAS_FILES, 1);
	put_int(&p->msg, HAS_LINES, 1);
	emit(p, MAPPING);
}

static void put_location(struct pprof *p, uint32_t i)
{
	const struct tree_frame *f = tree_frame(p->t, i);

	put_int(&p->msg, 1, (uint64_t)i + 1);
	put_int(&p->msg, 2, 1); /* the mapping */
	put_int(&p->sub, 1, (uint64_t)f->func + 1);
	put_int(&p->sub, 2, (uint64_t)f->line);
	put_sub(&p->msg, 4, &p->sub);
	emit(p, LOCATION);
}

static void put_function(struct pprof *p, uint32_t i)
{
	const struct tree_func *f = tree_func(p->t, i);

	put_int(&p->msg, 1, (uint64_t)i + 1);
	put_int(&p->msg, 2, f->name);
	/* no system_name: pprof would take <module> for a template's arguments, and cut it */
	put_int(&p->msg, 4, f->file);
	put_int(&p->msg, 5, (uint64_t)f->first);
	emit(p, FUNCTION);
}

/* When the first sample was, and how far the last one was from it. */
static void put_time(struct pprof *p)
{
	if (p->session->epoch_ns && p->t->last_ns)
		put_int(&p->msg, TIME_NS, p->session->epoch_ns + p->t->first_ns);
	put_int(&p->msg, DURATION_NS, p->t->last_ns - p->t->first_ns);
}

/* What lies between two samples of the first event, where that is always as much. */
static void put_period(struct pprof *p)
{
	const struct perf_event_attr *a = &p->session->events[0].attr;
	uint64_t period = perf_event_period(a);

	if (!period)
		return;
	put_int(&p->sub, 1, p->event[0]);
	put_int(&p->sub, 2, perf_event_is_clock(a) ? p->nanoseconds : p->count);
	put_sub(&p->msg, PERIOD_TYPE, &p->sub);
	put_int(&p->msg, PERIOD, period);
}

static void put_profile(struct pprof *p)
{
	const struct tree *t = p->t;

	put_type(p, p->samples, p->count);
	for (uint32_t i = 0; i < p->session->n_events; i++)
		put_type(p, p->event[i], tree_is_time(p->session, i) ? p->nanoseconds : p->count);
	for (size_t i = 0; i < tree_n_rows(t); i++)
		if (tree_row(t, i)->count || tree_row(t, i)->period)
			put_row(p, tree_row(t, i));
	put_mapping(p);
	for (uint32_t i = 0; i < tree_n_frames(t); i++)
		put_location(p, i);
	for (uint32_t i = 0; i < tree_n_funcs(t); i++)
		put_function(p, i);
	for (uint32_t i = 0; i < strtab_count(t->strings); i++) {
		buf_put(&p->msg, tree_text(t, i), strtab_len(t->strings, i));
		emit(p, STRING);
	}
	put_time(p);
	put_period(p);
	put_int(&p->msg, DEFAULT_TYPE, tree_is_time(p->session, 0) ? p->event[0] : p->samples);
	gzip_put(p->z, p->msg.at, p->msg.n);
}

static int write_pprof(struct sink *s)
{
	struct pprof p = { .t = s->priv, .session = s->session, .z = gzip_create(s->out) };
	int ret;

	if (!p.z)
		return -ENOMEM;
	intern_words(&p);
	put_profile(&p);
	ret = gzip_finish(p.z);
	if (p.msg.oom || p.sub.oom || p.path.oom)
		ret = -ENOMEM;
	buf_deinit(&p.msg);
	buf_deinit(&p.sub);
	buf_deinit(&p.path);
	return ret;
}

static int pprof_copy(struct sink *s)
{
	return tree_copy(s, write_pprof);
}

static const char *const extensions[] = { ".pb.gz", NULL };

const struct sink_ops sink_pprof = {
	.name = "pprof",
	.extensions = extensions,
	.next = "go tool pprof -top ",
	.help = "gzipped protobuf, for pprof and continuous profilers",
	.needs = SINK_NEEDS_NAMES | SINK_KNOWS_STACKS | SINK_IS_RESULT | SINK_IS_BINARY,
	.priv_size = sizeof(struct tree),
	.begin = tree_begin,
	.side = tree_side,
	.sample = tree_sample,
	.round = copies_round,
	.copy = pprof_copy,
	.finish = tree_places,
	.end = tree_end,
};
