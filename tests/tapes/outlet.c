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

int outlet_write(const struct script *s, struct reader_config *c, const char *files,
		 const char *out)
{
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
						       .sinks = { &sink },
						       .n_sinks = 1,
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
