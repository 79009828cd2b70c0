/* SPDX-License-Identifier: MIT
 *
 * summary - the lines before and after a recording, from its counters and files.
 */
#include "summary.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stats.h"
#include "capture/capture.h"
#include "perf_event.h"
#include "targets/target_cgroup.h"
#include "elf/file_helper.h"
#include "lines/places.h"
#include "sys/cpus.h"
#include "sys/proc.h"
#include "cmd.h"

static const char *plural(size_t n, const char *one, const char *more)
{
	return n == 1 ? one : more;
}

/* "at 99 Hz", "every 5 ms", "every 3 events". */
static void rate_text(const struct perf_event_attr *a, char *to, size_t size)
{
	uint64_t period = a->sample_period;

	if (a->freq)
		snprintf(to, size, "at %" PRIu64 " Hz", (uint64_t)a->sample_freq);
	else if (perf_event_is_clock(a))
		snprintf(to, size, "every %g ms", (double)period / 1e6);
	else if (period > 1)
		snprintf(to, size, "every %" PRIu64 " events", period);
	else
		snprintf(to, size, "every event");
}

void summary_begin(const struct record_options *o, const struct session *session,
		   const struct recorder *rec)
{
	size_t processes, threads;
	char rate[64], who[300];

	if (o->verbose < 0)
		return;
	recorder_attached(rec, &processes, &threads);
	rate_text(&session->events[0].attr, rate, sizeof(rate));
	if (o->rec.scope)
		scope_text(o->rec.scope, who, sizeof(who));
	else if (o->rec.n_pids > 1)
		snprintf(who, sizeof(who), "%d and %zu more", o->rec.pids[0],
			 o->rec.n_pids - 1);
	else
		snprintf(who, sizeof(who), "%d", o->rec.pids[0]);
	cmd_say("attached to %s: sampling %zu %s of %zu %s %s%s", who, threads,
		plural(threads, "thread", "threads"), processes,
		plural(processes, "process", "processes"), rate,
		o->command || o->rec.duration_ns ? "" : "; Ctrl-C to stop");
}

/* Each file with its size, and what one does with it next. */
static void print_file(const char *path, const struct sink_ops *format, bool empty)
{
	const bool next = format->next && !empty, lines = format->lines && !empty;
	_cleanup_free_ char *beside = NULL, *quoted = cmd_quoted(path);
	const char *word = quoted ? quoted : path;
	struct stat st, second;
	char also[512] = "";

	if (!strcmp(path, "-") || lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (format->beside && asprintf(&beside, "%s%s", path, format->beside) >= 0 &&
	    stat(beside, &second) == 0)
		snprintf(also, sizeof(also), " and %.400s (%.1f KB)", beside,
			 (double)second.st_size / 1e3);
	cmd_say("wrote %s (%.1f KB)%s%s%s%s%s%s%s", path, (double)st.st_size / 1e3, also,
		next ? "; next: " : "", next ? format->next : "", next ? word : "",
		lines ? "; by line: " : "", lines ? format->lines : "", lines ? word : "");
	if (format->moved && !empty && *also)
		cmd_say("to read it on another machine: copy %s, and there: %s%s", path,
			format->moved, word);
}

/* Too little of what is sampled was done. */
static void print_too_little(const struct record_options *o, const struct session *session,
			     pid_t pid)
{
	const struct perf_event_attr *a = &session->events[0].attr;
	size_t n_tids = o->rec.n_tids;
	char who[40];

	snprintf(who, sizeof(who), "process %d", pid);
	if (n_tids)
		snprintf(who, sizeof(who), "the %s that -t names",
			 plural(n_tids, "thread", "threads"));
	if (session->n_events > 1 || !(perf_event_is_clock(a) || a->type == PERF_TYPE_HARDWARE))
		cmd_say("no samples: %s had no %s, or too few for one", who,
			session->n_events > 1 ? "such events" : session->events[0].name);
	else
		cmd_say("no samples: %s did too little for one; pysampled dump -p %d shows where "
			"%s%s",
			who, pid, n_tids > 1 ? "they wait" : "it waits",
			o->rec.mode == RECORDER_CPU ? ", --mode wall samples waits, too" : "");
}

/* Of a process that took part and has no sample. */
static void print_why_none(const struct record_options *o, const struct session *session,
			   pid_t pid)
{
	struct proc_status s;
	int r = proc_status(pid, &s);

	if (r < 0 && r != -ESRCH) /* it may live */
		return;
	if (r < 0 || (s.state == 'Z' && !proc_outliver(pid)))
		cmd_say("no samples: process %d ended before it did enough for one", pid);
	else if (s.tracer)
		cmd_say("no samples: process %d is held by process %d, a debugger", pid,
			s.tracer);
	else if (s.state == 'T')
		cmd_say("no samples: process %d is stopped; kill -CONT %d lets it go on", pid,
			pid);
	else if (target_cgroup_is_frozen(pid))
		cmd_say("no samples: process %d is frozen by its cgroup (a paused "
			"container?); it goes on once that is thawed",
			pid);
	else
		print_too_little(o, session, pid);
}

/* The same of all that a recording without a sample was of. */
static void print_why_all_none(const struct record_options *o, const struct session *session)
{
	uint64_t left_out = STATS_GET(session->stats, gil_none) +
			    STATS_GET(session->stats, gil_unknown);

	if (left_out) {
		cmd_say("no samples: no thread was seen with the GIL; left out by --mode gil: "
			"%" PRIu64,
			left_out);
		return;
	}
	for (size_t i = 0; !o->command && i < o->rec.n_pids; i++)
		print_why_none(o, session, o->rec.pids[i]);
	if (o->command)
		cmd_say("no samples: '%s' did too little for one", o->command[0]);
	else if (o->rec.scope)
		cmd_say("no samples: nobody did enough for one");
}

static void print_counters(const struct stats *s)
{
	const char *text, *name;
	uint64_t value;

	for (size_t i = 0; (name = stats_at(s, i, &value, &text)); i++)
		if (value)
			fprintf(stderr, "pysampled: %s=%" PRIu64 " (%s)\n", name, value, text);
}

/* In MiB. getrusage() still knows what was before our exec: it is asked only where no file can
 * be opened. */
static double peak_rss(void)
{
	_cleanup_free_ char *text = NULL;
	const char *p = NULL;
	struct rusage use;
	size_t n;

	if (proc_read_file("/proc/self/status", &text, &n) == 0)
		p = strstr(text, "VmHWM:");
	if (p)
		return strtod(p + 6, NULL) / 1024;
	return getrusage(RUSAGE_SELF, &use) == 0 ? (double)use.ru_maxrss / 1024 : 0;
}

/* In seconds, of pysampled and of the processes that read files for it. */
static double own_cpu(const struct session *session)
{
	uint64_t own = 0;

	proc_cpu_ns(getpid(), &own);
	return (double)(own + file_helper_cpu_ns(session->file_helper) +
			places_cpu_ns(session->places)) /
	       1e9;
}

/* Of the work between two moments; @from may be NULL. */
static void print_part(const char *part, const struct work_moment *from,
		       const struct work_moment *to)
{
	struct work_moment none = { 0 };
	const char *name;

	from = from ? from : &none;
	fprintf(stderr, "work: part=%s us=%" PRIu64 " cpu_us=%" PRIu64, part,
		(to->ns - from->ns) / 1000, (to->cpu_ns - from->cpu_ns) / 1000);
	if (to->syscalls != UINT64_MAX)
		fprintf(stderr, " syscalls=%" PRIu64, to->syscalls - from->syscalls);
	for (unsigned i = 0; (name = work_name(i)); i++)
		fprintf(stderr, " %s=%" PRIu64, name, to->n[i] - from->n[i]);
	fputc('\n', stderr);
}

static void print_work(const struct recorder_summary *s)
{
	const struct recorder_work *w = &s->work;

	if (w->first.ns) {
		print_part("first", NULL, &w->first);
		print_part("run", &w->first, &w->end);
	}
	if (w->half.ns)
		print_part("half", &w->half, &w->end);
	print_part("all", NULL, &w->all);
	fprintf(stderr,
		"work: part=bytes rss=%.0f cpus=%zu processes=%zu threads=%zu cpu=%zu "
		"process=%zu thread=%zu\n",
		peak_rss() * (1 << 20), w->cpus, w->processes, w->threads, w->cpu_bytes,
		w->process_bytes, w->thread_bytes);
}

static void print_last_line(const struct session *session, const struct recorder_summary *s)
{
	const uint64_t *n = s->counts.by_prov;
	char events[1024] = "";

	for (size_t i = 0; i < session->n_events; i++)
		snprintf(events + strlen(events), sizeof(events) - strlen(events), "%s%s",
			 i ? "," : "", session->events[i].name);
	fprintf(stderr,
		"samples=%" PRIu64 " exact=%" PRIu64 " late=%" PRIu64 " torn=%" PRIu64
		" nopython=%" PRIu64 " lost=%" PRIu64 " throttled=%" PRIu64 " shed=%" PRIu64
		" uncounted=%" PRIu64 " truncated=%" PRIu64 " capture=%s event=%s ",
		n[PROV_EXACT] + n[PROV_LATE] + n[PROV_TORN] + n[PROV_NOPYTHON], n[PROV_EXACT],
		n[PROV_LATE], n[PROV_TORN], n[PROV_NOPYTHON], STATS_GET(session->stats, lost),
		STATS_GET(session->stats, throttled), STATS_GET(session->stats, shed),
		s->uncounted, STATS_GET(session->stats, truncated), session->capture, events);
	if (session->events[0].attr.freq)
		fprintf(stderr, "freq=%" PRIu64,
			(uint64_t)session->events[0].attr.sample_freq);
	else
		fprintf(stderr, "freq=0 count=%" PRIu64,
			(uint64_t)session->events[0].attr.sample_period);
	if (STATS_GET(session->stats, unwritten))
		fprintf(stderr, " unwritten=%" PRIu64, STATS_GET(session->stats, unwritten));
	fprintf(stderr, " duration=%.3fs cpu=%.3fs rss=%.1fMiB\n", s->duration,
		own_cpu(session), peak_rss());
}

/* The reason for most samples that are @kind, "late: " or "torn: "; NULL: none is counted. */
static const char *main_reason(const struct stats *stats, const char *kind)
{
	const char *text, *found = NULL;
	uint64_t value, most = 0;

	for (size_t i = 0; stats_at(stats, i, &value, &text); i++) {
		if (value <= most || strncmp(text, kind, strlen(kind)) != 0)
			continue;
		most = value;
		found = text + strlen(kind);
	}
	return found;
}

/* A thread that goes on on another CPU when it is held, for it has real-time priority; 0: none. */
static pid_t find_real_time(pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	pid_t found = 0;
	size_t n = 0;

	if (proc_tasks(pid, &tids, &n) < 0)
		return 0;
	for (size_t i = 0; !found && i < n; i++) {
		int policy = sched_getscheduler(tids[i]) & ~SCHED_RESET_ON_FORK;
		struct cpus cpus;

		if ((policy == SCHED_FIFO || policy == SCHED_RR) &&
		    cpus_of_thread(&cpus, tids[i]) == 0 && cpus_count(&cpus) > 1)
			found = tids[i];
	}
	return found;
}

enum { MANY = 100, FAST_HZ = 1000, SOME = 20 };

/* Whom --capture stop would help, where @late samples of @all are more than without such a
 * thread: how many depends on how idle the other CPUs are. */
static void print_real_time(const struct record_options *o, const struct session *session,
			    uint64_t late, uint64_t all)
{
	bool some = late > SOME && late > all / 50 &&
		    capture_named(session->capture)->on_one_cpu;
	pid_t tid = 0;

	for (size_t i = 0; some && !tid && i < o->rec.n_pids; i++)
		tid = find_real_time(o->rec.pids[i]);
	if (tid)
		cmd_say("thread %d has real-time priority (SCHED_FIFO, SCHED_RR): held on one CPU "
			"it goes on on another; --capture stop stops it",
			tid);
}

/* Why a recording is of little use. That nobody holds threads (async) was said. */
static void print_main_reason(const struct session *session, uint64_t n, uint64_t all,
			      const char *kind)
{
	const struct perf_event_attr *a = &session->events[0].attr;
	const char *reason = main_reason(session->stats, kind);

	if (n <= MANY || n <= all / 2 || !reason || !capture_named(session->capture)->holds)
		return;
	cmd_say("%" PRIu64 " of %" PRIu64 " samples are %.4s, most because %s", n, all, kind,
		reason);
	if (a->freq && a->sample_freq > FAST_HZ)
		cmd_say("-F %" PRIu64 " may be faster than threads can be read; lower -F",
			(uint64_t)a->sample_freq);
}

void summary_end(const struct record_options *o, const struct session *session,
		 const struct recorder_summary *s)
{
	const uint64_t *n = s->counts.by_prov;
	const uint64_t all = n[PROV_EXACT] + n[PROV_LATE] + n[PROV_TORN] + n[PROV_NOPYTHON];

	for (size_t i = 0; o->verbose >= 0 && i < o->n_outputs; i++) {
		print_file(o->path[i], o->format[i], !all);
		if (session->n_events > 1 && all && !strcmp(o->format[i]->name, "folded"))
			cmd_say("each stack of %s names its event, of %zu; what makes a flame "
				"graph of it adds them up, .html and .pb.gz do not",
				o->path[i], session->n_events);
	}
	if (o->verbose >= 0 && STATS_GET(session->stats, elsewhere))
		cmd_say("some processes have mounts of their own (a container?): perf does "
			"not "
			"find their files once they have ended, and for source lines needs: "
			"(trap '' PIPE; perf script -F +srcline); other outputs have all "
			"names");
	if (o->verbose >= 0) {
		print_main_reason(session, n[PROV_LATE], all, "late: ");
		print_main_reason(session, n[PROV_TORN], all, "torn: ");
		print_real_time(o, session, n[PROV_LATE], all);
	}
	if (o->verbose >= 0 && STATS_GET(session->stats, elided))
		cmd_say("stacks deeper than the %" PRIu32 " frames that perf shows: %" PRIu64
			"; in perf.data their middle is [elided]; --max-frames 1024 keeps it",
			session->shown, STATS_GET(session->stats, elided));
	if (o->verbose >= 0 && STATS_GET(session->stats, tasks_unknown))
		cmd_say("the asyncio tasks of some of these Pythons can't be read: %" PRIu64
			" stacks that may run one are as without --async",
			STATS_GET(session->stats, tasks_unknown));
	if (o->verbose >= 0 && !all)
		print_why_all_none(o, session);
	if (o->verbose > 0) {
		fprintf(stderr, "pysampled: proof of exactness: %s\n",
			session->flags & SESSION_COUNTED ?
				"registers and counted user instructions" :
			session->flags & SESSION_REGISTERS ?
				"registers" :
				"none but the time from event to switch, at most 40 us; "
				"CAP_PERFMON would let registers tell");
		if (session->place)
			cmd_say("%s", session->place);
		print_counters(session->stats);
	}
	if (o->verbose > 0 || o->work)
		print_work(s);
	print_last_line(session, s);
}
