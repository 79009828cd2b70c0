/* SPDX-License-Identifier: MIT */
#include "targets/tracker.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "targets/births.h"
#include "base/clock.h"
#include "targets/lookup.h"
#include "sys/family.h"
#include "sys/proc.h"
#include "targets/scout.h"
#include "base/stats.h"
#include "targets/tape_target.h"
#include "sample/wire.h"

#define DOUBT_MAX_NS (16ull * DOUBT_NS)

enum {
	PROBE_WAIT_MS = 1000, /* at attach, for those that the user named */
	SETTLE_MS = 200,      /* ... and for descendants */
	RETRY_MS = 10,	      /* doubled each time, to RETRY_MAX_MS */
	RETRY_MAX_MS = 200,
	JUST_NS = 1000000000,
	FRESH_TRIES = 16, /* so for 2 s also without a record that tells to look */
	AT_ONCE = 8,	  /* so many descendants are looked at before they run */
	SCOUT_MS = 2,
	DOUBT_NS = 1000000000, /* its last samples have been read by then; doubled each time */
	SETTLE_STEP_MS = 20,   /* where no end is told of */
	DOUBT_TRIES = 5, /* what is wrong in a program's first moments may be half made */
};

/* A process whose interpreter is being looked for. */
struct search {
	struct target *target;
	struct probe *probe;
	int tries;
	bool fresh; /* just started: its interpreter may not be mapped yet */
	bool again; /* asked for while the probe was looking */
	bool dropped;
	bool told_short; /* a person knows that descriptors did not suffice */
	uint64_t next_ns;
};

int tracker_init(struct tracker *t, int kick)
{
	*t = (struct tracker){ .kick = kick };
	return targets_init(&t->targets);
}

void tracker_deinit(struct tracker *t)
{
	for (size_t i = 0; i < t->n_searches; i++)
		probe_release(t->searches[i].probe);
	free(t->searches);
	scout_release(t->scout);
	free(t->scouted);
	targets_deinit(&t->targets);
}

/* --- targets --- */

static int compare_pairs(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return x[0] < y[0] ? -1 : x[0] > y[0];
}

/* In a PID namespace of its own a process numbers its threads differently. */
static int learn_inner_tids(struct target *t)
{
	bool same = proc_same_pid_namespace(t->pid);
	pid_t own = same ? t->pid : proc_inner_tid(t->pid, t->pid);
	_cleanup_free_ pid_t *tids = NULL;
	size_t n;

	t->inner_tids = own > 0 && own != t->pid;
	if (!t->inner_tids || proc_tasks(t->pid, &tids, &n) < 0)
		return 0;
	t->tids = calloc(n, sizeof(*t->tids));
	if (!t->tids)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		pid_t inner = proc_inner_tid(t->pid, tids[i]);

		t->tids[t->n_tids].outer = tids[i];
		t->tids[t->n_tids].inner = inner;
		t->n_tids += inner > 0;
	}
	qsort(t->tids, t->n_tids, sizeof(*t->tids), compare_pairs);
	return 0;
}

/* What the interpreter is, or will be. */
static void target_learn(struct target *t, const struct pyproc *p)
{
	t->py.layout = p->layout;
	pywalk_layout_init(&t->py.walk, &p->layout, p->runtime);
	t->py.code_versions = p->code_versions;
	t->py.root = proc_stack_root(t->pid);
	t->version = p->version;
	t->runtime = p->runtime;
	learn_inner_tids(t);
}

static void target_found(struct target *t, const struct pyproc *p)
{
	/* Readers that see a runtime that is about to start read it already. */
	if (atomic_load(&t->state) != TARGET_STARTING || t->runtime != p->runtime)
		target_learn(t, p);
	t->code = p->code;
	atomic_store_explicit(&t->state, TARGET_PYTHON, memory_order_release);
}

/* It is mapped, and not there yet. Of a version that is not known yet nothing can be read. */
static void target_starting(struct target *t, const struct pyproc *p)
{
	if (!p->version || atomic_load(&t->state) == TARGET_STARTING)
		return;
	target_learn(t, p);
	atomic_store_explicit(&t->state, TARGET_STARTING, memory_order_release);
}

/* A tape needs what the readers know of a process. */
static void tape_target(const struct tracker *t, const struct target *target)
{
	if (t->tape)
		tape_queue_target(target, t->tape, t->stats);
}

void tracker_teach(struct tracker *t, struct births *births)
{
	t->births = births;
	for (size_t i = 0; i < t->targets.n_all; i++) {
		struct target *target = t->targets.all[i];

		if (atomic_load(&target->state) == TARGET_PYTHON)
			births_teach(births, &target->code, target);
		/* No record tells what was mapped between the look and the events. */
		else if (atomic_load(&target->state) == TARGET_NOPYTHON)
			tracker_look(t, target->pid);
	}
}

void tracker_tape_all(struct tracker *t, struct queue *tape)
{
	t->tape = tape;
	for (size_t i = 0; i < t->targets.n_all; i++)
		tape_target(t, t->targets.all[i]);
}

/* --- those whose end nobody may tell --- */

static bool has_ended(const struct target *target)
{
	int fd = atomic_load(&target->pidfd);

	return fd >= 0 ? proc_has_ended(fd) : !proc_exists(target->pid);
}

static void doubt(struct target *target)
{
	target->doubt_ns = now_ns() + DOUBT_NS;
	target->doubt_pause_ns = DOUBT_NS;
}

/* Of its end may be told before it is known, and while it still ends: two CPUs' rings. */
static void open_target(struct tracker *t, struct target *target)
{
	targets_open(&t->targets, target);
	doubt(target);
}

void tracker_leader_ended(struct tracker *t, pid_t pid)
{
	struct target *target = targets_find(&t->targets, pid);

	if (target)
		doubt(target);
}

/* Is it due to be looked at, and has it ended? */
static bool has_left(struct target *target, uint64_t now)
{
	if (now < target->doubt_ns)
		return false;
	if (has_ended(target))
		return true;
	target->doubt_pause_ns = MIN(2 * target->doubt_pause_ns, DOUBT_MAX_NS);
	target->doubt_ns = now + target->doubt_pause_ns;
	return false;
}

pid_t tracker_left(struct tracker *t)
{
	uint64_t now = now_ns();

	if (now < t->doubts_ns)
		return 0;
	for (size_t i = 0; i < t->targets.n_all; i++) {
		struct target *target = t->targets.all[i];

		if (!target->retired && target->doubt_ns && has_left(target, now)) {
			tracker_gone(t, target->pid);
			return target->pid;
		}
	}
	t->doubts_ns = now + DOUBT_NS;
	return 0;
}

/* --- targets --- */

static struct target *new_target(struct tracker *t, pid_t pid, uint64_t begun_ns)
{
	struct target *target = target_create(pid);

	if (target) {
		target->begun_ns = begun_ns;
		target->py.pid = pid;
		target->py.program = ++t->n_programs;
	}
	return target;
}

static struct target *add_target(struct tracker *t, pid_t pid, uint64_t begun_ns)
{
	struct target *target = new_target(t, pid, begun_ns);

	if (!target)
		return NULL;
	if (targets_publish(&t->targets, pid, target) == 0) {
		open_target(t, target);
		return target;
	}
	free(target);
	return NULL;
}

static int begin_search(struct tracker *t, struct target *target, bool fresh)
{
	struct search *s = realloc(t->searches, (t->n_searches + 1) * sizeof(*s));

	if (!s)
		return -ENOMEM;
	t->searches = s;
	targets_hold(target, 1);
	s[t->n_searches++] = (struct search){
		.target = target,
		.fresh = fresh,
		.next_ns = now_ns(),
	};
	return 0;
}

static void copy_interpreter(struct target *child, const struct target *parent)
{
	int program = child->py.program;

	child->py = parent->py;
	child->py.pid = child->pid;
	child->py.program = program;
}

/* Its parent's own fork stands in another CPU's ring that is not read yet. */
static void forked_by_unknown(struct tracker *t, pid_t pid, pid_t ptid, uint64_t time)
{
	struct target *child;

	if (!proc_exists(pid) || tracker_new(t, pid, time) < 0)
		return;
	child = targets_find(&t->targets, pid);
	child->unborn = true;
	if (proc_inner_tid(pid, pid) == pid)
		child->forker = ptid;
}

void tracker_forked(struct tracker *t, pid_t pid, pid_t ppid, pid_t ptid, uint64_t time)
{
	/* It may have ended: another CPU's ring tells that, and was read before. */
	struct target *parent = targets_latest(&t->targets, ppid);
	struct target *child = targets_find(&t->targets, pid);
	int state;

	/* One of its samples may have come before: then it is looked at already. */
	if (parent && child)
		child->forker = target_inner_tid(parent, ptid);

	if (!parent && !child)
		forked_by_unknown(t, pid, ptid, time);
	if (!parent || child)
		return;
	child = new_target(t, pid, time);
	if (!child)
		return;
	copy_interpreter(child, parent);
	child->version = parent->version;
	child->runtime = parent->runtime;
	child->forker = target_inner_tid(parent, ptid);
	state = atomic_load(&parent->state);
	/* fork() itself may have held up a read of the parent; the child is another. */
	if (state == TARGET_QUARANTINED)
		state = parent->runtime ? TARGET_PYTHON : TARGET_PENDING;
	if (state == TARGET_PYTHON || state == TARGET_STARTING)
		learn_inner_tids(child);
	if (target_had_none(parent, time))
		child->none_ns = time;
	atomic_init(&child->state, state);
	if (targets_publish(&t->targets, pid, child) < 0) {
		free(child);
		return;
	}
	open_target(t, child);
	tape_target(t, child);
	if (state == TARGET_PENDING || state == TARGET_STARTING ||
	    (state == TARGET_NOPYTHON && !child->none_ns))
		begin_search(t, child, true);
}

int tracker_new(struct tracker *t, pid_t pid, uint64_t begun_ns)
{
	struct target *target = add_target(t, pid, begun_ns);

	for (size_t i = 0; i < t->n_searches; i++)
		if (t->searches[i].target->pid == pid)
			t->searches[i].dropped = true; /* the old program's */
	return target ? begin_search(t, target, true) : -ENOMEM;
}

/* The search for @target's interpreter, or NULL. */
static struct search *search_of(struct tracker *t, const struct target *target)
{
	for (size_t i = 0; i < t->n_searches; i++)
		if (t->searches[i].target == target)
			return &t->searches[i];
	return NULL;
}

/* Look at a descendant for the first time. */
int tracker_wake(struct tracker *t, struct target *target)
{
	uint64_t age = proc_age_ns(target->pid), known = now_ns() - target->since_ns;

	target->asleep = false;
	open_target(t, target);
	/* If it was forked just before it was listed, nobody knows by which thread. */
	target->unborn = age < JUST_NS + known;
	return begin_search(t, target, false);
}

void tracker_look(struct tracker *t, pid_t pid)
{
	struct target *target = targets_find(&t->targets, pid);
	struct search *s = target ? search_of(t, target) : NULL;

	if (s) {
		s->again = s->probe;
		s->next_ns = 0;
	} else if (target && atomic_load(&target->state) == TARGET_NOPYTHON) {
		begin_search(t, target, false);
	}
}

void tracker_gone(struct tracker *t, pid_t pid)
{
	targets_publish(&t->targets, pid, NULL);
}

void tracker_quarantine(struct tracker *t, pid_t pid)
{
	struct target *target = targets_find(&t->targets, pid);
	int was;

	if (!target)
		return;
	was = atomic_load(&target->state);
	if (was != TARGET_QUARANTINED)
		target->nopython = was == TARGET_NOPYTHON;
	atomic_store(&target->state, TARGET_QUARANTINED);
	if (!target->hung)
		note_say(&t->note, "a read of process %d hangs; until it ends its %s", pid,
			 target->nopython ? "stacks may be cut" : "samples are torn");
	target->hung = true;
}

void tracker_release(struct tracker *t, pid_t pid)
{
	struct target *target = targets_find(&t->targets, pid);
	int hangs = TARGET_QUARANTINED;

	if (target && (target->runtime || target->nopython))
		atomic_compare_exchange_strong(&target->state, &hangs,
					       target->nopython ? TARGET_NOPYTHON :
								  TARGET_PYTHON);
}

/* --- searches --- */

/* What was mapped when the look at @began said @code. */
static void note_none(struct target *t, int code, const struct pyproc *p, uint64_t began)
{
	bool none = code == -ENOEXEC || ((code == 0 || code == -EAGAIN) && p->unborn);

	if (none && began >= t->begun_ns)
		atomic_store(&t->none_ns, began);
	if (code == -EAGAIN)
		target_starting(t, p);
	else if (code == -ENOEXEC)
		atomic_store(&t->state, TARGET_NOPYTHON);
}

/* A new program may map it yet, or was seen half made. */
static bool look_again(const struct search *s, int code, const struct pyproc *p)
{
	switch (code) {
	case -EAGAIN:
		return true;
	case -ENOEXEC:
		return s->again || p->partly || (s->fresh && s->tries < FRESH_TRIES);
	case -ENOTSUP:
		return s->fresh && s->tries < DOUBT_TRIES;
	case -EMFILE:
	case -ENFILE:
	case -ENOMEM:
		return true;
	default:
		return false;
	}
}

/* False: keep looking. */
static bool search_ended(struct tracker *t, struct search *s, int code, const struct pyproc *p,
			 const struct err *err)
{
	struct target *target = s->target;

	note_none(target, code, p, probe_began(s->probe));
	tape_target(t, target);
	if (code == 0) {
		target_found(target, p);
		births_teach(t->births, &target->code, target);
		tape_target(t, target);
		return true;
	}
	if (proc_is_short(code) && !s->told_short) {
		s->told_short = true;
		note_say(&t->note, "%s; it is tried again", err->text);
	}
	if (look_again(s, code, p) && proc_exists(target->pid))
		return false;
	if (code != -EAGAIN && code != -ENOEXEC) {
		snprintf(target->why, sizeof(target->why), "%.250s", err->text);
		atomic_store(&target->state, TARGET_REFUSED);
		if (code != -ESRCH)
			note_say(&t->note, "%s", err->text);
		return true;
	}
	return true;
}

/* Until the next look, if nobody asks for it before. */
static uint64_t pause_ns(const struct search *s, int code, const struct pyproc *p)
{
	uint64_t ms = MIN((uint64_t)RETRY_MS << MIN(s->tries, 10), RETRY_MAX_MS);

	/* A file is being mapped just now: that takes some system calls. */
	return 1000000 * (code == -ENOEXEC && p->partly && s->tries < FRESH_TRIES ? 1 : ms);
}

/* True: nothing more to do for it. */
static bool step_search(struct tracker *t, struct search *s)
{
	bool ended;
	struct pyproc p;
	struct err err;
	int code;

	if (s->dropped)
		return true;
	if (!s->probe) {
		if (now_ns() >= s->next_ns) {
			s->tries += s->tries < 100;
			/* What is asked for from here on wants another look. */
			atomic_store(&s->target->asked, false);
			s->again = false;
			s->probe = probe_start(s->target->pid, s->target->since_ns, t->kick);
		}
		return false;
	}
	if (!probe_done(s->probe, &code, &p, &err))
		return false;
	ended = search_ended(t, s, code, &p, &err);
	probe_release(s->probe);
	s->probe = NULL;
	s->next_ns = s->again ? 0 : now_ns() + pause_ns(s, code, &p);
	return ended;
}

void tracker_scout(struct tracker *t)
{
	size_t n_all = t->targets.n_all, n = 0;
	_cleanup_free_ pid_t *pids = calloc(n_all + 1, sizeof(*pids));

	t->scouted = calloc(n_all + 1, sizeof(struct target *));
	for (size_t i = 0; pids && t->scouted && i < n_all; i++) {
		struct target *target = t->targets.all[i];

		if (!target->asleep || !target->plain)
			continue;
		t->scouted[n] = target;
		pids[n++] = target->pid;
	}
	if (n && births_known(t->births, 0))
		t->scout = scout_start(t->births, pids, n);
	t->n_scouted = t->scout ? n : 0;
	for (size_t i = 0; i < t->n_scouted; i++)
		targets_hold(t->scouted[i], 1);
}

static void take_scouted(struct tracker *t)
{
	struct scout_found found;
	ssize_t i;

	while ((i = scout_take(t->scout, &found)) >= 0) {
		t->scouted[i]->code_at = found.at;
		atomic_store_explicit(&t->scouted[i]->code_number, found.number,
				      memory_order_release);
	}
	if (!t->scout || !scout_over(t->scout))
		return;
	scout_release(t->scout);
	t->scout = NULL;
	while (t->n_scouted)
		targets_hold(t->scouted[--t->n_scouted], -1);
}

void tracker_run(struct tracker *t)
{
	take_scouted(t);
	for (size_t i = 0; i < t->n_searches;) {
		if (!step_search(t, &t->searches[i])) {
			i++;
			continue;
		}
		probe_release(t->searches[i].probe);
		targets_hold(t->searches[i].target, -1);
		t->searches[i] = t->searches[--t->n_searches];
	}
	targets_reap(&t->targets);
}

int tracker_due_ms(const struct tracker *t, int most)
{
	uint64_t now = now_ns();

	if (t->scout)
		most = MIN(most, SCOUT_MS);
	for (size_t i = 0; i < t->n_searches; i++) {
		const struct search *s = &t->searches[i];
		uint64_t left = s->next_ns > now ? (s->next_ns - now) / 1000000 + 1 : 0;

		if (!s->probe && left < (uint64_t)most)
			most = (int)left;
	}
	return most;
}

static bool unsettled(const struct tracker *t)
{
	for (size_t i = 0; i < t->n_searches; i++)
		if (t->searches[i].tries == 0 || t->searches[i].probe)
			return true;
	return false;
}

/* A look at it takes long, as where it has many maps: it waits until the process runs. */
static void sleep_on(struct search *s)
{
	s->dropped = true;
	s->target->asleep = true;
}

void tracker_settle(struct tracker *t)
{
	struct pollfd fds[] = {
		{ .fd = t->kick, .events = POLLIN },
		{ .fd = t->stop ? t->stop->fd : -1, .events = POLLIN },
	};
	uint64_t end = now_ns() + SETTLE_MS * 1000000ull;
	eventfd_t n;

	for (tracker_run(t); unsettled(t) && now_ns() < end && !fds[1].revents; tracker_run(t))
		if (poll(fds, ARRAY_SIZE(fds), tracker_due_ms(t, SETTLE_STEP_MS)) > 0 &&
		    fds[0].revents)
			eventfd_read(t->kick, &n);
	for (size_t i = 0; i < t->n_searches; i++)
		if (!t->searches[i].fresh)
			sleep_on(&t->searches[i]);
}

/* --- at attach --- */

/* The probe of a named process did not say anything yet. */
static int root_hangs(struct tracker *t, pid_t pid, struct probe *probe)
{
	struct target *target = add_target(t, pid, 0);
	int r = target ? begin_search(t, target, true) : -ENOMEM;

	if (r < 0) {
		probe_release(probe);
		return r;
	}
	t->searches[t->n_searches - 1].probe = probe;
	t->searches[t->n_searches - 1].tries = 1;
	if (!stop_asked(t->stop))
		tracker_quarantine(t, pid);
	return 0;
}

/* What it said. */
static int judge_root(struct tracker *t, pid_t pid, bool any, int code, const struct pyproc *p,
		      uint64_t began, struct err *err)
{
	struct target *target;
	char version[16];

	if (code < 0 && code != -EAGAIN && !(any && (code == -ENOEXEC || code == -ENOTSUP)))
		return code;
	target = add_target(t, pid, 0);
	if (!target)
		return err_set(err, -ENOMEM, "out of memory");
	if (code == 0) {
		target_found(target, p);
		note_say(&t->note, "process %d: CPython %s, %s, %s", target->pid,
			 pyproc_version(p, version), p->build, p->module);
		return 0;
	}
	note_none(target, code, p, began);
	if (code == -EAGAIN)
		return begin_search(t, target, true);
	atomic_store(&target->state, TARGET_NOPYTHON);
	return 0;
}

static int take_wrapper(struct tracker *t, pid_t pid, const struct lookup *l, struct err *err)
{
	struct target *target = add_target(t, pid, 0);
	char comm[16] = "?", list[200];

	if (!target)
		return err_set(err, -ENOMEM, "out of memory");
	note_none(target, l->starts ? -EAGAIN : -ENOEXEC, &l->python, l->began);
	proc_comm(pid, pid, comm);
	note_say(&t->note,
		 "following %zu Python child%s of process %d (%s), which runs no Python "
		 "itself: %s",
		 l->n_child, l->n_child > 1 ? "ren" : "", pid, comm,
		 lookup_list(l, list, sizeof(list)));
	return l->starts ? begin_search(t, target, true) : 0;
}

int tracker_root(struct tracker *t, pid_t pid, bool any, bool follow, struct err *err)
{
	struct lookup l = {
		.kick = t->kick,
		.wait_ms = PROBE_WAIT_MS,
		.any = any,
		.children = follow,
		.stop = t->stop,
	};
	int code = lookup(&l, pid, err);

	if (code == LOOKUP_WRAPPER)
		code = take_wrapper(t, pid, &l, err);
	else if (code == -EINPROGRESS)
		code = root_hangs(t, pid, l.hanging);
	else
		code = judge_root(t, pid, any, code, &l.python, l.began, err);
	free(l.child);
	return code;
}

static struct target *new_descendant(struct tracker *t, pid_t pid)
{
	struct target *target = new_target(t, pid, 0);

	if (target)
		target->plain = proc_same_pid_namespace(pid);
	return target;
}

/* Those of @pids that are no targets yet become some. */
static int add_descendants(struct tracker *t, const pid_t *pids, size_t n)
{
	_cleanup_free_ struct target **add = calloc(n + 1, sizeof(*add));
	size_t k = 0, done = t->targets.n_all;
	int r = add ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (targets_find(&t->targets, pids[i]))
			continue;
		add[k] = new_descendant(t, pids[i]);
		r = add[k] ? 0 : -ENOMEM;
		k += r == 0;
	}
	if (r == 0)
		r = targets_publish_new(&t->targets, add, k);
	for (size_t i = 0; r < 0 && i < k; i++)
		free(add[i]);
	for (size_t i = done; r == 0 && i < t->targets.n_all; i++) {
		t->targets.all[i]->asleep = true;
		/* Many are looked at when they run. */
		if (t->n_awake++ < AT_ONCE)
			r = tracker_wake(t, t->targets.all[i]);
	}
	return r;
}

static int list_descendants(struct tracker *t, pid_t pid)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0;

	return family_list(pid, &pids, &n) < 0 ? 0 : add_descendants(t, pids, n);
}

int tracker_descendants(struct tracker *t, const pid_t *pids, size_t n)
{
	int r = 0;

	t->newest = family_newest();
	for (size_t i = 0; r == 0 && i < n; i++)
		r = list_descendants(t, pids[i]);
	return r;
}

/* Does it take less to ask the targets for their children than to look at @n numbers? Not
 * those with several threads: one that ends leaves its children to another, which was asked
 * before. */
static bool should_ask(const struct tracker *t, size_t n)
{
	enum { A_TARGET = 5 }; /* system calls */
	bool single = n > A_TARGET * t->targets.n_all;

	for (size_t i = 0; single && i < t->targets.n_all; i++)
		single = proc_count_tasks(t->targets.all[i]->pid) == 1;
	return single;
}

/* Also those of targets that this finds. */
static int ask_targets(struct tracker *t)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->targets.n_all; i++) {
		struct target *target = t->targets.all[i];
		_cleanup_free_ pid_t *pids = NULL;
		size_t n = 0, cap = 0;

		if (targets_find(&t->targets, target->pid) == target &&
		    family_children(target->pid, &pids, &n, &cap) == 0)
			r = add_descendants(t, pids, n);
	}
	return r;
}

int tracker_born(struct tracker *t, const pid_t *pids, size_t n)
{
	_cleanup_free_ struct family_birth *born = NULL;
	pid_t since = t->newest, now = family_newest();
	size_t n_born;
	int r = 0;

	t->newest = now;
	if (since && now > since && should_ask(t, (size_t)(now - since)))
		return ask_targets(t);
	if (!family_born(since, now, &born, &n_born))
		return tracker_descendants(t, pids, n);
	/* Parents are before their children. */
	for (size_t i = 0; r == 0 && i < n_born; i++)
		if (targets_find(&t->targets, born[i].parent))
			r = add_descendants(t, &born[i].pid, 1);
	return r;
}
