/* SPDX-License-Identifier: MIT
 *
 * summary - the lines before and after a recording, from its counters and files.
 */
#include "summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/stats.h"
#include "sys/proc.h"
#include "cmd.h"

static const char *plural(size_t n, const char *one, const char *more)
{
	return n == 1 ? one : more;
}

void summary_begin(const struct record_options *o, const struct session *session,
		   const struct recorder *rec)
{
	const struct perf_event_attr *a = &session->events[0].attr;
	size_t processes, threads;
	char rate[64], who[300];

	if (o->verbose < 0)
		return;
	recorder_attached(rec, &processes, &threads);
	if (a->freq)
		snprintf(rate, sizeof(rate), "at %" PRIu64 " Hz", (uint64_t)a->sample_freq);
	else
		snprintf(rate, sizeof(rate), "every %" PRIu64 "%s", (uint64_t)a->sample_period,
			 plural(a->sample_period, "st event", "th event"));
	if (o->rec.scope)
		scope_text(o->rec.scope, who, sizeof(who));
	else
		snprintf(who, sizeof(who), "%d", o->rec.pids[0]);
	cmd_say("attached to %s: sampling %zu %s of %zu %s %s%s", who, threads,
		plural(threads, "thread", "threads"), processes,
		plural(processes, "process", "processes"), rate,
		o->command || o->rec.duration_ns ? "" : "; Ctrl-C to stop");
}

/* Each file with its size, and what one does with it next. */
static void print_file(const char *path, const struct sink_ops *format)
{
	_cleanup_free_ char *beside = NULL;
	struct stat st, second;
	char also[512] = "";

	if (!strcmp(path, "-") || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (format->beside && asprintf(&beside, "%s%s", path, format->beside) >= 0 &&
	    stat(beside, &second) == 0)
		snprintf(also, sizeof(also), " and %.400s (%.1f KB)", beside,
			 (double)second.st_size / 1e3);
	cmd_say("wrote %s (%.1f KB)%s%s%s%s%s%s%s", path, (double)st.st_size / 1e3, also,
		format->next ? "; next: " : "", format->next ? format->next : "",
		format->next ? path : "", format->lines ? "; by line: " : "",
		format->lines ? format->lines : "", format->lines ? path : "");
	if (format->moved)
		cmd_say("to read it on another machine: copy %s, and there: %s%s", path,
			format->moved, path);
}

/* Of a process that took part and has no sample. */
static void print_why_none(pid_t pid)
{
	struct proc_status s;

	if (proc_status(pid, &s) < 0)
		return;
	if (s.tracer)
		cmd_say("no samples: process %d is held by process %d, a debugger", pid,
			s.tracer);
	else if (s.state == 'T')
		cmd_say("no samples: process %d is stopped; kill -CONT %d lets it go on", pid,
			pid);
	else
		cmd_say("no samples: process %d did too little for one; pysampled dump -p %d "
			"shows where it waits",
			pid, pid);
}

static void print_counters(const struct stats *s)
{
	const char *text, *name;
	uint64_t value;

	for (size_t i = 0; (name = stats_at(s, i, &value, &text)); i++)
		if (value)
			fprintf(stderr, "pysampled: %s=%" PRIu64 " (%s)\n", name, value, text);
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
		s->rss * (1 << 20), w->cpus, w->processes, w->threads, w->cpu_bytes,
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
	fprintf(stderr, " duration=%.3fs cpu=%.3fs rss=%.1fMiB\n", s->duration, s->cpu,
		s->rss);
}

/* Where the machine can't keep up with what was asked. */
static void print_too_fast(const struct session *session, const struct recorder_summary *s)
{
	enum { MANY = 100, FAST_HZ = 1000 };
	const uint64_t *n = s->counts.by_prov;
	const struct perf_event_attr *a = &session->events[0].attr;

	if (n[PROV_LATE] > MANY && n[PROV_LATE] > n[PROV_EXACT] && a->freq &&
	    a->sample_freq > FAST_HZ)
		cmd_say("most samples are late: -F %" PRIu64 " is faster than threads can be "
			"read; lower -F",
			(uint64_t)a->sample_freq);
}

void summary_end(const struct record_options *o, const struct session *session,
		 const struct recorder_summary *s)
{
	const uint64_t *n = s->counts.by_prov;
	bool none = !(n[PROV_EXACT] + n[PROV_LATE] + n[PROV_TORN] + n[PROV_NOPYTHON]);

	for (size_t i = 0; o->verbose >= 0 && i < o->n_outputs; i++) {
		print_file(o->path[i], o->format[i]);
		if (session->n_events > 1 && !strcmp(o->format[i]->name, "folded"))
			cmd_say("%s adds up the samples of %zu events; perf.data, .html, "
				".pb.gz and .json tell them apart",
				o->path[i], session->n_events);
	}
	if (o->verbose >= 0 && STATS_GET(session->stats, elsewhere))
		cmd_say("some processes have mounts of their own (a container?): perf does "
			"not "
			"find their files once they have ended, and for source lines needs: "
			"(trap '' PIPE; perf script -F +srcline); other outputs have all "
			"names");
	if (o->verbose >= 0)
		print_too_fast(session, s);
	if (o->verbose >= 0 && STATS_GET(session->stats, elided))
		cmd_say("%" PRIu64 " stacks are deeper than the %" PRIu32 " frames that perf "
			"shows: in perf.data their middle is [elided]; --max-frames 1024 "
			"keeps "
			"it",
			STATS_GET(session->stats, elided), session->shown);
	if (o->verbose >= 0 && STATS_GET(session->stats, tasks_unknown))
		cmd_say("the asyncio tasks of some of these Pythons can't be read: %" PRIu64
			" stacks that may run one are as without --async",
			STATS_GET(session->stats, tasks_unknown));
	for (size_t i = 0; o->verbose >= 0 && none && !o->command && i < o->rec.n_pids; i++)
		print_why_none(o->rec.pids[i]);
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
