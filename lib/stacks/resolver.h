/* SPDX-License-Identifier: MIT
 *
 * resolver - the one thread behind the readers: takes what they queued, puts it in
 * time order, makes stacks of named frames, feeds the sinks.
 *
 * It owns the profile, the symbolizer and the sinks while it runs.
 */
#ifndef RESOLVER_H
#define RESOLVER_H

#include "sample/sample.h"
#include "sample/wire.h"

struct sink;
struct resolver;

enum { RESOLVER_MAX_SINKS = 16 };

struct resolver_config {
	const struct session *session;
	struct queue **queues; /* the readers' and the control thread's */
	size_t n_queues;
	struct sink *sinks[RESOLVER_MAX_SINKS]; /* opened; borrowed */
	size_t n_sinks;
	bool native;			     /* the native frame at the sampled address */
	const struct unwind_other *unwinder; /* to be used instead of ours; or NULL */
	bool full;			     /* native frames inside the evaluation loop, too */
	void (*tick)(void *arg); /* called every 70 ms on the resolver's thread; may be NULL */
	/* Is something from before @until not queued yet, or queued and the control thread has
	 * yet to tell more of it? NULL: never. */
	bool (*waits)(void *arg, uint64_t until);
	void *tick_arg;		 /* of both */
	struct targets *targets; /* of samples that nobody could judge; may be NULL */
	const char *files;	 /* assembler_config's; NULL but in a replay */
	const struct kernel_names *kernel_names; /* assembler_config's */
	struct work *work;	 /* where its thread counts what it does; may be NULL */
	int nice;		 /* its thread's, whatever the one that starts it has */
};

/* Samples handed to the sinks, by provenance. */
struct resolver_counts {
	uint64_t by_prov[PROV_N];
};

struct resolver *resolver_create(const struct resolver_config *c);
int resolver_start(struct resolver *r); /* its thread; 0 or -errno */

/* One queue more, which config's @queues must have room for. Control thread. */
void resolver_add_queue(struct resolver *r, struct queue *q);

/* Everything queued goes to the sinks, then the thread ends. The readers must have
 * stopped before. */
void resolver_stop(struct resolver *r, struct resolver_counts *ret);
void resolver_destroy(struct resolver *r);

/* Have all outputs, the sinks with a path, failed (disk full)? Any thread. One that has is given
 * nothing more. */
bool resolver_failed(const struct resolver *r);
/* A sink that has failed and was not told of yet, or NULL. Its path and why do not change any more.
 * Control thread. */
const struct sink *resolver_next_failed(struct resolver *r);

#endif
