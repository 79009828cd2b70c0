/* SPDX-License-Identifier: MIT
 *
 * tape - the sink that keeps what came in, for replay (lib/tape.h).
 */
#include "../lib/tape.h"

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

static int tape_begin(struct sink *s, struct err *err)
{
	struct tape_sink *t = s->priv;
	const struct session *session = s->session;
	uint32_t count = (uint32_t)session->n_events;
	int r;

	t->writer = tape_writer_create(s->out, err);
	if (!t->writer)
		return keep_first(s, -ENOMEM);
	r = tape_write(t->writer, TAPE_SESSION,
		       (struct bytes){ (const unsigned char *)&count, sizeof(count) },
		       (struct bytes){ (const unsigned char *)session->events,
				       session->n_events * sizeof(session->events[0]) });
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
