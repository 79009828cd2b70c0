/* SPDX-License-Identifier: MIT
 *
 * recorder_choose - what of the wishes can be had here: events, a capture, descriptors.
 */
#include <errno.h>
#include <string.h>

#include "attach/events.h"
#include "attach/memory_plan.h"
#include "perf_event.h"
#include "python/pygil.h"
#include "lines/places.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"
#include "record/recorder_int.h"
#include "watch/proof.h"

static void prepare_preempt(struct recorder *r)
{
	struct preempt_targets *t = &r->preempt.targets;

	t->cpus = r->cpus;
	for (size_t i = 0; i < r->n_tids; i++)
		realtime_add_thread(&t->rt, r->tids[i]);
	if (!r->o.hold_isolated)
		cpus_isolated(&t->spared);
}

enum { MOST_TRIED = 4 }; /* targets, until one lets events be opened */

/* False: it does not come out of an execve(), until which nobody can open an event of it. */
static bool lets_open(pid_t pid)
{
	const struct perf_event_attr none = { .size = sizeof(none),
					      .type = PERF_TYPE_SOFTWARE,
					      .config = PERF_COUNT_SW_DUMMY,
					      .exclude_kernel = 1 };

	proc_outlived(&pid);
	return perf_event_try(&none, pid, -1) != -EINTR;
}

/* A thread of a target, on which events are tried; 0: us. */
static pid_t somebody(const struct recorder *r)
{
	const struct targets *t = &r->tracker.targets;
	pid_t pid = r->o.n_pids || !t->n_all ? r->o.pids[0] : t->all[0]->pid;

	for (size_t i = 1; i < MIN(t->n_all, (size_t)MOST_TRIED) && !lets_open(pid); i++)
		pid = t->all[i]->pid;
	proc_outlived(&pid);
	return pid;
}

static int choose_events(struct recorder *r, char fallback[256], struct err *err)
{
	return events_choose(r->session, r->o.events, r->o.n_events, &r->perf, somebody(r),
			     fallback, err);
}

static bool runs_python(struct recorder *r, pid_t pid)
{
	const struct target *t = targets_find(&r->tracker.targets, pid);

	return t && atomic_load(&t->state) == TARGET_PYTHON;
}

static bool is_named(const struct recorder *r, pid_t pid)
{
	for (size_t i = 0; i < r->o.n_pids; i++)
		if (r->o.pids[i] == pid)
			return true;
	return false;
}

/* The named processes that run Python; if one does not, all that do: a bootloader handles all
 * signals, to pass them on to the Python that it started. If none does, the named ones. */
static int find_deciders(struct recorder *r)
{
	const struct targets *t = &r->tracker.targets;
	bool wrapped = false;
	size_t cap = 0;
	int ret = 0;

	for (size_t i = 0; i < r->o.n_pids; i++)
		wrapped |= !runs_python(r, r->o.pids[i]);
	for (size_t i = 0; ret == 0 && i < t->n_all; i++) {
		pid_t pid = t->all[i]->pid;

		if (runs_python(r, pid) && (wrapped || is_named(r, pid)))
			ret = proc_push(&r->deciders, &r->n_deciders, &cap, pid);
	}
	if (r->n_deciders)
		return ret;
	for (size_t i = 0; ret == 0 && i < r->o.n_pids; i++)
		ret = proc_push(&r->deciders, &r->n_deciders, &cap, r->o.pids[i]);
	return ret;
}

static struct capture_want what_is_wanted(struct recorder *r)
{
	struct capture_want want = {
		.pids = r->deciders,
		.n_pids = r->n_deciders,
		.user_only = true,
		.joins = r->o.scope,
		.waits = r->o.mode == RECORDER_WALL,
		.plan = &r->preempt,
	};

	for (size_t i = 0; i < r->session->n_events; i++) {
		const struct perf_event_attr *a = &r->session->events[i].attr;

		want.user_only = want.user_only && a->exclude_kernel;
		want.kernel_only =
			want.kernel_only || a->exclude_user || a->type == PERF_TYPE_TRACEPOINT;
		want.switches = want.switches || perf_event_is_switch(a);
		want.breakpoints = want.breakpoints || a->type == PERF_TYPE_BREAKPOINT;
	}
	return want;
}

static int choose_capture(struct recorder *r, const struct capture_want *want, struct err *err)
{
	/* Whoever joins may run anywhere. */
	int ret = cpuwatch_reach(r->tids, r->o.scope ? 0 : r->n_tids, &r->cpus);

	if (ret < 0)
		return err_set(err, ret, "can't tell which CPUs there are: %s",
			       strerror(-ret));
	prepare_preempt(r);
	ret = capture_pick(r->o.capture, want, &r->capture, &r->why, err);
	if (ret < 0)
		return ret;
	r->config.capture = r->capture;
	r->config.plan = &r->preempt;
	r->session->capture = r->capture->name;
	r->session->capture_why = r->why.text;
	r->perf.stack = r->o.native ? r->o.stack_bytes : r->capture->stack_bytes;
	r->capture->limit(&r->perf);
	return 0;
}

/* Events that mean something in the targets alone. */
static bool has_address(const struct recorder *r)
{
	bool breakpoint = false;

	for (size_t i = 0; i < r->o.n_events; i++)
		breakpoint |= r->o.events[i].type == PERF_TYPE_BREAKPOINT;
	return breakpoint || recorder_has_probe(r);
}

/* What the members of a group (:S) counted since a thread's last sample is that thread's only
 * where they count on threads. */
static bool reads_group(const struct session *s)
{
	bool reads = false;

	for (size_t i = 0; i < s->n_events; i++)
		reads |= s->how[i].read;
	return reads;
}

/* True also where that can't be told. */
static bool has_mapped(pid_t pid, uint64_t ino)
{
	struct proc_maps maps;
	bool found = false;

	if (proc_maps_read(&maps, pid) < 0)
		return true;
	for (size_t i = 0; !found && i < maps.n; i++)
		found = maps.map[i].ino == ino;
	proc_maps_deinit(&maps);
	return found;
}

/* Another copy of the file than the one that the targets run. */
static void note_strange_files(const struct recorder *r)
{
	for (size_t i = 0; !r->o.child && i < r->o.n_events; i++) {
		const struct perf_spec *s = &r->o.events[i];
		bool found = false;

		if (!*s->file)
			continue;
		for (size_t p = 0; !found && p < r->tracker.targets.n_all; p++)
			found = has_mapped(r->tracker.targets.all[p]->pid, s->file_ino);
		if (!found)
			note_say(&r->o.note,
				 "event '%s': no target seems to have mapped that file; "
				 "/proc/PID/maps tells which it has",
				 s->name);
	}
}

static void note_choice(const struct recorder *r, const char *fallback, bool kernel,
			bool user_only)
{
	char caveat[700];

	if (fallback[0])
		note_say(&r->o.note, "%s", fallback);
	if (r->o.kernel && !kernel)
		note_say(&r->o.note,
			 "kernel frames are not permitted here (kernel.perf_event_paranoid is "
			 "%d)",
			 perf_event_sysctl("perf_event_paranoid", -1));
	else if (!user_only && kernel && !r->perf.kernel)
		note_say(&r->o.note,
			 "capture %s: what the kernel does for the target is not sampled",
			 r->capture->name);
	if (r->why.text[0])
		note_say(&r->o.note, "capture %s: %s", r->capture->name, r->why.text);
	if (recorder_has_probe(r))
		note_say(&r->o.note, "the kernel puts a breakpoint into the code of the "
				     "targets for each uprobe, until the recording ends");
	if (r->perf.inherit && r->perf.threads_only &&
	    !r->session->events[0].attr.inherit_thread)
		note_say(&r->o.note,
			 "--no-follow: this kernel gives the events to children too "
			 "(Linux 5.13 does not); what they do is ignored");
	note_strange_files(r);
	if (*r->capture->caveat(&r->preempt, caveat, sizeof(caveat)))
		note_say(&r->o.note, "capture %s: %s", r->capture->name, caveat);
}

/* Which events can be had tells which capture can be had, and that how they are opened. */
static int choose_all(struct recorder *r, struct err *err)
{
	struct capture_want want;
	struct perf_options tried;
	char fallback[256];
	bool kernel;
	int ret;

	r->config.max_frames = r->o.max_frames;
	r->perf = (struct perf_options){
		.freq = r->o.freq,
		.said = r->o.said,
		.value = r->o.value,
		.kernel = r->o.kernel,
		.inherit = r->o.n_tids == 0 && !recorder_has_probe(r) && !r->o.scope,
		.threads_only = !r->o.follow,
		.on_exec = r->o.child,
		.stack = r->o.native ? r->o.stack_bytes : CAPTURE_STACK_BYTES,
	};
	memcpy(&tried, &r->perf, sizeof(tried));
	ret = choose_events(r, fallback, err);
	if (ret < 0)
		return ret;
	kernel = r->perf.kernel;
	ret = find_deciders(r);
	if (ret < 0)
		return err_set(err, ret, "out of memory");
	want = what_is_wanted(r);
	ret = choose_capture(r, &want, err);
	/* Mostly the capture takes what there is. */
	if (ret == 0 && memcmp(&tried, &r->perf, sizeof(tried)))
		ret = choose_events(r, fallback, err);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < r->session->n_events; i++)
		if (!r->session->events[i].attr.exclude_kernel)
			r->session->flags |= SESSION_KERNEL;
	note_choice(r, fallback, kernel, want.user_only);
	return 0;
}

static void use_cpu_events(struct recorder *r)
{
	r->perf.inherit = false;
	r->cpuwatch.wide = true;
}

/* What a thread needs on a CPU, and what CPUs need besides. */
static void add_wants(const struct recorder *r, struct attach_wants *w)
{
	w->cpus = (size_t)cpus_count(&r->cpus);
	/* One more: the witness, or what carries all but samples (attach_hooks.arm, attach.side).
	 */
	w->events = r->o.n_events +
		    (r->attach.witness || r->attach.side || r->capture->sees_registers);
	if (r->place == PLACE_THREADS_FIRST)
		w->events += r->o.n_events;
	if (r->by_table)
		w->threads = 1;
	else if (r->place != PLACE_THREADS)
		w->others += w->cpus * r->o.n_events;
	w->rate = recorder_sample_rate(r->session, false);
	w->sample = r->perf.stack;
	w->prompt = r->capture->prompt;
	w->others += r->o.n_pids + w->cpus * r->capture->cpu_fds; /* the former: pidfds */
	if (recorder_has_probe(r))
		w->others += r->o.n_events; /* their files */
	if (r->session->places)
		w->others += PLACES_FDS;
	w->may_add = r->attach.witness && r->place == PLACE_THREADS;
}

/* Of --memory, what names and stacks may take, and of that source lines: one part in so many.
 */
enum { NAMES_PART = 2, LINES_PART = 8 };

/* libtorch_cpu.so takes 83 MB, and a program that has it has several such files: they may take
 * as much as all else, unless --memory asks for less than we would take. */
static size_t file_memory(size_t limit)
{
	return limit >= MEMORY_DEFAULT ? limit : 0;
}

/* How large rings and queues may be, after the former can be locked. */
static int plan_memory(struct recorder *r, size_t cpus, size_t page, struct err *err)
{
	struct memory_wants w = {
		.limit = r->o.memory,
		.cpus = cpus,
		.page = page,
		.ring_pages = r->plan.ring_pages,
		.queue = memory_plan_queue(r->o.freq ? r->o.value : 0, r->o.native,
					   r->o.max_frames),
		.frames = r->o.max_frames,
	};
	struct memory_plan p;
	int ret = memory_plan_make(&w, &p, err);
	size_t limit;

	if (ret < 0)
		return ret;
	if (*p.why)
		note_say(&r->o.note, "%s", p.why);
	r->plan.ring_pages = p.ring_pages;
	r->config.queue_bytes = p.queue;
	limit = w.limit ? w.limit : MEMORY_DEFAULT;
	r->session->memory = limit / NAMES_PART;
	r->session->file_memory = file_memory(limit);
	if (r->session->places)
		places_limit(r->session->places, r->session->memory / LINES_PART);
	return 0;
}

/* Events on CPUs need some descriptors a CPU, and a target has one where there are many. */
enum { CPUS_FDS = 16 << 10 };

/* As many of a scope's processes as events can be opened in. */
static int plan_some(struct recorder *r, struct attach_wants *w,
		     const struct attach_limits *limits, struct err *err)
{
	struct targets *t = &r->tracker.targets;
	size_t n = t->n_all;
	int ret = attach_plan_make(w, limits, &r->plan, err);

	while (r->o.scope && ret == -EMFILE && n > 1) {
		n -= (n + 7) / 8;
		w->threads = 0;
		for (size_t i = 0; i < n; i++)
			w->threads += proc_count_tasks(t->all[i]->pid);
		ret = attach_plan_make(w, limits, &r->plan, err);
	}
	if (ret == 0 && n < t->n_all)
		recorder_busiest(r, n);
	return ret;
}

/* How many files may wait until they are on a stack, which few of those that are mapped ever are:
 * by the descriptors that are left. */
static size_t files_held(size_t left)
{
	enum { HELD = 512, PART = 8 };

	return MIN(left / PART, (size_t)HELD);
}

/* What tells of all that a thread does besides its samples: the witness is on each CPU, and so are
 * the session's events but on hybrid CPUs. */
static void choose_witness(struct recorder *r)
{
	r->attach.witness =
		!r->capture->sees_registers && events_can_witness(r->session, somebody(r));
	r->attach.side = !r->attach.witness && !r->capture->sees_registers &&
			 events_leave_out(r->session, &r->possible);
}

static int plan(struct recorder *r, struct err *err)
{
	struct attach_wants w = { .threads = r->n_tids };
	struct attach_limits limits;
	size_t n;
	bool tied, wide;
	int ret;

	if (r->capture->fixed_cpus)
		cpus_system(&r->cpus, "online");
	if (cpus_system(&r->possible, "possible") < 0)
		r->possible = r->cpus;
	choose_witness(r);
	/* Of a scope all are on CPUs, or none: who joins gets events one way. */
	tied = has_address(r) || (r->o.scope && reads_group(r->session));
	wide = !r->capture->on_threads && !tied && events_can_wide(r->session, &r->cpus);
	ret = recorder_choose_place(r, wide, tied, w.threads, err);
	if (ret < 0)
		return ret;
	add_wants(r, &w);
	limits = attach_limits_now(wide && !r->o.child, r->by_table ? CPUS_FDS : SIZE_MAX);
	w.joins = r->o.scope && !r->by_table;
	w.tied = tied || reads_group(r->session);
	ret = plan_some(r, &w, &limits, err);
	if (ret == 0)
		ret = plan_memory(r, w.cpus, limits.page, err);
	if (ret < 0)
		return ret;
	if (r->plan.wide) {
		note_say(&r->o.note, "%s", r->plan.why);
		recorder_give_up_place(r, w.joins);
	}
	r->plan.wide = r->plan.wide || r->by_table;
	if (r->plan.wide)
		use_cpu_events(r);
	r->attach.counter = r->plan.more && events_can_count(r->session);
	if (r->attach.counter)
		r->session->flags |= SESSION_COUNTED;
	if (r->attach.witness || r->capture->sees_registers)
		r->session->flags |= SESSION_REGISTERS;
	r->session->files_held =
		files_held(limits.nofile - MIN(limits.nofile, r->plan.descriptors));
	n = r->plan.descriptors + r->session->files_held;
	if (n > r->n_reserved)
		attach_reserve(r->config.kick, n);
	return 0;
}

/* What members of a group have counted since a sample is known only if none is left out. */
static int check_gil_groups(const struct recorder *r, struct err *err)
{
	for (size_t e = 0; r->o.mode == RECORDER_GIL && e < r->session->n_events; e++)
		if (r->session->how[e].led)
			return err_set(err, -EINVAL,
				       "--mode gil leaves samples out, and can't tell what the "
				       "members of a group (:S) counted at the others: name the "
				       "events one by one");
	return 0;
}

/* Of processes that were named it is an error where nobody can tell who has the GIL. */
static int check_gil(const struct recorder *r, struct err *err)
{
	const struct targets *t = &r->tracker.targets;

	for (size_t i = 0; r->o.mode == RECORDER_GIL && !r->o.scope && i < t->n_all; i++) {
		const struct target *one = t->all[i];
		unsigned version = one->version >> 16;

		if (atomic_load(&one->state) != TARGET_PYTHON || pygil_tells(&one->py.layout))
			continue;
		return err_set(
			err, -ENOTSUP,
			one->py.layout.free_threaded ?
				"--mode gil: process %d runs a free-threaded CPython "
				"%u.%u, which has no GIL" :
				"--mode gil: process %d runs CPython %u.%u, of which it "
				"is not known how to tell who has the GIL",
			one->pid, version >> 8, version & 0xff);
	}
	return 0;
}

/* It pays where samples are many: else a file of /proc tells. */
static void load_sight(struct recorder *r)
{
	if (r->config.switches_hidden && r->place_facts.rate > PLACE_CHEAP_HZ &&
	    sight_init(&r->sight, recorder_cpu_numbers(r)) == 0)
		r->config.sight = &r->sight;
}

/* Events tell the kernel's own CLOCK_MONOTONIC, and a time namespace has another. */
static int check_clock(struct err *err)
{
	static const char INITIAL[] = "time:[4026531834]"; /* PROC_TIME_INIT_INO */
	_cleanup_free_ char *text = NULL;
	char ours[32] = "";
	long long s, ns;

	if (readlink("/proc/self/ns/time", ours, sizeof(ours) - 1) < 0 || !strcmp(ours, INITIAL) ||
	    proc_read_piece("/proc/self/timens_offsets", &text) < 0 ||
	    sscanf(text, "monotonic %lld %lld", &s, &ns) != 2 || (!s && !ns))
		return 0;
	return err_set(err, -ENOSYS,
		       "the clock of this time namespace is %g s ahead of the kernel's, by which "
		       "events tell their times: run pysampled outside of it, or by nsenter "
		       "--time=FILE, FILE being /proc/PID/ns/time of a process outside",
		       (double)s + (double)ns / 1e9);
}

int recorder_choose(struct recorder *r, struct err *err)
{
	int ret = cpuwatch_threads(&r->cpuwatch, &r->tids, &r->n_tids, &r->n_processes);

	r->config.switches_hidden = proof_switches_hidden();
	if (ret == 0)
		ret = check_clock(err);
	if (ret == 0)
		ret = check_gil(r, err);
	if (ret == 0)
		ret = choose_all(r, err);
	if (ret == 0)
		ret = check_gil_groups(r, err);
	if (ret == 0)
		ret = plan(r, err);
	if (ret == 0)
		load_sight(r);
	return ret;
}
