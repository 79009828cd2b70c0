/* SPDX-License-Identifier: MIT
 *
 * recorder_start - rings, events, readers and the resolver: in the order in which nothing is
 * lost.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "capture/reader.h"
#include "targets/births.h"
#include "targets/joins.h"
#include "targets/ours.h"
#include "capture/waits.h"
#include "base/clock.h"
#include "base/nudge.h"
#include "base/resident.h"
#include "base/sparse.h"
#include "sys/proc.h"
#include "record/recorder_int.h"
#include "sample/sink.h"

enum {
	QUEUE_BYTES = 2 << 20,
	NAMES_BYTES = 256 << 10,
	READY_S = 1,	     /* the readers have them to begin */
	OWN_QUEUES = 3,	     /* that are no reader's, at most */
	NAMER_NS = 40000000, /* until names are read: samples wait longer for them */
};

/* The CPUs with their queues; the rings come later. */
static int make_slots(struct recorder *r, struct err *err)
{
	struct reader_config *c = &r->config;
	/* In one block, as large as what malloc() maps: it clears smaller ones. */
	char *queues = sparse_alloc(QUEUE_BYTES + NAMES_BYTES);
	int ret;

	r->config.namer_kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!queues)
		return err_set(err, -ENOMEM, "out of memory");
	queue_place(&r->own, queues, QUEUE_BYTES);
	queue_place(&r->names, queues + QUEUE_BYTES, NAMES_BYTES);
	c->cap_slots = (uint32_t)MAX(cpus_count(&r->possible), cpus_count(&r->cpus));
	c->room_bytes = reader_bytes(c);
	ret = slots_init(c, &r->cpus, err);
	if (ret < 0 || r->o.mode != RECORDER_WALL)
		return ret;
	r->waits = waits_create(c);
	if (r->waits)
		c->waits = waits_post(r->waits);
	return r->waits ? 0 : err_set(err, -ENOMEM, "out of memory, or of descriptors");
}

int recorder_go_without(struct recorder *r, pid_t pid, int code, const struct err *err)
{
	struct target *t = targets_find(&r->tracker.targets, pid);
	struct recorder_options *o = &r->o;
	size_t i = 0;

	/* -EAGAIN: the tracer will have it when its exec is over. */
	if (code != -ESRCH && code != -EACCES && code != -EPERM && code != -EAGAIN)
		return code;
	while (i < o->n_pids && o->pids[i] != pid)
		i++;
	if (i == o->n_pids) {
		if (t)
			t->unwatched = true;
		return 0;
	}
	if (o->n_pids == 1)
		return code;
	note_say(&r->o.note, "without process %d: %s", pid, err->text);
	tracker_gone(&r->tracker, pid);
	r->cpuwatch.n_pids = --o->n_pids;
	memmove(&o->pids[i], &o->pids[i + 1], (o->n_pids - i) * sizeof(*o->pids));
	if (r->pidfds[i] >= 0)
		close(r->pidfds[i]);
	memmove(&r->pidfds[i], &r->pidfds[i + 1], (o->n_pids - i) * sizeof(*r->pidfds));
	r->pidfds[o->n_pids] = -1;
	return 0;
}

/* Its number may be another process's. */
static bool has_ended(const struct recorder *r, const struct target *t)
{
	for (size_t i = 0; i < r->o.n_pids; i++)
		if (r->o.pids[i] == t->pid)
			return r->pidfds[i] < 0 || proc_has_ended(r->pidfds[i]);
	return !proc_was_there(t->pid, t->since_ns);
}

/* Attach to @t, or to nobody. */
static int attach_target(struct recorder *r, const struct target *t, struct err *err)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;
	int ret = attach_process(&r->attach, t->pid, r->o.tids, r->o.n_tids, err);

	if (ret < 0 || !has_ended(r, t))
		return ret;
	if (proc_tasks(t->pid, &tids, &n) == 0)
		for (size_t i = 0; i < n; i++)
			attach_forget(&r->attach, tids[i]);
	return err_set(err, -ESRCH, "process %d has ended", t->pid);
}

/* Attach to the targets from number *@done on, which moves to their end. */
static int attach_targets(struct recorder *r, size_t *done, struct err *err)
{
	int ret = 0;

	for (; ret == 0 && *done < r->tracker.targets.n_all && !stop_asked(r->o.stop);
	     (*done)++) {
		pid_t pid = r->tracker.targets.all[*done]->pid;

		recorder_tell_progress(r, *done);
		ret = attach_target(r, r->tracker.targets.all[*done], err);
		if (ret < 0)
			ret = recorder_go_without(r, pid, ret, err);
	}
	return ret;
}

/* A child forked before its parent had events, but after the list of children was
 * made, is in neither: list again until no new one shows up. */
static int attach_all(void *arg, struct err *err)
{
	struct recorder *r = arg;
	size_t done = 0;
	int ret;

	do {
		ret = attach_targets(r, &done, err);
		if (ret == 0 && r->o.follow)
			ret = tracker_born(&r->tracker, r->o.pids, r->o.n_pids);
	} while (ret == 0 && done < r->tracker.targets.n_all && !stop_asked(r->o.stop));
	if (ret == 0 && !stop_asked(r->o.stop) && r->o.n_tids &&
	    r->attach.n_attached < r->o.n_tids)
		ret = err_set(err, -ESRCH, "a thread that -t names has ended");
	return ret;
}

/* On threads: by the thread that the capture says. */
static int attach_threads(struct recorder *r, struct err *err)
{
	size_t n = r->o.follow ? r->tracker.targets.n_all : 0;
	_cleanup_free_ pid_t *others = calloc(n + 1, sizeof(*others));
	struct tracer_config c = {
		.attach = &r->attach,
		.slots = r->config.slots,
		.n_slots = r->config.n_slots,
		.threads = r->o.n_tids == 0,
		.children = r->o.n_tids == 0 && r->o.follow,
		.child = r->o.child ? r->o.pids[0] : 0,
		.child_end = &r->child_end,
		.refusal = &r->refused,
		.ctl = &r->traced,
		.kick = r->config.kick,
		.work = &r->config.others,
	};
	struct capture_attach a = {
		.attach = attach_all,
		.arg = r,
		.pids = r->deciders,
		.n_pids = r->n_deciders,
		.others = others,
		.n_others = n,
		.note = &r->o.note,
		.tracer = &c,
		.ret_tracer = &r->tracer,
	};

	if (!others)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		others[i] = r->tracker.targets.all[i]->pid;
	return r->capture->attach(&a, err);
}

static int attach(struct recorder *r, struct err *err)
{
	r->attach = (struct attach){
		.session = r->session,
		.slots = r->config.slots,
		.n_slots = r->config.n_slots,
		.cap_slots = r->config.cap_slots,
		.inherit = r->perf.inherit,
		.witness = r->attach.witness,
		.counter = r->attach.counter,
		.side = r->attach.side,
		.split = r->place != PLACE_THREADS && !r->by_table,
		.early = r->place == PLACE_THREADS_FIRST,
		.cgroup = r->cgroup,
		.filter = r->filter.map >= 0 ? &r->filter : NULL,
		.table = r->by_table ? &r->table : NULL,
		.stop = r->o.stop,
	};
	if (r->plan.wide)
		return attach_cpus(&r->attach, err);
	return attach_threads(r, err);
}

/* Threads take the samples until CPUs do, so that none is taken twice. */
static int start_on_cpus(struct recorder *r, struct err *err)
{
	int ret = attach_cpus(&r->attach, err);

	if (ret == 0)
		atomic_store(&r->config.over_ns, now_ns());
	return ret;
}

void recorder_go_over(struct recorder *r)
{
	struct err err;

	if (start_on_cpus(r, &err) < 0) {
		note_say(&r->o.note, "events stay on threads: %s", err.text);
		return;
	}
	attach_end_early(&r->attach);
	note_say(&r->o.note,
		 "threads are born often, and would be sampled too rarely by events of their "
		 "own: "
		 "from now on events count on CPUs, at the cost of an interrupt a period to "
		 "whatever runs there");
}

/* Events that see all: what is there belongs to us, children since the last look too. */
static int claim(struct recorder *r)
{
	int ret = 0;

	r->config.tids = r->o.tids;
	r->config.n_tids = r->o.n_tids;
	r->config.ours = ours_create(NULL);
	if (r->config.table && r->config.ours)
		r->config.named = ours_create(r->config.ours);
	if (r->o.scope && r->config.ours) {
		r->config.strangers = ours_create(r->config.ours);
		r->config.descends = recorder_descends(r);
		r->config.adopts = scope_is_open(r->o.scope);
		if (!r->config.strangers)
			return -ENOMEM;
	}
	if (r->o.follow)
		ret = tracker_born(&r->tracker, r->o.pids, r->o.n_pids);
	for (size_t i = 0; i < r->tracker.targets.n_all; i++) {
		const struct target *t = r->tracker.targets.all[i];

		/* Not who is gone, and whose number somebody else may have. */
		if (targets_find(&r->tracker.targets, t->pid) == t)
			ours_set(r->config.ours, t->pid, true);
	}
	return r->config.ours ? ret : -ENOMEM;
}

static int fill_config(struct recorder *r, struct sink *const *sinks, size_t n_sinks)
{
	struct reader_config *c = &r->config;

	c->session = r->session;
	c->hold_budget = r->o.hold_budget;
	c->nice = r->nice;
	c->sample_type = r->session->events[0].attr.sample_type;
	c->witness = r->attach.witness;
	c->counter = r->attach.counter;
	c->only_gil = r->o.mode == RECORDER_GIL;
	c->native = r->o.native;
	c->stack_bytes = r->perf.stack;
	c->record_bytes = (uint32_t)perf_record_longest(
		c->stack_bytes, c->sample_type & PERF_SAMPLE_CALLCHAIN);
	c->follow = r->o.follow;
	c->tell_threads = !r->perf.inherit && !r->o.n_tids && !r->capture->finds_threads &&
			  !r->plan.wide;
	c->tape = sinks_need(sinks, n_sinks) & SINK_NEEDS_READS;
	atomic_init(&c->start_ns, UINT64_MAX);
	atomic_init(&c->end_ns, UINT64_MAX);
	atomic_init(&c->over_ns, UINT64_MAX);
	c->split = r->attach.split;
	c->early = r->attach.early;
	c->filter = r->attach.filter;
	c->table = r->attach.table;
	c->child = r->o.child ? r->o.pids[0] : 0;
	c->last_in = calloc(LAST_IN, sizeof(*c->last_in));
	if (c->switches_hidden && !c->table)
		c->last_out = calloc(LAST_IN, sizeof(*c->last_out));
	c->ids = &r->attach.ids;
	c->births = births_create();
	tracker_teach(&r->tracker, c->births);
	if (!c->last_in || !c->births || (c->switches_hidden && !c->table && !c->last_out))
		return -ENOMEM;
	if (c->tell_threads)
		r->attach.readers = c;
	if (r->plan.wide || c->split) {
		int ret = claim(r);

		if (ret < 0)
			return ret;
	}
	if (r->o.scope)
		joins_begin(r->joins, r->plan.wide);
	return 0;
}

/* On the resolver's thread, which wakes up anyway: a reader inside a read is worth a look
 * of the control thread. */
static void look_at_readers(void *arg)
{
	struct recorder *r = arg;

	for (size_t i = 0; i < r->config.n_slots; i++)
		if (guard_look(&r->config.slots[i].guard) & 1)
			eventfd_write(r->config.kick, 1);
}

/* A ring holds what came before @until. Its reader may sleep: no record but a sample wakes it.
 */
static bool is_behind(struct cpu_slot *s, uint64_t until)
{
	return atomic_load_explicit(&s->drained_ns, memory_order_acquire) < until &&
	       perf_ring_head(&s->ring) != perf_ring_tail(&s->ring);
}

static bool is_incomplete(void *arg, uint64_t until)
{
	struct recorder *r = arg;
	bool behind = false, waits = r->waits && waits_told_ns(r->waits) < until;

	for (size_t i = 0; !behind && i < r->config.n_slots; i++)
		behind = is_behind(&r->config.slots[i], until);
	if (behind && !atomic_exchange(&r->wake_wanted, true))
		eventfd_write(r->config.kick, 1);
	return behind || waits || atomic_load(&r->config.asked) != atomic_load(&r->config.answered);
}

/* Where outputs name kernel frames, and we may. */
static const struct kernel_names *load_kernel_names(struct recorder *r,
						    struct sink *const *sinks, size_t n)
{
	return r->session->flags & SESSION_KERNEL &&
			       sinks_need(sinks, n) & SINK_NEEDS_NAMES &&
			       kernel_names_init(&r->kernel_names) == 0 ?
		       &r->kernel_names :
		       NULL;
}

static int make_resolver(struct recorder *r, struct sink *const *sinks, size_t n_sinks)
{
	struct resolver_config c = {
		.session = r->session,
		.n_queues = r->config.n_slots + OWN_QUEUES - !r->waits,
		.n_sinks = n_sinks,
		.native = r->o.native,
		.full = r->o.full,
		.unwinder = r->o.unwinder,
		.tick = look_at_readers,
		.waits = is_incomplete,
		.tick_arg = r,
		.targets = &r->tracker.targets,
		.kernel_names = load_kernel_names(r, sinks, n_sinks),
		.work = &r->config.others,
		.nice = r->nice,
	};

	r->queues = calloc(r->config.cap_slots + OWN_QUEUES, sizeof(*r->queues));
	if (!r->queues)
		return -ENOMEM;
	r->queues[0] = &r->own;
	r->queues[1] = &r->names;
	for (size_t i = 0; i < r->config.n_slots; i++)
		r->queues[i + 2] = &r->config.slots[i].queue;
	if (r->waits)
		r->queues[r->config.n_slots + 2] = waits_queue(r->waits);
	c.queues = r->queues;
	memcpy(c.sinks, sinks, n_sinks * sizeof(*sinks));
	r->resolver = r->cpuwatch.resolver = resolver_create(&c);
	return r->resolver ? 0 : -ENOMEM;
}

/* On a busy machine it is milliseconds until they run for the first time. */
static void await_readers(struct recorder *r)
{
	clock_await(&r->config.all_ready, now_ns() + READY_S * 1000000000ull);
}

/* Whose number a named process had that has ended meanwhile is nobody of ours. */
static void drop_ended(struct recorder *r)
{
	for (size_t i = 0; i < r->o.n_pids; i++) {
		pid_t pid = r->o.pids[i];

		if (r->pidfds[i] >= 0 && !proc_has_ended(r->pidfds[i]))
			continue;
		tracker_gone(&r->tracker, pid);
		ours_set(r->config.ours, pid, false);
		ours_set(r->config.named, pid, false);
	}
}

/* A thread of ours lacks something: the target is not to blame. */
static int not_started(const char *who, struct err *err)
{
	return err_set(err, -ENOMEM,
		       "can't start %s: memory, descriptors (ulimit -n) or threads (ulimit -u) "
		       "ran out",
		       who);
}

static int start_readers(struct recorder *r, struct err *err)
{
	int ret = 0;

	nudge_init();
	sem_init(&r->config.all_ready, 0, 0);
	for (size_t i = 0; ret == 0 && i < r->config.n_slots; i++)
		ret = reader_start(&r->config, &r->config.slots[i]);
	if (ret < 0)
		return not_started("the readers", err);
	await_readers(r);
	return 0;
}

/* Only from here on can a thread be held at its sample: what came before belongs to the
 * attaching, not to the recording. */
static int begin(struct recorder *r, struct err *err)
{
	uint64_t period = r->o.freq ? 1000000000 / r->o.value : r->o.value;

	r->session->start_ns = now_ns();
	atomic_store(&r->config.start_ns, r->session->start_ns);
	cpuwatch_begin(&r->cpuwatch, r->session->start_ns);
	if (r->tracer)
		tracer_go(r->tracer, !r->o.child);
	if (r->waits && waits_start(r->waits, period, r->session->start_ns) < 0)
		return not_started("the thread that reads waits", err);
	epoch_join(&r->tracker.targets.epoch, &r->namer_user);
	r->namer_ns = now_ns() + NAMER_NS;
	return 0;
}

/* What takes time comes first: once events are open their rings fill, and nobody reads
 * them until the readers run. */
int recorder_start(struct recorder *r, struct sink *const *sinks, size_t n_sinks,
		   struct err *err)
{
	uint64_t announced_ns;
	bool later;
	int ret = make_slots(r, err);

	if (ret < 0)
		return ret;
	resident_program();
	ret = make_resolver(r, sinks, n_sinks);
	if (ret < 0)
		return not_started("the thread that names stacks", err);
	/* A record of a fork comes after what the parent had mapped, which the child has too. */
	announced_ns = now_ns();
	ret = slots_open_rings(&r->config, r->plan.ring_pages, err);
	if (ret == 0)
		ret = attach(r, err);
	if (ret < 0)
		return ret;
	ret = fill_config(r, sinks, n_sinks);
	if (ret < 0)
		return err_set(err, ret, "%s", strerror(-ret));
	/* Not before it was asked who was born: threads of ours have numbers too. */
	ret = resolver_start(r->resolver);
	if (ret < 0)
		return not_started("the thread that names stacks", err);
	r->session->start_ns = now_ns();
	for (size_t i = 0; i < r->config.n_slots; i++)
		r->config.slots[i].watched_ns = r->session->start_ns;
	later = recorder_announce_all(r, announced_ns);
	if (later)
		atomic_fetch_add(&r->config.asked, 1);
	ret = start_readers(r, err);
	if (ret == 0 && r->attach.split && !r->attach.early)
		ret = start_on_cpus(r, err);
	if (ret < 0)
		return ret;
	drop_ended(r);
	recorder_begin_counting(r);
	ret = begin(r, err);
	if (ret == 0 && later)
		recorder_announce_later(r, announced_ns);
	return ret;
}
