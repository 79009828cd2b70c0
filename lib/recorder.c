/* SPDX-License-Identifier: MIT */
#include "recorder.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "../output/sink.h"
#include "announce.h"
#include "attach.h"
#include "attach_plan.h"
#include "capture/preempt.h"
#include "capture/tracer.h"
#include "clock.h"
#include "cpuwatch.h"
#include "proc.h"
#include "stats.h"
#include "tracker.h"

enum {
	QUEUE_BYTES = 2 << 20,
	CTL_QUEUE_BYTES = 64 << 10,
	STACK_BYTES = 1024, /* holds what the innermost eval loop keeps on the C stack */
	READY_MS = 1000,    /* the readers have them to begin */
	WATCH_MS = 1000, /* who sees a reader inside a read kicks the control thread before */
	SEARCH_MS = 50,	 /* while interpreters are being looked for */
	SUSPECT_MS = 10, /* a reader was inside a read: still the same one? */
};

struct recorder {
	struct recorder_options o;
	struct session *session;
	const struct capture_ops *capture;
	struct reader_config config;
	struct tracker tracker;
	struct attach attach;
	struct attach_plan plan;
	struct tracer *tracer; /* of a capture that stops threads */
	struct perf_options perf;
	struct cpus cpus; /* watched from the beginning */
	struct cpuwatch cpuwatch;
	struct queue own;    /* the control thread's records for the resolver */
	struct queue traced; /* the tracer's messages to the control thread */
	struct queue **queues;
	struct resolver *resolver;
	int pidfds[RECORDER_MAX_PIDS];
	struct err why; /* why not a better capture */
	bool warned_budget, warned_stall, child_ran;
};

__attribute__((__format__(__printf__, 2, 3))) static void note(const struct recorder *r,
							       const char *fmt, ...)
{
	char text[600];
	va_list ap;

	if (!r->o.note)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->o.note(r->o.note_arg, text);
}

static int find_targets(struct recorder *r, struct err *err)
{
	int ret = 0;

	if (r->o.child)
		return tracker_new(&r->tracker, r->o.pids[0]);
	for (size_t i = 0; ret == 0 && i < r->o.n_pids; i++) {
		ret = tracker_root(&r->tracker, r->o.pids[i], r->o.any, err);
		if (ret == 0 && r->o.follow)
			ret = tracker_descendants(&r->tracker, r->o.pids[i]);
	}
	if (ret == 0)
		tracker_settle(&r->tracker);
	return ret;
}

static void prepare_preempt(const struct recorder *r)
{
	struct preempt_targets t = { 0 };
	_cleanup_free_ pid_t *tids = NULL;
	size_t n;

	if (cpuwatch_threads(&r->cpuwatch, &tids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		cpus_add_thread(&t.cpus, tids[i]);
		realtime_add_thread(&t.rt, tids[i]);
	}
	preempt_prepare(&t);
}

static int choose_events(struct recorder *r, char fallback[256], struct err *err)
{
	return attach_choose(r->session, r->o.events, r->o.n_events, &r->perf, r->o.pids[0],
			     fallback, err);
}

static struct capture_want what_is_wanted(const struct recorder *r)
{
	struct capture_want want = {
		.pids = r->o.pids,
		.n_pids = r->o.n_pids,
		.user_only = true,
	};

	for (size_t i = 0; i < r->session->n_events; i++) {
		const struct perf_event_attr *a = &r->session->events[i].attr;

		want.user_only = want.user_only && a->exclude_kernel;
		want.kernel_only = want.kernel_only || a->exclude_user;
		want.switches = want.switches || perf_event_is_switch(a);
	}
	return want;
}

static int choose_capture(struct recorder *r, const struct capture_want *want, struct err *err)
{
	int ret;

	prepare_preempt(r);
	ret = capture_pick(r->o.capture, want, &r->capture, &r->why, err);
	if (ret < 0)
		return ret;
	r->config.capture = r->capture;
	r->session->capture = r->capture->name;
	r->session->capture_why = r->why.text;
	r->perf.stack = r->capture->holds ? STACK_BYTES : 0;
	if (r->capture->stops) {
		r->perf.kernel = r->perf.inherit = false;
		r->perf.disabled = true;
	}
	return 0;
}

static void note_choice(const struct recorder *r, const char *fallback, bool kernel,
			bool user_only)
{
	char caveat[400];

	if (fallback[0])
		note(r, "%s", fallback);
	if (r->o.kernel && !kernel)
		note(r,
		     "kernel frames are not permitted here (kernel.perf_event_paranoid is "
		     "%d)",
		     perf_event_sysctl("perf_event_paranoid", -1));
	else if (!user_only && r->capture->stops)
		note(r, "capture stop: what the kernel does for the target is not sampled");
	if (r->why.text[0])
		note(r, "capture %s: %s", r->capture->name, r->why.text);
	if (r->capture == &capture_preempt && *preempt_caveat(caveat, sizeof(caveat)))
		note(r, "capture preempt: %s", caveat);
}

/* Which events can be had tells which capture can be had, and that how they are opened. */
static int choose(struct recorder *r, struct err *err)
{
	struct capture_want want;
	char fallback[256];
	bool kernel;
	int ret;

	r->perf = (struct perf_options){
		.freq = r->o.freq,
		.value = r->o.value,
		.kernel = r->o.kernel,
		.inherit = r->o.n_tids == 0,
		.threads_only = !r->o.follow,
		.on_exec = r->o.child,
	};
	ret = choose_events(r, fallback, err);
	if (ret < 0)
		return ret;
	kernel = r->perf.kernel;
	want = what_is_wanted(r);
	ret = choose_capture(r, &want, err);
	if (ret == 0)
		ret = choose_events(r, fallback, err);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < r->o.n_events; i++)
		if (!r->session->events[i].attr.exclude_kernel)
			r->session->flags |= SESSION_KERNEL;
	note_choice(r, fallback, kernel, want.user_only);
	return 0;
}

static void go_wide(struct recorder *r)
{
	note(r, "%s", r->plan.why);
	r->perf.inherit = false;
	r->cpuwatch.wide = true;
	for (size_t i = 0; i < r->session->n_events; i++) {
		struct perf_event_attr *a = &r->session->events[i].attr;

		a->inherit = a->inherit_thread = 0;
		a->exclude_idle = 1;
	}
}

/* The CPUs that are watched from the beginning. With a tracer none can be added later. */
static int first_cpus(struct recorder *r, struct err *err)
{
	int code = r->capture->stops ? cpus_system(&r->cpus, "online") :
				       cpuwatch_reach(&r->cpuwatch, &r->cpus);

	return code < 0 ? err_set(err, code, "can't tell which CPUs there are: %s",
				  strerror(-code)) :
			  0;
}

/* Before there are threads that share the descriptors. */
static int plan(struct recorder *r, struct err *err)
{
	struct attach_wants w = { 0 };
	struct attach_limits limits;
	_cleanup_free_ pid_t *tids = NULL;
	int ret = first_cpus(r, err);

	if (ret == 0)
		ret = cpuwatch_threads(&r->cpuwatch, &tids, &w.threads);
	if (ret < 0)
		return ret;
	w.cpus = (size_t)cpus_count(&r->cpus);
	r->attach.witness = !r->capture->stops && attach_can_witness(r->session, r->o.pids[0]);
	w.events = r->o.n_events + r->attach.witness;
	limits = attach_limits_now(!r->capture->stops && !r->o.child &&
				   attach_can_wide(r->session, cpus_next(&r->cpus, 0)));
	ret = attach_plan_make(&w, &limits, &r->plan, err);
	if (ret < 0)
		return ret;
	attach_reserve(r->config.kick, r->plan.descriptors);
	if (r->plan.wide)
		go_wide(r);
	return 0;
}

struct recorder *recorder_create(const struct recorder_options *o, struct session *session,
				 struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));

	int kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (!r || kick < 0 || tracker_init(&r->tracker, kick) < 0) {
		free(r);
		err_set(err, -ENOMEM, "out of memory or of descriptors");
		return NULL;
	}
	r->o = *o;
	r->session = session;
	r->config.kick = kick;
	r->tracker.note = o->note;
	r->tracker.note_arg = o->note_arg;
	for (size_t i = 0; i < RECORDER_MAX_PIDS; i++)
		r->pidfds[i] = -1;
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
		.note_arg = o->note_arg,
		.whole_ns = now_ns(),
	};
	if (find_targets(r, err) == 0 && choose(r, err) == 0 && plan(r, err) == 0)
		return r;
	recorder_destroy(r);
	return NULL;
}

void recorder_destroy(struct recorder *r)
{
	if (!r)
		return;
	resolver_destroy(r->resolver);
	free(r->queues);
	attach_deinit(&r->attach);
	slots_deinit(&r->config);
	queue_deinit(&r->own);
	queue_deinit(&r->traced);
	tracker_deinit(&r->tracker);
	for (size_t i = 0; i < RECORDER_MAX_PIDS; i++)
		if (r->pidfds[i] >= 0)
			close(r->pidfds[i]);
	if (r->config.kick >= 0)
		close(r->config.kick);
	free((void *)(uintptr_t)r->config.last_in);
	ours_destroy(r->config.ours);
	free(r);
}

/* --- a recording --- */

/* The CPUs with their queues; the rings come later. */
static int make_slots(struct recorder *r, struct err *err)
{
	if (queue_init(&r->own, QUEUE_BYTES) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return slots_init(&r->config, &r->cpus, err);
}

/* Attach to the targets from number *@done on, which moves to their end. */
static int attach_targets(struct recorder *r, size_t *done, struct err *err)
{
	int ret = 0;

	for (; ret == 0 && *done < r->tracker.targets.n_all; (*done)++) {
		pid_t pid = r->tracker.targets.all[*done]->pid;

		ret = attach_process(&r->attach, pid, r->o.tids, r->o.n_tids, err);
		/* A child that is gone or not ours is no reason to stop. */
		if (ret < 0 && pid != r->o.pids[0] && (ret == -ESRCH || ret == -EACCES))
			ret = 0;
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
		for (size_t i = 0; ret == 0 && r->o.follow && i < r->o.n_pids; i++)
			ret = tracker_descendants(&r->tracker, r->o.pids[i]);
	} while (ret == 0 && done < r->tracker.targets.n_all);
	if (ret == 0 && r->o.n_tids && r->attach.n_attached < r->o.n_tids)
		ret = err_set(err, -ESRCH, "thread %d is not there", r->o.tids[0]);
	return ret;
}

static int attach_cpus(struct recorder *r, struct err *err)
{
	for (size_t i = 0; i < r->o.n_tids; i++)
		if (proc_tgid(r->o.tids[i]) < 0)
			return err_set(err, -ESRCH, "thread %d is not there", r->o.tids[i]);
	return attach_wide(&r->attach, err);
}

/* By the thread that may: the tracer's, if there is one. */
static int attach(struct recorder *r, struct err *err)
{
	struct tracer_config c = {
		.attach = &r->attach,
		.slots = r->config.slots,
		.threads = r->o.n_tids == 0,
		.children = r->o.n_tids == 0 && r->o.follow,
		.child = r->o.child ? r->o.pids[0] : 0,
		.ctl = &r->traced,
		.kick = r->config.kick,
	};

	r->attach = (struct attach){
		.session = r->session,
		.slots = r->config.slots,
		.n_slots = r->config.n_slots,
		.cap_slots = r->config.cap_slots,
		.inherit = r->perf.inherit,
		.witness = r->attach.witness,
	};
	if (r->plan.wide)
		return attach_cpus(r, err);
	if (!r->capture->stops)
		return attach_all(r, err);
	c.signal = capture_stop_signal(r->o.pids, r->o.n_pids, err);
	if (c.signal < 0)
		return c.signal;
	note(r,
	     "capture stop: SIG%s stops a thread for each of its samples; were pysampled "
	     "killed "
	     "(-9) at that moment, a handler that the target has for it by then may be called",
	     sigabbrev_np(c.signal));
	if (queue_init(&r->traced, CTL_QUEUE_BYTES) == 0)
		r->tracer = r->attach.tracer = tracer_create(&c);
	if (!r->tracer)
		return err_set(err, -ENOMEM, "out of memory");
	return tracer_attach(r->tracer, attach_all, r, err);
}

/* Nothing is sampled any more, and nobody held. */
static void detach(struct recorder *r)
{
	size_t blocked = tracer_stop(r->tracer);

	r->tracer = NULL;
	if (blocked)
		note(r, "%zu threads block the signal of capture stop and have one pending",
		     blocked);
	/* Who runs from here on leaves no record of it: nothing is exact any more. */
	atomic_store(&r->config.blind_ns, UINT64_MAX);
	attach_disable(&r->attach);
}

/* Events that see all: what is there belongs to us, children since the last look too. */
static int claim(struct recorder *r)
{
	int ret = 0;

	r->config.tids = r->o.tids;
	r->config.n_tids = r->o.n_tids;
	r->config.ours = ours_create();
	for (size_t i = 0; ret == 0 && r->o.follow && i < r->o.n_pids; i++)
		ret = tracker_descendants(&r->tracker, r->o.pids[i]);
	for (size_t i = 0; i < r->tracker.targets.n_all; i++)
		ours_set(r->config.ours, r->tracker.targets.all[i]->pid, true);
	return r->config.ours ? ret : -ENOMEM;
}

static int fill_config(struct recorder *r, const struct sink *const *sinks, size_t n_sinks)
{
	struct reader_config *c = &r->config;

	c->session = r->session;
	c->max_frames = r->o.max_frames;
	c->hold_budget = r->o.hold_budget;
	c->sample_type = r->session->events[0].attr.sample_type;
	c->witness = r->attach.witness;
	c->follow = r->o.follow;
	for (size_t i = 0; i < n_sinks; i++)
		if (sinks[i]->ops->needs & SINK_NEEDS_READS)
			c->tape = true;
	atomic_init(&c->start_ns, UINT64_MAX);
	c->last_in = calloc(LAST_IN, sizeof(*c->last_in));
	c->ids = &r->attach.ids;
	if (!c->last_in)
		return -ENOMEM;
	return r->plan.wide ? claim(r) : 0;
}

/* On the resolver's thread, which wakes up anyway: a reader inside a read is worth a look
 * of the control thread. */
static void look_at_readers(void *arg)
{
	struct recorder *r = arg;

	for (size_t i = 0; i < r->config.n_slots; i++)
		if (atomic_load_explicit(&r->config.slots[i].guard, memory_order_relaxed) & 1)
			eventfd_write(r->config.kick, 1);
}

static int start_resolver(struct recorder *r, struct sink *const *sinks, size_t n_sinks)
{
	struct resolver_config c = {
		.session = r->session,
		.n_queues = r->config.n_slots + 1,
		.n_sinks = n_sinks,
		.native = r->o.native,
		.full = r->o.full,
		.tick = look_at_readers,
		.tick_arg = r,
	};

	r->queues = calloc(r->config.cap_slots + 1, sizeof(*r->queues));
	if (!r->queues)
		return -ENOMEM;
	r->queues[0] = &r->own;
	for (size_t i = 0; i < r->config.n_slots; i++)
		r->queues[i + 1] = &r->config.slots[i].queue;
	c.queues = r->queues;
	memcpy(c.sinks, sinks, n_sinks * sizeof(*sinks));
	r->resolver = r->cpuwatch.resolver = resolver_create(&c);
	return r->resolver ? resolver_start(r->resolver) : -ENOMEM;
}

static void announce_all(struct recorder *r, uint64_t time)
{
	for (size_t i = 0; i < r->tracker.targets.n_all; i++)
		announce_process(&r->own, r->tracker.targets.all[i]->pid, false, time);
	if (r->config.tape)
		tracker_tape_all(&r->tracker, &r->own);
}

/* On a busy machine it is milliseconds until they run for the first time. */
static void await_readers(const struct recorder *r)
{
	const struct timespec step = { .tv_nsec = 100000 };
	uint64_t end = now_ns() + READY_MS * 1000000ull;

	for (size_t i = 0; i < r->config.n_slots; i++)
		while (!atomic_load(&r->config.slots[i].ready) && now_ns() < end)
			nanosleep(&step, NULL);
}

/* What takes time comes first: once events are open their rings fill, and nobody reads
 * them until the readers run. */
static int start(struct recorder *r, struct sink *const *sinks, size_t n_sinks,
		 struct err *err)
{
	int ret = make_slots(r, err);

	if (ret < 0)
		return ret;
	ret = start_resolver(r, sinks, n_sinks);
	if (ret < 0)
		return err_set(err, ret, "%s", strerror(-ret));
	ret = slots_open_rings(&r->config, r->plan.ring_pages, err);
	if (ret == 0)
		ret = attach(r, err);
	if (ret < 0)
		return ret;
	ret = fill_config(r, (const struct sink *const *)sinks, n_sinks);
	if (ret < 0)
		return err_set(err, ret, "%s", strerror(-ret));
	r->session->start_ns = now_ns();
	for (size_t i = 0; i < r->config.n_slots; i++)
		r->config.slots[i].watched_ns = r->session->start_ns;
	announce_all(r, r->session->start_ns);
	for (size_t i = 0; ret == 0 && i < r->config.n_slots; i++)
		ret = reader_start(&r->config, &r->config.slots[i]);
	if (ret == 0)
		await_readers(r);
	/* Only from here on can a thread be held at its sample: what came before
	 * belongs to the attaching, not to the recording. */
	r->session->start_ns = now_ns();
	atomic_store(&r->config.start_ns, r->session->start_ns);
	if (ret < 0)
		return err_set(err, ret, "can't start the readers: %s", strerror(-ret));
	for (size_t i = 0; i < r->o.n_pids; i++)
		r->pidfds[i] = (int)syscall(SYS_pidfd_open, r->o.pids[i], 0);
	if (r->tracer)
		tracer_go(r->tracer, !r->o.child);
	return 0;
}

static void handle_message(struct recorder *r, uint32_t type, const struct ctl_msg *m)
{
	struct target *t = targets_find(&r->tracker.targets, m->pid);

	switch (type) {
	case CTL_FORK:
		if (r->o.follow)
			tracker_forked(&r->tracker, m->pid, m->ppid, m->ptid);
		break;
	case CTL_EXEC:
		/* Our own child's first exec is what we started it for. */
		if (r->o.child && m->pid == r->o.pids[0] && !r->child_ran)
			r->child_ran = true;
		else if (t)
			tracker_new(&r->tracker, m->pid);
		break;
	case CTL_BEGUN:
		announce_process(&r->own, m->pid, true, m->time);
		tracker_new(&r->tracker, m->pid);
		break;
	case CTL_EXIT:
		tracker_gone(&r->tracker, m->pid);
		break;
	case CTL_UNKNOWN:
		/* A process never seen, or in a PID namespace a thread never seen. */
		if (t ? t->inner_tids && atomic_load(&t->state) == TARGET_PYTHON :
			r->o.follow && proc_exists(m->pid))
			tracker_new(&r->tracker, m->pid);
		break;
	}
}

static void take_from(struct recorder *r, struct queue *q)
{
	const struct queue_record *rec;

	while ((rec = queue_peek(q))) {
		handle_message(r, rec->type, (const struct ctl_msg *)rec->data);
		queue_pop(q);
	}
}

static void take_messages(struct recorder *r)
{
	eventfd_t n;

	eventfd_read(r->config.kick, &n);
	for (size_t i = 0; i < r->config.n_slots; i++)
		take_from(r, &r->config.slots[i].ctl);
	if (r->tracer)
		take_from(r, &r->traced);
}

/* How soon to look again, in ms. */
static int watch_readers(struct recorder *r)
{
	int soon = r->tracker.n_searches ? SEARCH_MS : WATCH_MS;
	char text[500];
	pid_t back;

	for (size_t i = 0; i < r->config.n_slots; i++) {
		pid_t pid = r->config.slots[i].reader ? reader_stuck(&r->config.slots[i]) : 0;

		while ((back = reader_returned(&r->config.slots[i])))
			tracker_release(&r->tracker, back);
		if (r->config.slots[i].watch & 1)
			soon = SUSPECT_MS;
		if (!pid)
			continue;
		STATS_ADD(stuck_reads, 1);
		tracker_quarantine(&r->tracker, pid);
		reader_start(&r->config, &r->config.slots[i]);
	}
	if (atomic_load(&r->config.over_budget) && !r->warned_budget) {
		r->warned_budget = true;
		note(r,
		     "holding the targets costs more than %u%% of a CPU: samples are shed; "
		     "lower -F, or raise --hold-budget",
		     r->o.hold_budget);
	}
	if (STATS_GET(stalled) && !r->warned_stall) {
		r->warned_stall = true;
		note(r, "%s", preempt_stall(text, sizeof(text)));
	}
	return soon;
}

/* All processes that the user named have ended. */
static bool targets_ended(const struct recorder *r, const struct pollfd *fds)
{
	for (size_t i = 0; i < r->o.n_pids; i++)
		if (r->pidfds[i] >= 0 && !(fds[i].revents & POLLIN))
			return false;
	return true;
}

static void loop(struct recorder *r, int stop_fd, struct recorder_summary *ret)
{
	struct pollfd fds[RECORDER_MAX_PIDS + 2];
	size_t n = r->o.n_pids;
	int soon = 0;
	uint64_t end = r->o.duration_ns ? r->session->start_ns + r->o.duration_ns : UINT64_MAX;

	for (;;) {
		uint64_t now = now_ns();
		int timeout;

		if (now >= end || resolver_failed(r->resolver))
			return;
		timeout = (int)MIN((end - now) / 1000000 + 1, (uint64_t)soon);
		for (size_t i = 0; i < n; i++)
			fds[i] = (struct pollfd){ .fd = r->pidfds[i], .events = POLLIN };
		fds[n] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
		fds[n + 1] = (struct pollfd){ .fd = r->config.kick, .events = POLLIN };
		if (poll(fds, n + 2, timeout) < 0)
			continue;
		if (targets_ended(r, fds)) {
			ret->target_ended = true;
			return;
		}
		if (fds[n].revents)
			return;
		take_messages(r);
		tracker_run(&r->tracker);
		soon = watch_readers(r);
		cpuwatch_look(&r->cpuwatch);
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
}

int recorder_run(struct recorder *r, struct sink *const *sinks, size_t n_sinks, int stop_fd,
		 void (*released)(void *arg), void *arg, struct recorder_summary *ret,
		 struct err *err)
{
	int code = start(r, sinks, n_sinks, err);

	*ret = (struct recorder_summary){ 0 };
	if (code == 0) {
		if (released)
			released(arg);
		loop(r, stop_fd, ret);
	}
	detach(r);
	for (size_t i = 0; i < r->config.n_slots; i++)
		reader_stop(&r->config.slots[i]);
	if (r->resolver)
		resolver_stop(r->resolver, &ret->counts);
	fill_summary(r, ret);
	return code;
}
