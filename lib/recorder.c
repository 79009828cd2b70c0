/* SPDX-License-Identifier: MIT */
#include "memory_plan.h"
#include "recorder_int.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "announce.h"
#include "capture/births.h"
#include "capture/preempt.h"
#include "clock.h"
#include "proc.h"
#include "slots.h"
#include "stats.h"

enum {
	LEFT_MS = 50,	 /* until it is told who is left when the named ones have ended */
	WATCH_MS = 1000, /* who sees a reader inside a read kicks the control thread before */
	NOTE_NS = 500000000,
	NICE = -10,
	BEFORE_NS = 120000000, /* less than the resolver waits */
	TAKE_MS = 50,	       /* for messages, before looking at anything else again */
	SUSPECT_MS = 10,       /* a reader was inside a read: still the same one? */
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

static int find_targets(struct recorder *r, struct err *err)
{
	int ret = 0;

	if (r->o.child)
		return tracker_new(&r->tracker, r->o.pids[0], 0);
	for (size_t i = 0; ret == 0 && i < r->o.n_pids; i++)
		ret = tracker_root(&r->tracker, r->o.pids[i], r->o.any, r->o.follow, err);
	if (ret == 0 && r->o.follow)
		ret = tracker_descendants(&r->tracker, r->o.pids, r->o.n_pids);
	if (ret < 0)
		return ret;
	tracker_settle(&r->tracker);
	return check_tids(r, err);
}

/* Ascending, each one once. */
static void sort_tids(struct recorder_options *o)
{
	size_t n = 0;

	qsort(o->tids, o->n_tids, sizeof(*o->tids), proc_compare_pids);
	for (size_t i = 0; i < o->n_tids; i++)
		if (!n || o->tids[n - 1] != o->tids[i])
			o->tids[n++] = o->tids[i];
	o->n_tids = n;
}

static int create(struct recorder *r, struct err *err)
{
	struct work *before = work_shared;
	int ret;

	work_shared = &r->config.others;
	ret = find_targets(r, err);
	if (ret == 0)
		ret = recorder_choose(r, err);
	work_shared = before;
	return ret;
}

struct recorder *recorder_create(const struct recorder_options *o, struct session *session,
				 struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	/* Where nothing else says why. */
	err_set(err, -ENOMEM, "out of memory or of descriptors");
	if (!r || kick < 0 || tracker_init(&r->tracker, kick) < 0) {
		if (kick >= 0)
			close(kick);
		free(r);
		return NULL;
	}
	r->o = *o;
	sort_tids(&r->o);
	r->session = r->attach.session = session;
	r->filter.map = r->table.map = -1;
	r->cgroup = -1;
	r->config.kick = kick;
	r->config.origin = o->origin;
	r->config.stats = r->tracker.stats = session->stats;
	r->tracker.note = o->note;
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
		.follow = o->follow,
		.note = o->note,
		.whole_ns = now_ns(),
	};
	if (create(r, err) == 0)
		return r;
	recorder_destroy(r);
	return NULL;
}

/* A reader whose read still hangs may come back at any time. */
static bool somebody_is_stuck(const struct recorder *r)
{
	for (size_t i = 0; i < r->config.n_slots; i++)
		if (r->config.slots[i].stuck)
			return true;
	return false;
}

void recorder_destroy(struct recorder *r)
{
	if (!r || somebody_is_stuck(r))
		return;
	resolver_destroy(r->resolver);
	free(r->queues);
	free(r->tids);
	attach_deinit(&r->attach);
	slots_deinit(&r->config);
	queue_deinit(&r->own);
	queue_deinit(&r->traced);
	tracker_deinit(&r->tracker);
	for (size_t i = 0; i < RECORDER_MAX_PIDS; i++)
		if (r->pidfds[i] >= 0)
			close(r->pidfds[i]);
	if (r->last >= 0)
		close(r->last);
	if (r->config.kick >= 0)
		close(r->config.kick);
	free((void *)(uintptr_t)r->config.last_in);
	ours_destroy(r->config.ours);
	ours_destroy(r->config.named);
	stranger_filter_deinit(&r->filter);
	if (r->by_table)
		run_table_deinit(&r->table);
	if (r->cgroup >= 0)
		close(r->cgroup);
	births_destroy(r->config.births);
	free(r);
}

/* A main thread may end before the others. */
static bool others_live(pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	return proc_tasks(pid, &tids, &n) == 0 && n > 1;
}

static void take_up(struct recorder *r, pid_t pid, bool unborn)
{
	struct target *t;

	uint64_t execed = births_execed(r->config.births, pid);

	tracker_new(&r->tracker, pid, execed);
	t = targets_find(&r->tracker.targets, pid);
	if (t) /* a program of its own has nothing of who forked it */
		t->unborn = unborn && !execed;
}

/* Threads of @pid without events that got theirs by now: they had run before. */
static void count_late(struct recorder *r, pid_t pid, const pid_t *tids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t ran = attach_has(&r->attach, tids[i]) ? proc_ran_ns(pid, tids[i]) : 0;

		r->n_late += ran > 0;
		r->late_ns += ran;
	}
}

/* The threads of @pid that have no events. *@ret malloc'ed, or NULL. */
static size_t without_events(const struct recorder *r, pid_t pid, pid_t **ret)
{
	size_t n = 0, k = 0;

	*ret = NULL;
	if (proc_tasks(pid, ret, &n) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!attach_has(&r->attach, (*ret)[i]))
			(*ret)[k++] = (*ret)[i];
	return k;
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
	n = without_events(r, pid, &tids);
	ret = attach_process(&r->attach, pid, NULL, 0, &err);
	r->n_missed += !attach_has(&r->attach, tid);
	count_late(r, pid, tids, n);
	if (ret < 0 && ret != -ESRCH && !r->warned_new) {
		r->warned_new = true;
		note_say(&r->o.note, "new threads are not sampled: %s", err.text);
	}
}

/* From its exec on nothing has to wait for it. */
static void start_at_once(struct recorder *r)
{
	for (size_t i = 0; r->config.tell_threads && i < r->session->n_events; i++)
		r->session->events[i].attr.disabled =
			r->session->events[i].attr.enable_on_exec = 0;
}

/* A new program since @time, if we don't know it yet: messages of several readers may tell of
 * the same one, and the older one last. */
static void execed(struct recorder *r, const struct target *t, pid_t pid, uint64_t time)
{
	if (t && time > t->begun_ns)
		tracker_new(&r->tracker, pid, time);
}

void recorder_announce(struct recorder *r, pid_t pid, bool execed, uint64_t time)
{
	if (announce_process(&r->own, pid, execed, !r->config.named, time) == -ENOBUFS)
		STATS_ADD(r->session->stats, side_lost, 1);
}

/* Before the sinks hear of @t for the first time, at @time, they are told what it was. Another
 * thread's sample may be a little older. */
static void introduce(struct recorder *r, struct target *t, uint64_t time)
{
	if (!t || !t->asleep)
		return;
	recorder_wakes(r, t);
	recorder_announce(r, t->pid, false,
			  MAX(time, r->session->start_ns + BEFORE_NS) - BEFORE_NS);
	tracker_wake(&r->tracker, t);
}

/* It may have execed already, by a record that lies in another ring. */
static void forked(struct recorder *r, const struct ctl_msg *m)
{
	uint64_t time = births_execed(r->config.births, m->pid);
	const struct target *t = targets_find(&r->tracker.targets, m->pid);

	if (time < m->time)
		tracker_forked(&r->tracker, m->pid, m->ppid, m->ptid, m->time);
	else if (t)
		execed(r, t, m->pid, time);
	else if (targets_find(&r->tracker.targets, m->ppid))
		tracker_new(&r->tracker, m->pid, time);
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
		break;
	case CTL_THREAD:
		attach_new(r, m->pid, m->ptid);
		break;
	case CTL_ENDED:
		attach_forget(&r->attach, m->ptid);
		break;
	case CTL_EXEC:
		/* Our own child's first exec is what we started it for. */
		if (r->o.child && m->pid == r->o.pids[0] && !r->child_ran) {
			r->child_ran = true;
			start_at_once(r);
		}
		execed(r, t, m->pid, m->time);
		break;
	case CTL_BEGUN:
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
		if (!others_live(m->pid)) {
			tracker_gone(&r->tracker, m->pid);
			ours_set(r->config.ours, m->pid, false);
		}
		break;
	case CTL_BIRTHS:
		recorder_go_over(r);
		break;
	case CTL_UNKNOWN:
		/* A process never seen, or in a PID namespace a thread never seen. */
		if (t && t->inner_tids && atomic_load(&t->state) == TARGET_PYTHON)
			take_up(r, m->pid, false);
		else if (!t && r->o.follow && r->n_unknown < RECORDER_UNKNOWN)
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

/* What was sampled last is introduced as well. */
static void introduce_rest(struct recorder *r)
{
	for (size_t i = 0; i < r->config.n_slots; i++) {
		struct queue *q = &r->config.slots[i].ctl;
		const struct queue_record *rec;

		for (; (rec = queue_peek(q)); queue_pop(q)) {
			const struct ctl_msg *m = (const void *)rec->data;
			pid_t pid = rec->type == CTL_FORK ? m->ppid : m->pid;

			if (rec->type == CTL_FORK || rec->type == CTL_LOOK)
				introduce(r, targets_find(&r->tracker.targets, pid), m->time);
		}
	}
}

static bool take_all(struct recorder *r, uint64_t until)
{
	bool all = true;

	for (size_t i = 0; i < r->config.n_slots; i++)
		all = take_from(r, &r->config.slots[i].ctl, until) && all;
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
			take_up(r, r->unknown[i], true);
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

/* Reads of @pid hang. */
static void give_up(struct recorder *r, pid_t pid)
{
	STATS_ADD(r->session->stats, stuck_reads, 1);
	tracker_quarantine(&r->tracker, pid);
}

static void replace_reader(struct recorder *r, struct cpu_slot *slot)
{
	int ret = reader_start(&r->config, slot);

	if (ret < 0)
		note_say(&r->o.note,
			 "CPU %d is not sampled any more: no new reader in place of the "
			 "one that hangs: %s",
			 slot->cpu, strerror(-ret));
}

/* Records that are no samples wake no reader. In how many ms to do it again. */
static int wake_readers(struct recorder *r)
{
	uint64_t now = now_ns();

	if (now >= r->wake_ns) {
		r->wake_ns = now + WATCH_MS * 1000000ull;
		for (size_t i = 0; i < r->config.n_slots; i++)
			reader_wake(&r->config.slots[i]);
	}
	return (int)((r->wake_ns - now) / 1000000) + 1;
}

/* How soon to look again, in ms. */
static int watch_readers(struct recorder *r)
{
	int soon = tracker_due_ms(&r->tracker, WATCH_MS);
	char text[500];
	pid_t back;

	for (size_t i = 0; i < r->config.n_slots; i++) {
		pid_t pid = r->config.slots[i].reader ? reader_stuck(&r->config.slots[i]) : 0;

		while ((back = reader_returned(&r->config.slots[i])))
			tracker_release(&r->tracker, back);
		if (r->config.slots[i].guard.watch & 1)
			soon = SUSPECT_MS;
		if (!pid)
			continue;
		give_up(r, pid);
		replace_reader(r, &r->config.slots[i]);
	}
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

static void loop(struct recorder *r, int stop_fd, struct recorder_summary *ret)
{
	struct pollfd fds[RECORDER_MAX_PIDS + 3];
	size_t n = r->o.n_pids;
	int soon = 0;
	uint64_t end = r->o.duration_ns ? r->session->start_ns + r->o.duration_ns : UINT64_MAX;

	if (r->config.ours && !r->config.table)
		slots_learn_hotplug(&r->config);
	/* Where the targets want many times what there is, samples would wait for seconds for
	 * what we say of new processes. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	tracker_scout(&r->tracker);
	for (;;) {
		uint64_t now = now_ns();
		int timeout;

		if (now >= end || resolver_failed(r->resolver))
			return;
		timeout =
			(int)MIN((note_half(r, now, end) - now) / 1000000 + 1, (uint64_t)soon);
		for (size_t i = 0; i < n; i++)
			fds[i] = (struct pollfd){ .fd = r->pidfds[i], .events = POLLIN };
		fds[n] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
		fds[n + 1] = (struct pollfd){ .fd = r->config.kick, .events = POLLIN };
		fds[n + 2] = (struct pollfd){ .fd = r->last, .events = POLLIN };
		if (poll(fds, n + 3, timeout) < 0)
			continue;
		if (fds[n].revents)
			return;
		recorder_take_messages(r);
		if (recorder_over(r, fds)) {
			ret->target_ended = true;
			return;
		}
		tracker_run(&r->tracker);
		soon = MIN(watch_readers(r), wake_readers(r));
		if (r->last >= 0 && !r->told_left)
			soon = MIN(soon, LEFT_MS);
		cpuwatch_look(&r->cpuwatch);
		if (now > r->noted_ns + NOTE_NS) {
			recorder_note_ticks(r);
			r->noted_ns = now;
		}
	}
}

/* In MiB. Not from getrusage(): that still knows what was before our exec. */
static double peak_rss(void)
{
	_cleanup_free_ char *text = NULL;
	const char *p = NULL;
	size_t n;

	if (proc_read_file("/proc/self/status", &text, &n) == 0)
		p = strstr(text, "VmHWM:");
	return p ? strtod(p + 6, NULL) / 1024 : 0;
}

static void fill_summary(const struct recorder *r, struct recorder_summary *ret)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	ret->duration = (double)(now_ns() - r->session->start_ns) / 1e9;
	ret->cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		   (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
	ret->rss = peak_rss();
	ret->child_end = atomic_load(&r->child_end);
}

int recorder_run(struct recorder *r, struct sink *const *sinks, size_t n_sinks, int stop_fd,
		 void (*released)(void *arg), void *arg, struct recorder_summary *ret,
		 struct err *err)
{
	struct work *before = work_shared;
	int code;

	work_shared = &r->config.others;
	err_set(err, -ENOMEM, "out of memory");
	code = recorder_start(r, sinks, n_sinks, err);
	*ret = (struct recorder_summary){ 0 };
	if (code == 0) {
		if (released)
			released(arg);
		loop(r, stop_fd, ret);
		slots_work(&r->config, &r->end);
	}
	recorder_detach(r);
	for (size_t i = 0; i < r->config.n_slots; i++)
		reader_stop(&r->config.slots[i]);
	introduce_rest(r);
	if (r->resolver)
		resolver_stop(r->resolver, &ret->counts);
	if (code == 0)
		recorder_balance(r, ret);
	fill_summary(r, ret);
	recorder_work(r, &ret->work);
	work_shared = before;
	return code;
}
