/* SPDX-License-Identifier: MIT
 *
 * recorder_start: what targets are is told as of a moment before there were events, for a child that
 * is forked while the recording begins is a copy of what its parent was told to be by then.
 */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "unit.h"
#include "base/clock.h"
#include "base/stats.h"
#include "capture/reader.h"
#include "record/recorder_int.h"
#include "sample/sink.h"
#include "targets/joins.h"
#include "targets/scope.h"
#include "targets/tracker_int.h"

#include "sleeper.h"

/* In the place of joins.c: events are open, and nothing is announced yet. */
struct joins {
	struct tracker *t;
	pid_t found; /* a child of ours, which becomes a target then */
	uint64_t found_ns, begun_ns;
};

struct joins *joins_create(struct tracker *t, const struct scope *s,
			   struct joins_listener listener)
{
	return NULL;
}

void joins_destroy(struct joins *j)
{
}

void joins_begin(struct joins *j, bool told)
{
	struct target *t = tracker_add(j->t, j->found, 0);

	assert_non_null(t);
	j->found_ns = t->since_ns;
	j->begun_ns = now_ns();
}

pid_t joins_parent(const struct joins *j, pid_t pid)
{
	return -ESRCH;
}

bool joins_look(struct joins *j, pid_t pid)
{
	return true;
}

pid_t joins_run(struct joins *j)
{
	return 0;
}

int joins_due_ms(const struct joins *j, int most)
{
	return most;
}

/* What is told of a process, and as of when. */
struct told {
	size_t comms, maps;
	uint64_t first, last;
};

struct fix {
	struct recorder *r; /* owned, and its own tracker */
	struct session session;
	struct stats stats;
	struct scope scope;
	struct joins joins;
	struct sink sink;
	pid_t pid; /* a child of ours, which was a target before */
	struct told known, found;
};

static void note(struct told *t, const struct side *side)
{
	t->first = t->comms + t->maps ? MIN(t->first, side->time) : side->time;
	t->last = MAX(t->last, side->time);
	t->comms += side->kind == SIDE_COMM;
	t->maps += side->kind == SIDE_MMAP;
}

static int take_side(struct sink *s, const struct side *side)
{
	struct fix *f = s->priv;

	if (side->announced && side->pid == f->pid)
		note(&f->known, side);
	if (side->announced && side->pid == f->joins.found)
		note(&f->found, side);
	return 0;
}

static int take_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	return 0;
}

/* All events count on CPUs, of which there is none, so that none has to be opened. */
static struct recorder *make_recorder(struct fix *f)
{
	struct recorder *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->session = r->attach.session = &f->session;
	r->o.scope = &f->scope;
	r->o.value = 1;
	r->joins = &f->joins;
	r->plan.wide = true;
	r->perf.inherit = true; /* nobody asks a capture whether it finds threads */
	cpus_add(&r->possible, 0);
	r->filter.map = r->table.map = r->sight.map = r->sight.link = -1;
	r->kernel_names.program = -1;
	r->cgroup = r->last = -1;
	for (size_t i = 0; i < RECORDER_MAX_PIDS; i++)
		r->pidfds[i] = -1;
	r->config.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->config.namer_kick = -1;
	r->config.stats = &f->stats;
	r->config.targets = &r->tracker.targets;
	r->begun_ns = now_ns();
	assert_int_equal(tracker_init(&r->tracker, r->config.kick), 0);
	return r;
}

static int setup(void **state)
{
	static const struct sink_ops ops = {
		.name = "told", .side = take_side, .sample = take_sample
	};
	struct fix *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->session.stats = &f->stats;
	f->session.n_events = 1;
	f->session.events[0].attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS
	};
	f->scope.all = true;
	f->sink = (struct sink){ .ops = &ops, .priv = f };
	f->pid = sleeper_start();
	f->joins.found = sleeper_start();
	f->r = make_recorder(f);
	f->joins.t = &f->r->tracker;
	assert_non_null(tracker_add(&f->r->tracker, f->pid, 0));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	recorder_destroy(f->r);
	sleeper_end(f->pid);
	sleeper_end(f->joins.found);
	free(f);
	return 0;
}

static void record(struct fix *f)
{
	struct sink *sink = &f->sink;
	struct resolver_counts counts;
	struct err err;

	assert_int_equal(recorder_start(f->r, &sink, 1, &err), 0);
	recorder_detach(f->r);
	readers_stop(f->r->config.slots, f->r->config.n_slots);
	resolver_stop(f->r->resolver, &counts);
}

static void forked_while_it_begins(void **state)
{
	struct fix *f = *state;

	record(f);
	assert_true(f->known.comms && f->known.maps);
	assert_true(f->known.last < f->joins.found_ns);
	/* Its own fork may have been told by then. */
	assert_true(f->found.comms && f->found.maps);
	assert_true(f->found.first >= f->joins.found_ns);
	assert_true(f->found.last <= f->joins.begun_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(forked_while_it_begins, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
