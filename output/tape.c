/* SPDX-License-Identifier: MIT
 *
 * tape - the sink that keeps what came in, for replay (lib/sample/tape.h).
 */
#include "sample/tape.h"

#include <errno.h>

#include "sink.h"

struct tape_sink {
	struct tape_writer *writer;
};

static int keep_first(struct sink *s, int r)
{
	if (r < 0 && !s->failed)
		s->failed = r;
	return r;
}

static int write_event(struct tape_writer *w, const struct session *s, size_t i)
{
	const struct event_info *e = &s->events[i];
	const struct event_how *how = &s->how[i];
	struct tape_head h = { .n = 0 };

	tape_put(&h, TAPE_INDEX, i);
	tape_put_bytes(&h, TAPE_NAME, e->name, strlen(e->name));
	tape_put_bytes(&h, TAPE_ATTR, &e->attr, sizeof(e->attr));
	tape_put(&h, TAPE_LEADER, how->leader);
	tape_put(&h, TAPE_FLAGS, s->flags);
	tape_put(&h, TAPE_HOW,
		 (how->led ? TAPE_LED : 0u) | (how->read ? TAPE_HOW_READ : 0u) |
			 (how->probe ? TAPE_PROBE : 0u) | (how->jumps ? TAPE_JUMPS : 0u) |
			 (how->on_cpus ? TAPE_ON_CPUS : 0u));
	return tape_write(w, TAPE_EVENT, tape_head_bytes(&h), (struct bytes){ 0 });
}

static int tape_begin(struct sink *s, struct err *err)
{
	struct tape_sink *t = s->priv;
	int r = 0;

	t->writer = tape_writer_create(s->out, err);
	if (!t->writer)
		return keep_first(s, -ENOMEM);
	for (size_t i = 0; r == 0 && i < s->session->n_events; i++)
		r = write_event(t->writer, s->session, i);
	if (r < 0)
		err_set(err, r, "%s: %s", s->path, strerror(-r));
	return keep_first(s, r);
}

/* Its records, reads and verdict came through raw(). */
static int tape_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	s->samples++;
	return s->failed;
}

static int tape_raw(struct sink *s, unsigned type, struct bytes head, struct bytes body)
{
	struct tape_sink *t = s->priv;

	return keep_first(s, tape_write(t->writer, (enum tape_type)type, head, body));
}

static int tape_end(struct sink *s, struct err *err)
{
	struct tape_sink *t = s->priv;
	int r;

	if (!t->writer)
		return 0;
	r = tape_writer_finish(t->writer);
	if (r < 0)
		err_set(err, r, "%s: %s", s->path, strerror(-r));
	tape_writer_destroy(t->writer);
	t->writer = NULL;
	return keep_first(s, r);
}

static const char *const tape_extensions[] = { ".tape", NULL };

const struct sink_ops sink_tape = {
	.name = "tape",
	.extensions = tape_extensions,
	.help = "everything that came in, to be played again",
	.needs = SINK_NEEDS_READS,
	.priv_size = sizeof(struct tape_sink),
	.begin = tape_begin,
	.sample = tape_sample,
	.raw = tape_raw,
	.end = tape_end,
};
