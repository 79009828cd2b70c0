/* SPDX-License-Identifier: MIT
 *
 * outlet - the way from the readers' queues to an output, as a recording has it.
 */
#include "outlet.h"

#include <stdlib.h>

#include "stacks/resolver.h"
#include "../../output/sink.h"
#include "world.h"

enum { OWN_BYTES = 8 << 20 };

static void queue_sides(const struct script *s, struct queue *own)
{
	if (queue_init(own, OWN_BYTES) < 0)
		abort();
	for (size_t i = 0; i < s->n_sides; i++) {
		struct bytes b = s->sides[i];
		struct perf_event_header h;
		void *to = NULL;

		memcpy(&h, b.at, sizeof(h));
		if (h.size == b.n)
			to = queue_reserve(own, Q_SIDE, b.n);
		if (!to)
			continue;
		memcpy(to, b.at, b.n);
		queue_commit(own);
	}
}

/* --- an output that adds up --- */

static void note_time(struct outlet_sums *sums, uint64_t time)
{
	sums->disorder += time < sums->last;
	sums->last = time;
}

static int sum_sample(struct sink *s, const struct sample *smp, const struct stack *stack)
{
	struct outlet_sums *sums = s->priv;

#define X(field) sums->field += (uint64_t)smp->field;
	OUTLET_SUMS(X)
#undef X
	note_time(sums, smp->time);
	return 0;
}

static int sum_side(struct sink *s, const struct side *side)
{
	struct outlet_sums *sums = s->priv;

	sums->n_sides++;
	sums->side_time += side->time;
	sums->side_tid += (uint64_t)side->tid;
	if (!side->announced)
		note_time(sums, side->time);
	return 0;
}

static const struct sink_ops sum_ops = { .sample = sum_sample, .side = sum_side };

int outlet_write(const struct script *s, struct reader_config *c, const char *files,
		 const char *out, struct outlet_sums *sums)
{
	struct sink adder = { .ops = &sum_ops, .session = &s->session, .priv = sums };
	struct queue own, *queues[SCRIPT_CPUS + 1] = { &own };
	struct resolver_counts counts;
	struct resolver *r;
	struct sink sink;
	struct err err;

	queue_sides(s, &own);
	for (uint32_t i = 0; i < c->n_slots; i++)
		queues[i + 1] = &c->slots[i].queue;
	if (sink_open(&sink, sink_pick("folded", out), out, &s->session, &err) < 0)
		return err.code;
	r = resolver_create(&(struct resolver_config){ .session = &s->session,
						       .queues = queues,
						       .n_queues = c->n_slots + 1,
						       .sinks = { &sink, &adder },
						       .n_sinks = 2,
						       .native = files && c->native,
						       .files = files ? files : "",
						       .targets = c->targets });
	world_without_system(true);
	if (!r || resolver_start(r) < 0)
		abort();
	resolver_stop(r, &counts);
	world_without_system(false);
	resolver_destroy(r);
	queue_deinit(&own);
	return sink_close(&sink, &err);
}
