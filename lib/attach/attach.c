/* SPDX-License-Identifier: MIT
 *
 * attach - which threads have events, who gets them next, and when they are inherited instead.
 */
#include "attach/attach_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "watch/proof.h"
#include "base/clock.h"
#include "base/stats.h"
#include "attach/forkwatch.h"
#include "sample/perf_decode.h"
#include "sys/cpus.h"
#include "sys/proc.h"

enum {
	FORK_TRIES = 20,
	FORK_BYTES = 256, /* of its record, and of one before it of what was lost */
	PATIENCE_NS = 100000000, /* to see one thread outside fork() */
	ALL_PATIENCE_NS = 1000000000,
};

/* True: the CPU went offline while it was watched. An event of all that it runs can't be opened
 * until it is back, so it counts as one that has lost its events: cpuwatch opens them then. */
static bool is_gone(struct cpu_slot *slot)
{
	struct cpus online;

	if (!atomic_load(&slot->watched_ns) || cpus_system(&online, "online") < 0 ||
	    cpus_has(&online, slot->cpu))
		return false;
	clock_raise(&slot->gone_ns, now_ns());
	return true;
}

/* On all CPUs, or none. */
static int open_events(const struct attach *a, pid_t tid, int *fds, struct err *err)
{
	int r = 0;

	for (size_t slot = 0; r == 0 && slot < a->n_slots; slot++) {
		r = attach_open_on(a, tid, slot, fds, false, err);
		if (r < 0 && tid == ATTACH_ALL && is_gone(&a->slots[slot]))
			r = 0;
	}
	if (r < 0)
		attach_close_fds(fds, attach_per_thread(a));
	return r;
}

/* Room for the events of a thread, also on CPUs that come later. */
static int *new_fds(const struct attach *a)
{
	size_t n = a->cap_slots * attach_per_cpu(a);
	int *fds = malloc(n * sizeof(*fds));

	for (size_t i = 0; fds && i < n; i++)
		fds[i] = -1;
	return fds;
}

/* Where @tid is among the attached, or would be. */
static size_t place_of(const struct attach *a, pid_t tid)
{
	size_t lo = 0, hi = a->n_attached;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (a->attached[mid].tid < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static const struct attached *find_attached(const struct attach *a, pid_t tid)
{
	size_t at = place_of(a, tid);

	return at < a->n_attached && a->attached[at].tid == tid ? &a->attached[at] : NULL;
}

static int add_attached(struct attach *a, struct attached add)
{
	size_t at = place_of(a, add.tid);
	struct attached *t = realloc(a->attached, (a->n_attached + 1) * sizeof(*t));

	if (!t)
		return -ENOMEM;
	a->attached = t;
	memmove(&t[at + 1], &t[at], (a->n_attached++ - at) * sizeof(*t));
	t[at] = add;
	return 0;
}

/* The same of a thread that has slept since forkwatch_sleepers() told @turns of it. 1: it has not. */
static int open_asleep(struct attach *a, struct attached *t, uint64_t turns, struct err *err)
{
	int r = open_events(a, t->tid, t->fds, err);

	t->since = now_ns();
	if (r < 0 || forkwatch_sleeps(t->tid, turns))
		return r;
	attach_close_fds(t->fds, attach_per_thread(a));
	return 1;
}

/* In one piece: while it forks we try again, for a child would have got some of its
 * events. Closing them takes them from the child too. */
static int open_unforked(struct attach *a, struct attached *t, uint64_t turns, struct err *err)
{
	bool forked = true;
	int r = turns ? open_asleep(a, t, turns, err) : 1;

	if (r <= 0)
		return r;
	r = 0;
	for (int i = 0; r == 0 && forked && i < FORK_TRIES; i++) {
		struct forkwatch w;
		bool watched = a->inherit && t->tid != ATTACH_ALL &&
			       forkwatch_open(&w, t->tid) == 0;

		if (i > 0)
			attach_close_fds(t->fds, attach_per_thread(a));
		r = open_events(a, t->tid, t->fds, err);
		t->since = now_ns();
		forked = r == 0 && watched &&
			 forkwatch_forked(&w, t->tid, t->since,
					  MIN(t->since + PATIENCE_NS, a->until_ns));
		if (watched)
			forkwatch_close(&w);
	}
	return r;
}

static void add_ids(const struct attach *a, struct event_ids *ids, const struct attached *t)
{
	for (size_t i = 0; i < attach_per_thread(a); i++) {
		size_t number = i % attach_per_cpu(a), e;
		enum part part = attach_part(a, t->tid, number, &e);
		uint64_t id;

		if (t->fds[i] < 0 || part == PART_COUNT || part == PART_SIDE ||
		    ioctl(t->fds[i], PERF_EVENT_IOC_ID, &id) < 0)
			continue;
		if (number >= attach_first_early(a))
			number = session_early_number(a->session, e);
		event_ids_add(ids, id, (uint8_t)number);
	}
}

static bool somebody_looks(const struct attach *a)
{
	for (size_t i = 0; i < a->n_slots; i++)
		if (atomic_load(&a->slots[i].looking))
			return true;
	return false;
}

/* A table of those that live, with as much room again. A reader that looks just now may be in
 * any of those before; all others go to the new one and no further than the last. */
static int renew_ids(struct attach *a)
{
	size_t n = 2 * (a->n_attached + 1) * attach_per_thread(a);
	struct event_ids *last = atomic_load(&a->ids);
	struct event_ids *ids = event_ids_create((uint32_t)n, last);

	if (!ids)
		return -ENOMEM;
	for (size_t t = 0; t < a->n_attached; t++)
		add_ids(a, ids, &a->attached[t]);
	atomic_store(&a->ids, ids);
	if (last && !somebody_looks(a))
		event_ids_destroy_older(last);
	return 0;
}

static int learn_ids(struct attach *a, const struct attached *t)
{
	struct event_ids *ids = atomic_load(&a->ids);
	int r = 0;

	/* As watch_event_of(): nobody looks for one. */
	if (a->session->n_events == 1 && !a->witness && !a->split)
		return 0;
	if (!ids || !event_ids_room(ids, (uint32_t)attach_per_thread(a)))
		r = renew_ids(a);
	if (r == 0)
		add_ids(a, atomic_load(&a->ids), t);
	return r;
}

/* True: samples come with descriptor number @i of @t. */
static bool is_sampler(const struct attach *a, const struct attached *t, size_t i)
{
	size_t e;

	return attach_part(a, t->tid, i % attach_per_cpu(a), &e) == PART_SAMPLES;
}

static int arm(const struct attach *a, const struct attached *t, struct err *err)
{
	int r = 0;

	for (size_t i = 0; a->hooks.arm && r == 0 && i < attach_per_thread(a); i++)
		if (t->fds[i] >= 0 && is_sampler(a, t, i))
			r = a->hooks.arm(a->hooks.arg, t->tid, i / attach_per_cpu(a),
					 t->fds[i]);
	return r < 0 ? err_set(err, r, "a signal for thread %d: %s", t->tid, strerror(-r)) : 0;
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "there is no memory for a thread's events");
}

/* Its events, and the list's entry. */
static int open_thread(struct attach *a, pid_t tid, uint64_t turns, struct err *err)
{
	struct attached t = { .tid = tid, .fds = new_fds(a) };
	int r;

	if (!t.fds)
		return no_memory(err);
	r = open_unforked(a, &t, turns, err);
	if (r == 0) {
		r = arm(a, &t, err);
		if (r == 0 && (learn_ids(a, &t) < 0 || add_attached(a, t) < 0))
			r = no_memory(err);
		if (r < 0)
			attach_close_fds(t.fds, attach_per_thread(a));
	}
	if (r < 0)
		free(t.fds);
	return r;
}

/* @turns: forkwatch_sleepers() told that of it; 0: nothing. */
static int attach_one(struct attach *a, pid_t tid, uint64_t turns, struct err *err)
{
	int r = a->hooks.seize ? a->hooks.seize(a->hooks.arg, tid, err) : 0;

	if (r < 0)
		return r;
	if (a->readers)
		proof_opening(a->readers, tid);
	r = open_thread(a, tid, turns, err);
	if (a->readers)
		proof_opened(a->readers, tid);
	return r;
}

int attach_thread(struct attach *a, pid_t tid, struct err *err)
{
	return attach_one(a, tid, 0, err);
}

int attach_cpus(struct attach *a, struct err *err)
{
	int r = attach_thread(a, ATTACH_ALL, err);

	a->on_cpus |= r == 0;
	return r;
}

void attach_end_early(struct attach *a)
{
	for (size_t t = 0; a->early && t < a->n_attached; t++)
		for (size_t slot = 0; slot < a->n_slots; slot++)
			attach_close_fds(a->attached[t].fds + slot * attach_per_cpu(a) +
						 attach_first_early(a),
					 a->session->n_events);
	a->early_ended = true;
}

bool attach_has(const struct attach *a, pid_t tid)
{
	return find_attached(a, tid);
}

pid_t attach_next(const struct attach *a, pid_t tid)
{
	size_t at = place_of(a, tid + 1);

	return at < a->n_attached ? a->attached[at].tid : 0;
}

/* Takes @tid out of the list. */
static struct attached take_out(struct attach *a, pid_t tid)
{
	size_t at = place_of(a, tid);
	struct attached t = a->attached[at];

	memmove(&a->attached[at], &a->attached[at + 1],
		(--a->n_attached - at) * sizeof(*a->attached));
	return t;
}

/* Its events end, what they counted does not. */
static void let_go(struct attach *a, struct attached *t)
{
	attach_keep_counts(a, t, 0, attach_per_thread(a));
	attach_close_fds(t->fds, attach_per_thread(a));
	free(t->fds);
}

void attach_forget(struct attach *a, pid_t tid)
{
	struct attached t;

	if (!attach_has(a, tid))
		return;
	t = take_out(a, tid);
	let_go(a, &t);
}

void attach_renamed(struct attach *a, pid_t tid, pid_t to)
{
	struct attached t;

	attach_forget(a, to); /* the thread that had this number is gone */
	if (!attach_has(a, tid))
		return;
	t = take_out(a, tid);
	t.tid = to;
	if (arm(a, &t, NULL) < 0 || add_attached(a, t) < 0)
		let_go(a, &t);
}

/* A FORK record of @tid, older than @before, in a ring that nobody reads yet. */
static bool find_record(const struct perf_ring *ring, pid_t tid, uint64_t before,
			struct side *ret)
{
	_Alignas(8) unsigned char bounce[PERF_RECORD_BYTES];
	uint64_t pos = perf_ring_tail(ring), head = perf_ring_head(ring);

	while (pos < head) {
		const struct perf_event_header *h = perf_ring_at(ring, pos, bounce);

		if (!h)
			break;
		if (h->type == PERF_RECORD_FORK && perf_decode_side(h, ret) == 0 &&
		    ret->tid == tid && ret->time < before)
			return true;
		pos += h->size;
	}
	return false;
}

static bool find_fork(const struct attach *a, pid_t tid, uint64_t before, struct side *ret)
{
	for (size_t i = 0; i < a->n_slots; i++)
		if (find_record(&a->slots[i].ring, tid, before, ret))
			return true;
	return false;
}

/* Nobody makes room in a ring yet. */
static bool is_full(const struct perf_ring *ring)
{
	return perf_ring_head(ring) - perf_ring_tail(ring) + FORK_BYTES > ring->size;
}

/* True: the record of @tid's fork may be missing. Who is older than all events, with which patience
 * began, has inherited none. */
static bool is_hidden(const struct attach *a, pid_t tid)
{
	bool full = false;

	for (size_t i = 0; a->inherit && !full && i < a->n_slots; i++)
		full = is_full(&a->slots[i].ring);
	return full && !proc_was_there(tid, a->until_ns - ALL_PATIENCE_NS);
}

enum heritage { INHERITS_NOT, INHERITS, MAY_INHERIT };

/* Did a thread that has our events make @tid, or who made it? Then it has them too. Whoever made a
 * thread was made earlier; a later one has its number since. */
static enum heritage heritage_of(const struct attach *a, pid_t tid)
{
	struct side fork = { .time = UINT64_MAX };
	const struct attached *maker = NULL;
	pid_t made = tid;

	while (a->inherit && !maker && find_fork(a, made, fork.time, &fork)) {
		made = fork.u.fork.ptid;
		maker = find_attached(a, made);
	}
	if (maker)
		return fork.time > maker->since ? INHERITS : INHERITS_NOT;
	return is_hidden(a, tid) ? MAY_INHERIT : INHERITS_NOT;
}

static bool wanted(pid_t tid, const pid_t *only, size_t n_only)
{
	for (size_t i = 0; i < n_only; i++)
		if (only[i] == tid)
			return true;
	return n_only == 0;
}

static void between(struct attach *a)
{
	if (!a->hooks.between)
		return;
	a->hooks.between(a->hooks.arg);
	nudges_set(&a->nudges, PERF_EVENT_NUDGE_MS); /* who attached meanwhile ended them */
}

/* Those of @n threads that are wanted and have no events come first. How many. */
static size_t new_first(const struct attach *a, pid_t *tids, size_t n, const pid_t *only,
			size_t n_only)
{
	size_t first = 0;

	for (size_t i = 0; i < n; i++) {
		pid_t tid = tids[i];

		if (!wanted(tid, only, n_only) || find_attached(a, tid))
			continue;
		tids[i] = tids[first];
		tids[first++] = tid;
	}
	return first;
}

/* How many threads got events, and how many did not because they may have some. */
struct pass {
	size_t opened, undecided;
};

/* One pass over the threads. */
static int attach_pass(struct attach *a, pid_t pid, const pid_t *only, size_t n_only,
		       struct pass *pass, struct err *err)
{
	_cleanup_free_ uint64_t *turns = NULL;
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0, n_new;
	int r = proc_tasks(pid, &tids, &n);

	*pass = (struct pass){ 0 };
	if (proc_is_short(r))
		return proc_short(pid, r, err);
	if (r < 0)
		return err_set(err, -ESRCH, "process %d is gone", pid);
	n_new = new_first(a, tids, n, only, n_only);
	turns = a->inherit && n_new ? calloc(n_new, sizeof(*turns)) : NULL;
	if (turns)
		forkwatch_sleepers(tids, n_new, turns);
	for (size_t i = 0; r == 0 && i < n && !stop_asked(a->stop); i++) {
		enum heritage heritage;

		between(a);
		if (i >= n_new || find_attached(a, tids[i]))
			continue;
		heritage = heritage_of(a, tids[i]);
		pass->undecided += heritage == MAY_INHERIT;
		if (heritage != INHERITS_NOT)
			continue;
		r = attach_one(a, tids[i], turns ? turns[i] : 0, err);
		if (r == -ESRCH)
			r = 0; /* it ended in between */
		pass->opened++;
	}
	return r;
}

int attach_process(struct attach *a, pid_t pid, const pid_t *only, size_t n_only,
		   struct err *err)
{
	struct pass last = { .opened = 1 };
	int r = 0;

	if (!a->until_ns)
		a->until_ns = now_ns() + ALL_PATIENCE_NS;
	nudges_set(&a->nudges, PERF_EVENT_NUDGE_MS);
	for (int pass = 0; r == 0 && last.opened && pass < 10; pass++)
		r = attach_pass(a, pid, only, n_only, &last, err);
	nudges_set(&a->nudges, 0);
	if (last.undecided)
		STATS_ADD(a->session->stats, undecided, last.undecided);
	return r;
}

/* The entry of @tid, a new one if it inherited what it has. NULL: no memory. */
static struct attached *entry_of(struct attach *a, pid_t tid)
{
	struct attached t = { .tid = tid, .since = now_ns() };

	if (!attach_has(a, tid)) {
		t.fds = new_fds(a);
		if (!t.fds || add_attached(a, t) < 0) {
			free(t.fds);
			return NULL;
		}
	}
	return &a->attached[place_of(a, tid)];
}

/* Who was born just now and has inherited nothing gets its events on all CPUs in one piece. */
static bool has_none_yet(const struct attach *a, pid_t tid)
{
	return !a->inherit && !attach_has(a, tid);
}

int attach_cpu(struct attach *a, size_t slot, const pid_t *tids, size_t n, struct err *err)
{
	int r = 0;

	a->n_slots = MAX(a->n_slots, slot + 1);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct attached *t;

		if (has_none_yet(a, tids[i]))
			continue;
		t = entry_of(a, tids[i]);
		r = t ? attach_open_on(a, tids[i], slot, t->fds, true, err) : -ENOMEM;
		if (r == -ESRCH)
			r = 0; /* it ended in between */
	}
	return r == 0 && (attach_per_cpu(a) > 1 || a->split) ? renew_ids(a) : r;
}

static void control(const struct attached *t, size_t from, size_t n, unsigned long request)
{
	for (size_t i = from; i < from + n; i++)
		if (t->fds[i] >= 0)
			ioctl(t->fds[i], request, 0);
}

void attach_enable_cpu(struct attach *a, size_t slot)
{
	for (size_t t = 0; t < a->n_attached; t++)
		control(&a->attached[t], slot * attach_per_cpu(a), attach_per_cpu(a),
			PERF_EVENT_IOC_ENABLE);
}

void attach_close_cpu(struct attach *a, size_t slot)
{
	size_t from = slot * attach_per_cpu(a);

	attach_publish_samplers(a, slot, NULL);
	for (size_t t = 0; t < a->n_attached; t++) {
		attach_keep_counts(a, &a->attached[t], from, attach_per_cpu(a));
		attach_close_fds(a->attached[t].fds + from, attach_per_cpu(a));
	}
}

static void control_all(const struct attach *a, pid_t tid, unsigned long request)
{
	for (size_t t = 0; t < a->n_attached; t++)
		if (!tid || a->attached[t].tid == tid)
			control(&a->attached[t], 0, attach_per_thread(a), request);
}

void attach_signal(struct attach *a, pid_t tid, bool send)
{
	for (size_t t = 0; t < a->n_attached; t++)
		for (size_t i = 0; i < attach_per_thread(a); i++)
			if ((!tid || a->attached[t].tid == tid) &&
			    is_sampler(a, &a->attached[t], i))
				fcntl(a->attached[t].fds[i], F_SETFL, send ? O_ASYNC : 0);
}

void attach_enable(struct attach *a, pid_t tid)
{
	control_all(a, tid, PERF_EVENT_IOC_ENABLE);
}

void attach_disable(struct attach *a)
{
	control_all(a, 0, PERF_EVENT_IOC_DISABLE);
}

void attach_deinit(struct attach *a)
{
	nudges_deinit(&a->nudges);
	for (size_t t = 0; t < a->n_attached; t++) {
		attach_close_fds(a->attached[t].fds, attach_per_thread(a));
		free(a->attached[t].fds);
	}
	free(a->attached);
	a->attached = NULL;
	a->n_attached = 0;
	event_ids_destroy(atomic_load(&a->ids));
}
