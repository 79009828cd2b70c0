/* SPDX-License-Identifier: MIT
 *
 * tracker_search - looks for the interpreters of targets, each in a thread of its own, until
 * one is there or there is no hope.
 */
#include "targets/tracker_int.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/clock.h"
#include "sys/proc.h"
#include "targets/births.h"
#include "targets/probe.h"
#include "targets/scout.h"
#include "targets/tape_target.h"

enum {
	SETTLE_MS = 200, /* at attach, for descendants */
	RETRY_MS = 10,	 /* doubled each time, to RETRY_MAX_MS */
	RETRY_MAX_MS = 200,
	FRESH_TRIES = 16, /* so for 2 s also without a record that tells to look */
	SCOUT_MS = 2,
	CREW_MS = 50, /* between two looks whether those who look hang */
	SETTLE_STEP_MS = 20, /* where no end is told of */
	OTHERS_TRIES = 100,  /* of another interpreter that begins */
	DOUBT_TRIES = 5,     /* what is wrong in a program's first moments may be half made */
};

/* --- what an interpreter is --- */

void tracker_learn_numbers(struct target *t)
{
	bool same = t->plain || proc_same_pid_namespace(t->pid);
	pid_t own = same ? t->pid : proc_inner_tid(t->pid, t->pid);

	t->inner_tids = own > 0 && own != t->pid;
	t->inner = own > 0 ? own : 0;
}

/* What the interpreter is, or will be. */
static void target_learn(struct target *t, const struct pyproc *p)
{
	t->py.layout = p->layout;
	pywalk_layout_init(&t->py.walk, &p->layout, p->runtime);
	t->py.code_versions = p->code_versions;
	t->py.no_jit = p->no_jit;
	t->py.root = p->root;
	t->version = p->version;
	t->runtime = p->runtime;
	t->n_maps = p->n_maps;
	tracker_learn_numbers(t);
}

static void found(struct tracker *t, struct target *target, const struct pyproc *p,
		  bool enough)
{
	int state = tracker_state(target);
	bool known = state == TARGET_STARTING || state == TARGET_PYTHON;

	others_learn(&t->others, target, p, enough, &t->note);
	if (atomic_load(&target->state) == TARGET_PYTHON)
		return;
	/* Readers that see a runtime that is about to start read it already. */
	if (!known || target->runtime != p->runtime)
		target_learn(target, p);
	target->code = p->code;
	tracker_becomes(t, target, TARGET_PYTHON);
}

void tracker_found(struct tracker *t, struct target *target, const struct pyproc *p)
{
	found(t, target, p, !pyproc_is_pending(p));
}

/* A file that may hold an interpreter was mapped since. */
static bool is_stale(const struct tracker *t, pid_t pid, uint64_t looked_ns)
{
	return t->births && births_python(t->births, pid) > looked_ns;
}

bool tracker_is_stale(const struct tracker *t, const struct target *target)
{
	return is_stale(t, target->pid, target->looked_ns);
}

/* It is mapped, and not there yet. Of a version that is not known yet nothing can be read. */
static void note_starting(const struct tracker *t, struct target *target,
			  const struct pyproc *p)
{
	if (!p->version || tracker_state(target) == TARGET_STARTING)
		return;
	target_learn(target, p);
	tracker_becomes(t, target, TARGET_STARTING);
}

void tracker_note_none(const struct tracker *t, struct target *target, int code,
		       const struct pyproc *p, uint64_t began)
{
	bool none = code == -ENOEXEC || ((code == 0 || code == -EAGAIN) && p->unborn);

	if (none && began >= target->begun_ns)
		atomic_store(&target->none_ns, began);
	if (code == -EAGAIN)
		note_starting(t, target, p);
	else if (code == -ENOEXEC)
		tracker_becomes(t, target, TARGET_NOPYTHON);
}

void tracker_tape(const struct tracker *t, const struct target *target)
{
	if (t->tape)
		tape_queue_target(target, t->tape, t->stats);
}

void tracker_learnt(struct tracker *t, struct target *target)
{
	tracker_consider(t, target);
	tracker_tape(t, target);
}

/* --- searches --- */

int tracker_search(struct tracker *t, struct target *target, bool fresh)
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

/* The search for @target's interpreter, or NULL. */
static struct search *search_of(struct tracker *t, const struct target *target)
{
	for (size_t i = 0; i < t->n_searches; i++)
		if (t->searches[i].target == target)
			return &t->searches[i];
	return NULL;
}

/* It may have what it had not. */
static bool is_to_look_at(const struct tracker *t, const struct target *target)
{
	int state = atomic_load(&target->state);

	return state == TARGET_NOPYTHON ||
	       (state == TARGET_PYTHON &&
		(tracker_is_stale(t, target) || others_unproven(target)));
}

void tracker_look(struct tracker *t, pid_t pid)
{
	struct target *target = targets_find(&t->targets, pid);
	struct search *s = target ? search_of(t, target) : NULL;

	if (s) {
		s->again = s->probe;
		s->next_ns = 0;
	} else if (target && is_to_look_at(t, target)) {
		tracker_search(t, target, false);
	} else if (target) {
		atomic_store(&target->asked, false);
	}
}

void tracker_tell_refused(struct tracker *t, const char *why)
{
	if (!t->told_refused || t->note.details)
		note_say(&t->note, "%s", why);
	t->told_refused = true;
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
	default:
		return proc_is_short(code);
	}
}

/* True: @target's interpreter is one of those that were found. */
static bool is_among(const struct target *target, const struct pyproc *p)
{
	if (p->runtime == target->runtime && p->version == target->version)
		return true;
	for (uint32_t i = 0; i < p->n_others; i++)
		if (p->other[i].runtime == target->runtime)
			return true;
	return p->refused[0];
}

/* Its file was unmapped, and that or another one is mapped now: what readers have read of the
 * target is of no use, so it gets another. */
static void renew(struct tracker *t, struct search *s)
{
	struct target *old = s->target, *new;

	if (targets_find(&t->targets, old->pid) != old)
		return;
	new = tracker_add(t, old->pid, old->begun_ns);
	if (!new)
		return;
	targets_hold(old, -1);
	targets_hold(new, 1);
	s->target = new;
}

/* False: keep looking. */
static bool search_ended(struct tracker *t, struct search *s, int code, const struct pyproc *p,
			 const struct err *err)
{
	struct target *target;

	if (code == 0 && atomic_load(&s->target->state) == TARGET_PYTHON &&
	    !is_among(s->target, p))
		renew(t, s);
	target = s->target;
	tracker_note_none(t, target, code, p, probe_began(s->probe));
	tracker_learnt(t, target);
	if (code == 0) {
		bool enough = s->tries >= OTHERS_TRIES ||
			      (!is_stale(t, target->pid, p->looked_ns) &&
			       !pyproc_is_pending(p));

		found(t, target, p, enough);
		births_teach(t->births, &target->code, target);
		tracker_learnt(t, target);
		if (!enough)
			return false;
		/* What a reader has seen since the look began it will ask for again. */
		atomic_store(&target->asked, false);
		return true;
	}
	if (proc_is_short(code) && !t->told_short) {
		t->told_short = true;
		note_say(&t->note, "%s; it is tried again", err->text);
	}
	if (look_again(s, code, p) && proc_exists(target->pid))
		return false;
	if (code != -EAGAIN && code != -ENOEXEC) {
		snprintf(target->why, sizeof(target->why), "%.250s", err->text);
		atomic_store(&target->state, TARGET_REFUSED);
		if (code != -ESRCH)
			tracker_tell_refused(t, err->text);
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

/* If it is time to, and there is a thread and memory for it; else later. */
static void begin_look(struct tracker *t, struct search *s)
{
	uint64_t now = now_ns();

	if (now < s->next_ns)
		return;
	s->tries += s->tries < 100;
	/* What is asked for from here on wants another look. */
	atomic_store(&s->target->asked, false);
	s->again = false;
	s->asked_ns = now;
	s->probe = probe_start(t->crew, s->target->pid, s->target->since_ns, t->files,
			       t->kick);
	if (!s->probe)
		s->next_ns = now + RETRY_MAX_MS * 1000000ull;
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
		begin_look(t, s);
		return false;
	}
	if (!probe_done(s->probe, &code, &p, &err)) /* nobody will ask for one that has ended */
		return s->target->retired && now_ns() - s->asked_ns > TRACKER_LOOK_NS;
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

static void tell_crowded(struct tracker *t)
{
	uid_t user = PROC_NOBODY;
	size_t n = t->told_looks ? 0 : probers_crowded(t->crew, &user);

	if (!n)
		return;
	t->told_looks = true;
	note_say(&t->note,
		 "%zu looks for interpreters hang, too many of them at processes of user %d: "
		 "until some end no other process of that user is looked at",
		 n, (int)user);
}

void tracker_run(struct tracker *t)
{
	take_scouted(t);
	probers_run(t->crew);
	tell_crowded(t);
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
		if (s->probe && !probe_began(s->probe))
			most = MIN(most, (int)CREW_MS);
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

/* True: nothing was learnt of it, and it is not about to become something. */
static bool may_sleep(const struct search *s)
{
	return !s->fresh && tracker_state(s->target) == TARGET_PENDING;
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
		if (may_sleep(&t->searches[i]))
			sleep_on(&t->searches[i]);
}
