/* SPDX-License-Identifier: MIT
 *
 * recorder_messages - what the control thread does when readers and the tracer tell it of
 * forks, execs, ends and processes that nobody knows.
 */
#include "base/stats.h"
#include "record/recorder_int.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>

#include "targets/announce.h"
#include "targets/births.h"
#include "targets/ours.h"
#include "capture/reader.h"
#include "capture/waits.h"
#include "base/clock.h"
#include "sys/proc.h"
#include "sample/wire.h"

enum {
	CATCH_UP_MS = 20,      /* for a ring, before we look at anything else again */
	TAKE_MS = 50,	       /* for messages */
	REST_NS = 200000000,   /* for all that is introduced at the end */
};

/* Has the reader of @slot read all that its ring held when we came? Records that are no
 * samples wake no reader. */
static bool catch_up(struct cpu_slot *slot)
{
	const struct timespec step = { .tv_nsec = 200000 };
	uint64_t head = perf_ring_head(&slot->ring), end = now_ns() + CATCH_UP_MS * 1000000;

	while (slot->reader && perf_ring_tail(&slot->ring) < head) {
		if (now_ns() > end)
			return false;
		reader_nudge(slot);
		nanosleep(&step, NULL);
	}
	return true;
}

bool recorder_catch_up(struct recorder *r)
{
	bool all = true;

	for (size_t i = 0; i < r->config.n_slots; i++)
		all = catch_up(&r->config.slots[i]) && all;
	return all;
}

/* A main thread may end before the others. */
static bool others_live(pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	return proc_tasks(pid, &tids, &n) == 0 && n > 1;
}

/* True: the main thread ended because another one called exec, which has its number since. */
static bool goes_on(const struct target *t)
{
	return t && proc_lives(t->pid) && proc_was_there(t->pid, t->since_ns);
}

static void take_up(struct recorder *r, pid_t pid)
{
	uint64_t execed = births_execed(r->config.births, pid);
	struct target *t;

	if (recorder_stranger_again(r, pid))
		return;
	tracker_new(&r->tracker, pid, execed);
	t = targets_find(&r->tracker.targets, pid);
	if (t) /* a program of its own has nothing of who forked it */
		t->unborn = !execed;
}

/* Threads of @pid that got their events just now: they had run before. */
static void count_late(struct recorder *r, pid_t pid, const pid_t *tids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t ran = proc_ran_ns(pid, tids[i]);

		r->n_late += ran > 0;
		r->late_ns += ran;
	}
}

/* The threads that got their events at @since or later. *@ret malloc'ed, or NULL. */
static size_t attached_since(const struct attach *a, uint64_t since, pid_t **ret)
{
	size_t n = 0, k = 0;

	for (size_t i = 0; i < a->n_attached; i++)
		n += a->attached[i].since >= since;
	*ret = n ? malloc(n * sizeof(**ret)) : NULL;
	for (size_t i = 0; *ret && k < n; i++)
		if (a->attached[i].since >= since)
			(*ret)[k++] = a->attached[i].tid;
	return k;
}

/* Events for those threads of @pid that have none, which are in *@tids, malloc'ed, then. No
 * record tells of those that sleep already. */
static int attach_more(struct recorder *r, pid_t pid, pid_t **tids, size_t *n,
		       struct err *err)
{
	uint64_t since = now_ns();
	int ret = attach_process(&r->attach, pid, NULL, 0, err);

	*n = attached_since(&r->attach, since, tids);
	waits_threads(r->waits, pid, *tids, *n);
	return ret;
}

/* Threads that have ended have no events any more. */
static void forget_ended(struct recorder *r)
{
	for (size_t i = r->attach.n_attached; i--;)
		if (!proc_exists(r->attach.attached[i].tid))
			attach_forget(&r->attach, r->attach.attached[i].tid);
}

/* The same where a queue had no room for messages: threads' ends may be among them. */
static void forget_untold(struct recorder *r)
{
	uint64_t lost = STATS_GET(r->session->stats, side_lost);

	if (lost == r->side_lost)
		return;
	r->side_lost = lost;
	forget_ended(r);
}

/* The main thread of @pid has ended, maybe since another called exec, which has its number since:
 * the number that this one had is nobody's, and it may have had no events. @told: by a record;
 * else nobody knows yet that it is another program. */
static void attach_renamed_thread(struct recorder *r, pid_t pid, bool told)
{
	uint64_t since = now_ns(), sampled = told ? proc_ran_ns(pid, pid) : 0;
	_cleanup_free_ pid_t *tids = NULL;
	struct err err;
	size_t n;
	bool had;

	if (!r->config.tell_threads || !targets_find(&r->tracker.targets, pid))
		return;
	forget_ended(r);
	had = attach_has(&r->attach, pid);
	attach_more(r, pid, &tids, &n, &err);
	if (had || !attach_has(&r->attach, pid))
		return;
	r->n_late++;
	r->late_ns += proc_ran_ns(pid, pid) - sampled;
	recorder_announce(r, pid, true, since); /* what it mapped meanwhile */
	if (!told)
		tracker_new(&r->tracker, pid, since);
}

/* Events that are not inherited: open them on what is new in @pid, such as @tid. */
static void attach_new(struct recorder *r, pid_t pid, pid_t tid)
{
	_cleanup_free_ pid_t *tids = NULL;
	struct err err;
	size_t n;
	int ret;

	if (!r->config.tell_threads || !targets_find(&r->tracker.targets, pid))
		return;
	forget_untold(r);
	if (tid != pid && !attach_has(&r->attach, pid))
		attach_renamed_thread(r, pid, false);
	ret = attach_more(r, pid, &tids, &n, &err);
	r->n_missed += !attach_has(&r->attach, tid);
	count_late(r, pid, tids, n);
	if (ret < 0 && ret != -ESRCH && !r->warned_new) {
		r->warned_new = true;
		note_say(&r->o.note, "new threads are not sampled: %s", err.text);
	}
}

/* A new program since @time, if we don't know it yet: messages of several readers may tell of
 * the same one, and the older one last. It may be a stranger, whatever tells of it first. */
static void execed(struct recorder *r, const struct target *t, pid_t pid, uint64_t time)
{
	if (t && time > t->begun_ns && !recorder_stranger_again(r, pid))
		tracker_new(&r->tracker, pid, time);
}

/* Before the sinks hear of @t for the first time, at @time, they are told what it was. */
static void introduce(struct recorder *r, struct target *t, uint64_t time)
{
	if (!t || !t->asleep)
		return;
	recorder_introduce(r, t->pid, time);
	tracker_wake(&r->tracker, t);
}

/* It may have execed already, by a record that lies in another ring. */
static void forked(struct recorder *r, const struct ctl_msg *m)
{
	uint64_t time = births_execed(r->config.births, m->pid);
	const struct target *t = targets_find(&r->tracker.targets, m->pid);

	if (recorder_stranger_again(r, m->pid))
		return;
	if (time < m->time)
		tracker_forked(&r->tracker, m->pid, m->ppid, m->ptid, m->time);
	else if (t)
		execed(r, t, m->pid, time);
	else if (targets_latest(&r->tracker.targets, m->ppid))
		tracker_new(&r->tracker, m->pid, time);
}

static void exec_seen(struct recorder *r, const struct target *t, const struct ctl_msg *m)
{
	/* Our own child's first exec is what we started it for. */
	if (r->o.child && m->pid == r->o.pids[0] && !r->child_ran) {
		r->child_ran = true;
		r->attach.begun = r->config.tell_threads; /* nothing waits for it */
	}
	if (!recorder_stranger_again(r, m->pid))
		execed(r, t, m->pid, m->time);
	attach_renamed_thread(r, m->pid, true);
}

static void exit_seen(struct recorder *r, const struct target *t, pid_t pid)
{
	if (others_live(pid) || goes_on(t)) {
		tracker_leader_ended(&r->tracker, pid);
		attach_renamed_thread(r, pid, false);
		return;
	}
	tracker_gone(&r->tracker, pid);
	ours_set(r->config.ours, pid, false);
}

/* Where CPUs tell, readers passed on no switch of a child before they had read of its fork. */
static void born_asleep(struct recorder *r, pid_t pid)
{
	if (r->config.ours && !r->config.split && targets_find(&r->tracker.targets, pid))
		waits_joined(r->waits, pid);
}

static void handle_message(struct recorder *r, uint32_t type, const struct ctl_msg *m)
{
	struct target *t = targets_find(&r->tracker.targets, m->pid);

	switch (type) {
	case CTL_FORK:
		introduce(r, targets_find(&r->tracker.targets, m->ppid), m->time);
		if (r->o.follow)
			forked(r, m);
		attach_new(r, m->pid, m->pid);
		born_asleep(r, m->pid);
		break;
	case CTL_THREAD:
		attach_new(r, m->pid, m->ptid);
		break;
	case CTL_ENDED:
		attach_forget(&r->attach, m->ptid);
		break;
	case CTL_EXEC:
		exec_seen(r, t, m);
		break;
	case CTL_BEGUN:
		if (recorder_stranger_again(r, m->pid))
			break;
		recorder_announce(r, m->pid, true, m->time);
		tracker_new(&r->tracker, m->pid, births_execed(r->config.births, m->pid));
		break;
	case CTL_LOOK:
		introduce(r, t, m->time);
		atomic_fetch_add(&r->config.answered, 1);
		execed(r, t, m->pid, births_execed(r->config.births, m->pid));
		tracker_look(&r->tracker, m->pid);
		break;
	case CTL_EXIT:
		exit_seen(r, t, m->pid);
		break;
	case CTL_BIRTHS:
		recorder_go_over(r);
		break;
	case CTL_STRANGER:
		recorder_stranger(r, m);
		break;
	case CTL_UNKNOWN:
		/* A process never seen. */
		if (!t && r->o.follow && r->n_unknown < RECORDER_UNKNOWN)
			r->unknown[r->n_unknown++] = m->pid;
		break;
	}
}

/* Until then: opening and closing uprobes takes the kernel tens of milliseconds. False: there
 * is more. */
static bool take_from(struct recorder *r, struct queue *q, uint64_t until)
{
	const struct queue_record *rec;

	while ((rec = queue_peek(q))) {
		if (now_ns() > until) {
			eventfd_write(r->config.kick, 1);
			return false;
		}
		handle_message(r, rec->type, (const struct ctl_msg *)rec->data);
		queue_pop(q);
	}
	return true;
}

/* Whom the messages in @q tell of. */
static void introduce_from(struct recorder *r, struct queue *q, uint64_t until)
{
	const struct queue_record *rec;

	for (; (rec = queue_peek(q)); queue_pop(q)) {
		const struct ctl_msg *m = (const void *)rec->data;
		pid_t pid = rec->type == CTL_FORK ? m->ppid : m->pid;

		if (rec->type != CTL_FORK && rec->type != CTL_LOOK)
			continue;
		if (now_ns() > until)
			STATS_ADD(r->session->stats, side_lost, 1);
		else
			introduce(r, targets_find(&r->tracker.targets, pid), m->time);
	}
}

void recorder_introduce_rest(struct recorder *r)
{
	uint64_t until = now_ns() + REST_NS;

	for (size_t i = 0; i < r->config.n_slots; i++)
		introduce_from(r, &r->config.slots[i].ctl, until);
	if (r->waits)
		introduce_from(r, waits_messages(r->waits), until);
}

static bool take_all(struct recorder *r, uint64_t until)
{
	bool all = true;

	for (size_t i = 0; i < r->config.n_slots; i++)
		all = take_from(r, &r->config.slots[i].ctl, until) && all;
	if (r->waits)
		all = take_from(r, waits_messages(r->waits), until) && all;
	if (r->tracer)
		all = take_from(r, &r->traced, until) && all;
	return all;
}

/* Samples of processes that nobody has told of. The records of their forks lie in rings that
 * are read now and then only, those of their names and maps before them. */
static void take_unknown(struct recorder *r, uint64_t until)
{
	if (!r->n_unknown)
		return;
	recorder_catch_up(r);
	take_all(r, until);
	for (size_t i = 0; i < r->n_unknown; i++)
		if (!targets_find(&r->tracker.targets, r->unknown[i]) &&
		    proc_exists(r->unknown[i]))
			take_up(r, r->unknown[i]);
	r->n_unknown = 0;
}

bool recorder_take_messages(struct recorder *r)
{
	uint64_t until = now_ns() + TAKE_MS * 1000000;
	eventfd_t n;
	bool all;

	eventfd_read(r->config.kick, &n);
	all = take_all(r, until);
	take_unknown(r, until);
	return all;
}
