/* SPDX-License-Identifier: MIT
 *
 * recorder - the life of a recording, and the loop of the control thread.
 */
#include "record/recorder_int.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "targets/births.h"
#include "targets/joins.h"
#include "targets/ours.h"
#include "capture/preempt.h"
#include "capture/reader.h"
#include "base/clock.h"
#include "remote/guard.h"
#include "attach/memory_plan.h"
#include "elf/file_helper.h"
#include "sys/ask.h"
#include "sys/proc.h"
#include "capture/slots.h"
#include "capture/waits.h"
#include "base/stats.h"

enum {
	LEFT_MS = 50,	  /* until it is told who is left when the named ones have ended */
	RESERVED = 1024,  /* descriptors; 8 KiB */
	NOTE_NS = 500000000,
	SECOND_NS = 1000000000,
	/* A reader that was inside a read is looked at again, for it may be in that one still. */
	SUSPECT_MS = GUARD_HANGS_NS / 1000000,
	BARE_MS = 100, /* until it is tried again to make a reader */
};

/* Those that -t names are the targets'. */
static int check_tids(struct recorder *r, struct err *err)
{
	for (size_t i = 0; i < r->o.n_tids; i++) {
		pid_t tid = r->o.tids[i], pid = proc_tgid(tid);

		if (pid < 0)
			return err_set(err, -ESRCH, "thread %d is not there", tid);
		if (!targets_find(&r->tracker.targets, pid))
			return err_set(err, -ESRCH,
				       "thread %d is one of process %d, not of %d", tid, pid,
				       r->o.pids[0]);
	}
	return 0;
}

/* From here on it is known whether the named numbers are still those processes'. One that has
 * ended already has no descriptor. */
static int open_named(struct recorder *r, struct err *err)
{
	for (size_t i = 0; i < r->o.n_pids; i++) {
		int fd = proc_pidfd(r->o.pids[i]);

		if (fd >= 0 && proc_has_ended(fd)) {
			close(fd);
			fd = -ESRCH;
		}
		r->pidfds[i] = MAX(fd, -1);
		/* Otherwise there is no such process, of which the look tells. */
		if (proc_is_short(fd))
			return proc_short(r->o.pids[i], fd, err);
		if (fd == -ENOSYS || fd == -EPERM)
			return err_set(err, fd, "can't see process %d end: %s", r->o.pids[i],
				       strerror(-fd));
	}
	return 0;
}

static int find_targets(struct recorder *r, struct err *err)
{
	int ret = open_named(r, err);

	if (ret < 0)
		return ret;
	if (r->o.child)
		return tracker_new(&r->tracker, r->o.pids[0], 0);
	if (r->o.scope)
		ret = recorder_begin_scope(r, err);
	for (size_t i = 0; ret == 0 && i < r->o.n_pids && !stop_asked(r->o.stop);) {
		pid_t pid = r->o.pids[i];

		ret = tracker_root(&r->tracker, pid, r->o.any, r->o.follow, err);
		if (ret == -ESRCH && r->pidfds[i] >= 0) /* it has ended meanwhile */
			ret = recorder_go_without(r, pid, ret, err);
		else
			i++;
	}
	if (ret == 0 && r->o.follow && !r->o.scope)
		ret = tracker_descendants(&r->tracker, r->o.pids, r->o.n_pids);
	if (ret < 0)
		return ret;
	tracker_settle(&r->tracker);
	return stop_asked(r->o.stop) ? 0 : check_tids(r, err);
}

static int create(struct recorder *r, struct err *err)
{
	struct work *before = work_shared;
	struct nudges nudges = { 0 };
	int ret;

	work_shared = &r->config.others;
	/* Where the targets want many times what there is, we would need seconds for what is
	 * looked up in milliseconds, and samples would wait for what we say of new processes.
	 */
	r->nice = getpriority(PRIO_PROCESS, 0);
	setpriority(PRIO_PROCESS, 0, RECORDER_NICE);
	ret = find_targets(r, err);
	nudges_set(&nudges, PERF_EVENT_NUDGE_MS);
	if (ret == 0)
		ret = recorder_choose(r, err);
	nudges_deinit(&nudges);
	work_shared = before;
	return ret;
}

struct recorder *recorder_create(const struct recorder_options *o, struct session *session,
				 struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), ret;

	/* Where nothing else says why. */
	err_set(err, -ENOMEM, "out of memory, or of descriptors: raise the limit (ulimit -n)");
	if (!r || kick < 0 || tracker_init(&r->tracker, kick) < 0) {
		if (kick >= 0)
			close(kick);
		free(r);
		return NULL;
	}
	r->o = *o;
	/* Before there are threads, which share the table: enough for most. */
	r->n_reserved = attach_reserve(kick, RESERVED) ? RESERVED : 0;
	perf_event_prepare();
	ask_begin(&r->o.note);
	r->begun_ns = now_ns();
	r->o.n_tids = proc_sort_pids(r->o.tids, r->o.n_tids);
	r->session = r->attach.session = session;
	r->tracker.files = session->file_helper;
	r->filter.map = r->table.map = r->sight.map = r->sight.link = -1;
	r->kernel_names.program = -1;
	r->cgroup = -1;
	r->config.kick = kick;
	r->config.namer_kick = -1;
	r->config.origin = o->origin;
	r->config.stats = r->tracker.stats = session->stats;
	r->tracker.note = o->note;
	r->tracker.stop = o->stop;
	for (size_t i = 0; i < RECORDER_MAX_PIDS; i++)
		r->pidfds[i] = -1;
	r->last = -1;
	atomic_init(&r->child_end, -1);
	r->config.targets = &r->tracker.targets;
	r->cpuwatch = (struct cpuwatch){
		.config = &r->config,
		.attach = &r->attach,
		.pids = r->o.pids,
		.n_pids = o->n_pids,
		.tids = r->o.tids,
		.n_tids = o->n_tids,
		.follow = o->follow || o->scope,
		.note = o->note,
	};
	ret = create(r, err);
	if (ret == 0)
		return r;
	if (err->code == 0 || !err->text[0]) /* of something that was no failure */
		err_set(err, ret, "%s", strerror(-ret));
	recorder_destroy(r);
	return NULL;
}

/* A reader whose read still hangs may come back at any time. */
static bool somebody_is_stuck(const struct recorder *r)
{
	for (size_t i = 0; i < r->config.n_slots; i++)
		if (r->config.slots[i].stuck)
			return true;
	return waits_stuck(r->waits);
}

void recorder_destroy(struct recorder *r)
{
	if (r)
		ask_end();
	if (!r || somebody_is_stuck(r))
		return;
	resolver_destroy(r->resolver);
	free(r->queues);
	free(r->tids);
	free(r->deciders);
	attach_deinit(&r->attach);
	waits_destroy(r->waits);
	ticks_deinit(&r->ticks);
	slots_deinit(&r->config);
	queue_deinit(&r->own);
	queue_deinit(&r->traced);
	joins_destroy(r->joins);
	tracker_deinit(&r->tracker);
	for (size_t i = 0; i < RECORDER_MAX_PIDS; i++)
		if (r->pidfds[i] >= 0)
			close(r->pidfds[i]);
	if (r->last >= 0)
		close(r->last);
	if (r->config.kick >= 0)
		close(r->config.kick);
	if (r->config.namer_kick >= 0)
		close(r->config.namer_kick);
	free((void *)(uintptr_t)r->config.last_in);
	free((void *)(uintptr_t)r->config.last_out);
	ours_destroy(r->config.ours);
	ours_destroy(r->config.named);
	ours_destroy(r->config.strangers);
	stranger_filter_deinit(&r->filter);
	if (r->by_table)
		run_table_deinit(&r->table);
	sight_deinit(&r->sight);
	kernel_names_deinit(&r->kernel_names);
	if (r->cgroup >= 0)
		close(r->cgroup);
	births_destroy(r->config.births);
	free(r);
}

/* Reads of @pid hang. */
static void give_up(struct recorder *r, pid_t pid)
{
	STATS_ADD(r->session->stats, stuck_reads, 1);
	tracker_hangs(&r->tracker, pid, true);
}

/* Without one it is tried again at the next look; samples are lost meanwhile. */
static void replace_reader(struct recorder *r, struct cpu_slot *slot)
{
	bool was_bare = slot->bare;
	int ret = reader_start(&r->config, slot);

	if (ret < 0 && !was_bare)
		note_say(&r->o.note,
			 "CPU %d is not sampled until there is a new reader in place of the one "
			 "that hangs: %s",
			 slot->cpu,
			 ret == -EAGAIN ? "no thread can be made (ulimit -u, or pids.max of a "
					  "cgroup)" :
					  strerror(-ret));
	if (ret == 0 && was_bare)
		note_say(&r->o.note, "CPU %d is sampled again", slot->cpu);
	slot->bare = ret < 0;
}

/* Records that are no samples wake no reader: now and then, or when the resolver waits for
 * them. In how many ms to do it again. */
static int wake_readers(struct recorder *r)
{
	uint64_t now = now_ns();

	if (atomic_exchange(&r->wake_wanted, false) || now >= r->wake_ns) {
		r->wake_ns = now + RECORDER_WATCH_MS * 1000000ull;
		for (size_t i = 0; i < r->config.n_slots; i++)
			reader_wake(&r->config.slots[i]);
	}
	return (int)((r->wake_ns - now) / 1000000) + 1;
}

/* Who reads waits is made anew, too; waits that end before are unread. How soon to look again. */
static int watch_waits(struct recorder *r)
{
	bool was_bare = waits_bare(r->waits), bare;
	pid_t pid;

	while ((pid = waits_returned(r->waits)))
		tracker_returned(&r->tracker, pid, true);
	pid = waits_watch(r->waits);
	bare = waits_bare(r->waits);
	if (pid)
		give_up(r, pid);
	if (bare && !was_bare)
		note_say(&r->o.note,
			 "waits are not read until there can be a new thread in place of the one "
			 "that hangs (ulimit -u, or pids.max of a cgroup)");
	if (was_bare && !bare)
		note_say(&r->o.note, "waits are read again");
	return bare ? BARE_MS : RECORDER_WATCH_MS;
}

/* Another CPU's ring may tell of a process's end before its fork is read. */
static void drop_left(struct recorder *r)
{
	pid_t pid;

	while ((pid = tracker_left(&r->tracker)))
		ours_set(r->config.ours, pid, false);
}

/* How soon to look again, in ms. */
static int watch_readers(struct recorder *r)
{
	int soon = tracker_due_ms(&r->tracker, RECORDER_WATCH_MS), other;
	char text[500];
	pid_t back;

	for (size_t i = 0; i < r->config.n_slots; i++) {
		struct cpu_slot *slot = &r->config.slots[i];
		pid_t pid = slot->reader ? reader_stuck(slot) : 0;

		while ((back = reader_returned(slot)))
			tracker_returned(&r->tracker, back, true);
		if (slot->guard.watch & 1)
			soon = SUSPECT_MS;
		if (pid)
			give_up(r, pid);
		if (pid || slot->bare)
			replace_reader(r, slot);
		if (slot->bare)
			soon = MIN(soon, BARE_MS);
	}
	other = r->waits ? watch_waits(r) : RECORDER_WATCH_MS;
	soon = MIN(soon, other);
	other = recorder_watch_namer(r);
	soon = MIN(soon, other);
	atomic_store(&r->config.crowded, tracker_crowds(&r->tracker));
	if (atomic_load(&r->config.over_budget) && !r->warned_budget) {
		r->warned_budget = true;
		note_say(
			&r->o.note,
			"holding the targets costs more than %u%% of a CPU: samples are shed; "
			"%s%s, or raise --hold-budget%s",
			r->o.hold_budget,
			r->session->events[0].attr.freq ? "lower -F" : "raise -c",
			r->o.max_frames > MEMORY_FRAMES ?
				" or --max-frames (each hold reads the whole stack)" :
				"",
			r->capture->cheaper);
	}
	if (STATS_GET(r->session->stats, stalled) && !r->warned_stall) {
		r->warned_stall = true;
		note_say(&r->o.note, "%s", r->capture->stall(text, sizeof(text)));
	}
	return soon;
}

/* Half of the duration is over: what is done once, such as reading symbols, is done by then.
 * When to look again. */
static uint64_t note_half(struct recorder *r, uint64_t now, uint64_t end)
{
	uint64_t half = r->session->start_ns + r->o.duration_ns / 2;

	if (!r->o.duration_ns || r->half.ns)
		return end;
	if (now < half)
		return half;
	slots_work(&r->config, &r->half);
	return end;
}

/* poll(2), also of more descriptors than a limit allows that was lowered meanwhile. */
static int poll_all(struct pollfd *fds, nfds_t n, int timeout)
{
	int r = poll(fds, n, timeout);

	if (r >= 0 || errno != EINVAL)
		return r;
	poll(NULL, 0, MIN(timeout, (int)SUSPECT_MS));
	for (nfds_t i = 0; i < n; i++)
		poll(&fds[i], 1, 0);
	return 0;
}

enum { STOP_FD, KICK_FD, LAST_FD, OWN_FDS }; /* behind those of the processes */

/* What the loop waits for, for @timeout ms at the most. */
static int await_news(const struct recorder *r, struct pollfd *fds, int timeout)
{
	size_t n = r->o.n_pids;
	struct pollfd *own = fds + n;

	for (size_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){ .fd = r->pidfds[i], .events = POLLIN };
	own[STOP_FD] = (struct pollfd){ .fd = r->o.stop ? r->o.stop->fd : -1,
					.events = POLLIN };
	own[KICK_FD] = (struct pollfd){ .fd = r->config.kick, .events = POLLIN };
	own[LAST_FD] = (struct pollfd){ .fd = r->last, .events = POLLIN };
	return poll_all(fds, n + OWN_FDS, timeout);
}

/* What is due at each turn; in how many ms it is again. */
static int look_after(struct recorder *r)
{
	int soon, other;

	tracker_run(&r->tracker);
	recorder_join(r);
	drop_left(r);
	soon = watch_readers(r);
	if (r->joins)
		soon = joins_due_ms(r->joins, soon);
	other = wake_readers(r);
	soon = MIN(soon, other);
	other = recorder_pace(r);
	soon = MIN(soon, other);
	recorder_tell_limits(r);
	if (r->last >= 0 && !r->told_left)
		soon = MIN(soon, LEFT_MS);
	cpuwatch_look(&r->cpuwatch);
	return soon;
}

static void loop(struct recorder *r, const struct recorder_hooks *hooks,
		 struct recorder_summary *ret)
{
	struct pollfd fds[RECORDER_MAX_PIDS + OWN_FDS];
	int soon = 0;
	uint64_t end = r->o.duration_ns ? r->session->start_ns + r->o.duration_ns : UINT64_MAX;

	r->second_ns = r->session->start_ns;
	if (r->config.ours && !r->config.table)
		slots_learn_hotplug(&r->config);
	tracker_scout(&r->tracker);
	for (;;) {
		uint64_t now = now_ns();
		int timeout;

		if (now >= end || resolver_failed(r->resolver))
			return;
		timeout =
			(int)MIN((note_half(r, now, end) - now) / 1000000 + 1, (uint64_t)soon);
		if (await_news(r, fds, timeout) < 0)
			continue;
		if (fds[r->o.n_pids + STOP_FD].revents)
			return;
		recorder_take_messages(r);
		if (recorder_over(r, fds))
			return;
		soon = look_after(r);
		if (hooks && hooks->second && now > r->second_ns + SECOND_NS) {
			hooks->second(hooks->arg);
			r->second_ns = now;
		}
		if (now > r->noted_ns + NOTE_NS) {
			recorder_note_ticks(r);
			r->noted_ns = now;
		}
	}
}

static void fill_summary(const struct recorder *r, struct recorder_summary *ret)
{
	ret->duration = (double)(now_ns() - r->session->start_ns) / 1e9;
	ret->child_end = atomic_load(&r->child_end);
}

int recorder_run(struct recorder *r, struct sink *const *sinks, size_t n_sinks,
		 const struct recorder_hooks *hooks, struct recorder_summary *ret,
		 struct err *err)
{
	struct work *before = work_shared;
	int code;

	work_shared = &r->config.others;
	err_set(err, -ENOMEM, "out of memory");
	code = recorder_start(r, sinks, n_sinks, err);
	*ret = (struct recorder_summary){ 0 };
	if (code == 0) {
		if (hooks && hooks->attached)
			hooks->attached(hooks->arg);
		loop(r, hooks, ret);
		waits_stop(r->waits);
		slots_work(&r->config, &r->end);
	}
	recorder_detach(r);
	readers_stop(r->config.slots, r->config.n_slots);
	recorder_introduce_rest(r);
	if (code == 0 && !r->namer_begun)
		recorder_start_namer(r);
	namer_stop(r->namer);
	while (r->n_hung_namers > 0)
		namer_leave(r->hung_namers[--r->n_hung_namers]);
	if (r->resolver)
		resolver_stop(r->resolver, &ret->counts);
	recorder_tell_limits(r);
	if (code == 0)
		recorder_balance(r, ret);
	fill_summary(r, ret);
	recorder_work(r, &ret->work);
	work_shared = before;
	return code;
}
