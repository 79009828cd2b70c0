/* SPDX-License-Identifier: MIT
 *
 * tally - adds up the rows of a tree by a key.
 */
#include "tally.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "cmd.h"

enum {
	FEW = 64,    /* rows that are wanted in order are found without sorting all */
	KIND_GC = 7, /* beside enum frame_kind */
};

const char *const tally_names[TALLY_N] = { "function", "line",	  "file",
					   "thread",   "process", "event" };

/* What is counted, and where. */
struct counting {
	struct tally *t;
	const struct tree *tree;
	const struct session *session;
	enum tally_by by;
	struct idmap row_of; /* key to a number in @t->rows */
	uint32_t *known;     /* that number and 1, by function, or of others by frame; or 0 */
	struct buf path;
	double scale[SESSION_MAX_EVENTS]; /* tree_scale() */
};

const char *tally_keep(const struct tally *t, const char *text)
{
	uint32_t id = strtab_add(t->texts, text, strlen(text));

	return id == STRTAB_NONE ? NULL : strtab_get(t->texts, id);
}

/* What tree_kind() tells apart. */
static unsigned kind_of(const struct tree *t, uint32_t func)
{
	return strcmp(tree_kind(t, func), "gc") ? tree_func(t, func)->kind : KIND_GC;
}

/* Of a line or a file. */
static uint64_t key_of_frame(const struct counting *c, uint32_t frame)
{
	const struct tree_frame *f = tree_frame(c->tree, frame);
	const struct tree_func *func = tree_func(c->tree, f->func);

	return c->by == TALLY_LINE ? (uint64_t)f->func << 32 | (uint32_t)f->line :
				     (uint64_t)func->file << 3 | kind_of(c->tree, f->func);
}

static struct tally_row row_of_frame(const struct counting *c, uint32_t frame)
{
	const struct tree *t = c->tree;
	const struct tree_frame *f = tree_frame(t, frame);
	const struct tree_func *func = tree_func(t, f->func);
	const char *kind = tree_kind(t, f->func);

	return (struct tally_row){
		.name = c->by == TALLY_FILE ? kind : tree_text(t, func->name),
		.file = tree_text(t, func->file),
		.kind = kind,
		.first = c->by == TALLY_FILE ? 0 : func->first,
		.line = c->by == TALLY_LINE ? f->line :
			c->by == TALLY_FILE ? 0 :
					      func->first,
	};
}

/* Of what is no frame: the thread, process or event. */
static struct tally_row row_of_whole(const struct counting *c, const struct tree_row *r)
{
	const struct tree *t = c->tree;
	const struct tree_thread *th = tree_thread(t, r->thread);
	char text[512];

	tree_thread_text(t, r->thread, text, sizeof(text));
	if (c->by == TALLY_PROCESS)
		snprintf(text, sizeof(text), "%s-%d", tree_text(t, th->process), th->pid);
	if (c->by == TALLY_EVENT)
		snprintf(text, sizeof(text), "%s", c->session->events[r->event].name);
	return (struct tally_row){ .name = tally_keep(c->t, text),
				   .file = "",
				   .kind = tally_names[c->by] };
}

/* NULL: no memory. */
static struct tally_row *new_row(struct counting *c, struct tally_row fresh)
{
	struct tally *t = c->t;

	if (!fresh.name || !array_reserve(&t->rows, &t->cap, t->n + 1, sizeof(*t->rows)))
		return NULL;
	t->rows[t->n] = fresh;
	return &t->rows[t->n++];
}

/* The row of @key, which is @fresh if there was none. NULL: no memory. */
static struct tally_row *row_at(struct counting *c, uint64_t key, struct tally_row fresh)
{
	uint32_t i = idmap_get(&c->row_of, key);

	if (i != IDMAP_NONE)
		return &c->t->rows[i];
	return idmap_set(&c->row_of, key, (uint32_t)c->t->n) ? NULL : new_row(c, fresh);
}

static bool is_python(const struct tree *t, uint32_t frame)
{
	return tree_func(t, tree_frame(t, frame)->func)->kind == FRAME_PYTHON;
}

/* A function is looked up here alone: of millions the other table would be the larger part. */
static struct tally_row *row_of(struct counting *c, uint32_t frame)
{
	bool function = c->by == TALLY_FUNCTION;
	uint32_t *known = &c->known[function ? tree_frame(c->tree, frame)->func : frame];
	struct tally_row *row;

	if (*known)
		return &c->t->rows[*known - 1];
	row = function ? new_row(c, row_of_frame(c, frame)) :
			 row_at(c, key_of_frame(c, frame), row_of_frame(c, frame));
	*known = row ? (uint32_t)(row - c->t->rows) + 1 : 0;
	return row;
}

static int count_frames(struct counting *c, const struct tree_row *r, uint64_t number)
{
	double samples = (double)r->count * c->scale[r->event];
	size_t n = tree_path(c->tree, r->node, &c->path);
	bool inner = true;

	for (size_t i = 0; i < n; i++) {
		uint32_t frame = load_u32(c->path.at + 4 * i);
		struct tally_row *row;

		if (c->t->python && !is_python(c->tree, frame))
			continue;
		row = row_of(c, frame);
		if (!row)
			return -ENOMEM;
		row->self += inner ? samples : 0;
		row->total += row->last != number ? samples : 0;
		row->last = number;
		inner = false;
	}
	return c->path.oom ? -ENOMEM : 0;
}

static int count_whole(struct counting *c, const struct tree_row *r)
{
	const struct tree_thread *th = tree_thread(c->tree, r->thread);
	uint64_t key = c->by == TALLY_THREAD ? r->thread :
		       c->by == TALLY_EVENT  ? r->event :
					       (uint64_t)th->process << 32 | (uint32_t)th->pid;
	struct tally_row *row = row_at(c, key, row_of_whole(c, r));

	if (!row)
		return -ENOMEM;
	row->self += (double)r->count * c->scale[r->event];
	row->total = row->self;
	return 0;
}

static int count_rows(struct counting *c, int event)
{
	const struct tree *t = c->tree;
	double samples = 0;
	int ret = 0;

	for (uint32_t e = 0; e < c->session->n_events; e++)
		c->scale[e] = tree_scale(t, c->session, e);
	for (size_t i = 0; !ret && i < tree_n_rows(t); i++) {
		const struct tree_row *r = tree_row(t, i);

		if (event >= 0 && r->event != (uint32_t)event)
			continue;
		samples += (double)r->count * c->scale[r->event];
		ret = c->by < TALLY_THREAD ? count_frames(c, r, i + 1) : count_whole(c, r);
	}
	c->t->samples = (uint64_t)(samples + 0.5);
	return ret;
}

static const struct sink_ops ops = {
	.name = "tally",
	.needs = SINK_NEEDS_NAMES | SINK_KNOWS_STACKS,
	.side = tree_side,
	.sample = tree_sample,
};

static int count(struct tally *t, const struct tree *tree, const struct session *session,
		 enum tally_by by, int event)
{
	struct counting c = { .t = t, .tree = tree, .session = session, .by = by };
	size_t n = by == TALLY_FUNCTION ? tree_n_funcs(tree) : tree_n_frames(tree);
	int ret;

	c.known = calloc(n + 1, sizeof(*c.known));
	ret = c.known ? count_rows(&c, event) : -ENOMEM;
	free(c.known);
	idmap_deinit(&c.row_of);
	buf_deinit(&c.path);
	return ret;
}

int tally_read(struct tally *t, struct recording *r, struct strtab *texts, enum tally_by by,
	       bool python, int event)
{
	struct session *session = recording_session(r);
	struct sink sink = { .ops = &ops,
			     .session = session,
			     .path = r->path,
			     .folder = -1,
			     .priv = &t->tree };
	struct err err;
	int code, ret;

	*t = (struct tally){ .texts = texts,
			     .tree.by_file = by == TALLY_FILE,
			     .python = python };
	session->texts = texts;
	if (!texts || tree_begin(&sink, &err) < 0)
		return cmd_fail(EXIT_FAILED, "out of memory");
	code = recording_feed(r, &sink);
	tree_complete(&t->tree);
	ret = count(t, &t->tree, sink.session, by, event);
	return ret ? cmd_fail(EXIT_FAILED, "%s", strerror(-ret)) : code;
}

int tally_other(struct tally *t, const struct tally *read, const struct session *session,
		enum tally_by by, int event)
{
	*t = (struct tally){ .texts = read->texts, .python = read->python };
	return !count(t, &read->tree, session, by, event) ?
		       EXIT_DONE :
		       cmd_fail(EXIT_FAILED, "out of memory");
}

void tally_deinit(struct tally *t)
{
	tree_deinit(&t->tree);
	free(t->rows);
	*t = (struct tally){ 0 };
}

static int by_name(const struct tally_row *x, const struct tally_row *y)
{
	return strcmp(x->name, y->name) ?: strcmp(x->file, y->file) ?: COMPARE(x->line, y->line);
}

static int by_self(const void *a, const void *b)
{
	const struct tally_row *x = a, *y = b;

	return COMPARE(y->self, x->self) ?: COMPARE(y->total, x->total) ?: by_name(x, y);
}

static int by_total(const void *a, const void *b)
{
	const struct tally_row *x = a, *y = b;

	return COMPARE(y->total, x->total) ?: by_self(a, b);
}

static void swap(char *x, char *y, size_t n)
{
	uint64_t a, b;

	for (size_t i = 0; i < n; i += sizeof(a)) {
		memcpy(&a, x + i, sizeof(a));
		memcpy(&b, y + i, sizeof(a));
		memcpy(x + i, &b, sizeof(a));
		memcpy(y + i, &a, sizeof(a));
	}
}

void tally_sort_by(void *rows, size_t n, size_t size, size_t first,
		   int (*order)(const void *, const void *))
{
	const size_t few = first <= FEW ? MIN(first, n) : n;
	char *const behind = (char *)rows + few * size;

	if (few)
		qsort(rows, few, size, order);
	for (char *row = behind; few && row < (char *)rows + n * size; row += size) {
		if (order(row, behind - size) >= 0)
			continue;
		swap(row, behind - size, size);
		for (char *at = behind - size; at > (char *)rows && order(at, at - size) < 0; at -= size)
			swap(at, at - size, size);
	}
}

void tally_sort(struct tally *t, bool total, size_t first)
{
	tally_sort_by(t->rows, t->n, sizeof(*t->rows), first, total ? by_total : by_self);
}
