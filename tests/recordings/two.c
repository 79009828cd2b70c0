/* SPDX-License-Identifier: MIT
 *
 * two - several recordings in one process at once, each in a thread of its own, as a daemon
 * makes them. Prints a line of counters for each.
 *
 * Usage: two SECONDS (PID EVENT CAPTURE FRAMES OUT)...
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/harden.h"
#include "record/recorder.h"
#include "../../output/sink.h"
#include "base/sparse.h"
#include "base/stats.h"

enum { MAX = 8, ARGS = 5 };

struct recording {
	char **args;
	uint64_t duration_ns;
	pthread_barrier_t *begin;
	pthread_t thread;
	struct stats stats;
	struct session session;
	struct recorder_summary summary;
	struct err err;
	const char *failed; /* at what; NULL: it did not */
};

static void say(void *arg, const char *text)
{
	const struct recording *r = arg;

	fprintf(stderr, "%s: %s\n", r->args[4], text);
}

static struct recorder *create(struct recording *r)
{
	struct recorder_options o = {
		.pids = { atoi(r->args[0]) },
		.n_pids = 1,
		.freq = true,
		.value = 499,
		.duration_ns = r->duration_ns,
		.capture = r->args[2],
		.native = true,
		.max_frames = (uint32_t)atoi(r->args[3]),
		.hold_budget = 50,
		.stack_bytes = 16 << 10,
		.note = { .take = say, .arg = r },
	};

	if (perf_names_parse(r->args[1], o.events, SESSION_MAX_EVENTS, &o.n_events, &r->err) <
	    0)
		return NULL;
	r->session = (struct session){ .flags = SESSION_LINES,
				       .stats = &r->stats,
				       .argv = (char *[]){ NULL } };
	return recorder_create(&o, &r->session, &r->err);
}

static void *run(void *arg)
{
	struct recording *r = arg;
	struct recorder *rec = create(r);
	struct sink sink = { 0 }, *list = &sink;

	if (!rec)
		r->failed = "create";
	else if (sink_open(&sink, sink_pick("folded", r->args[4]), r->args[4], &r->session,
			   &r->err) < 0)
		r->failed = "open";
	pthread_barrier_wait(r->begin);
	if (!r->failed && recorder_run(rec, &list, 1, NULL, &r->summary, &r->err) < 0)
		r->failed = "run";
	if (!r->failed && sink_close(&sink, &r->err) < 0)
		r->failed = "close";
	recorder_destroy(rec);
	return NULL;
}

static void print(const struct recording *r)
{
	const uint64_t *by = r->summary.counts.by_prov;
	const struct work_moment *work = &r->summary.work.all;
	const char *name, *text;
	uint64_t value;

	printf("begin=%" PRIu64 " end=%" PRIu64 " written=%" PRIu64 " exact=%" PRIu64,
	       r->session.start_ns,
	       r->session.start_ns + (uint64_t)(r->summary.duration * 1e9),
	       by[PROV_EXACT] + by[PROV_LATE] + by[PROV_TORN] + by[PROV_NOPYTHON],
	       by[PROV_EXACT]);
	printf(" capture=%s queued=%" PRIu64 " opens=%" PRIu64, r->session.capture,
	       work->n[WORK_samples], work->n[WORK_opens]);
	for (size_t i = 0; (name = stats_at(&r->stats, i, &value, &text)); i++)
		printf(" %s=%" PRIu64, name, value);
	putchar('\n');
}

int main(int argc, char **argv)
{
	static struct recording r[MAX];
	size_t n = (size_t)(argc - 2) / ARGS;
	pthread_barrier_t begin;
	struct err err;
	int ret = 0;

	sparse_init();
	if (argc < 2 || !n || n > MAX ||
	    harden_process(HARDEN_RECORD | HARDEN_TRACER, 0, &err) < 0)
		return 2;
	pthread_barrier_init(&begin, NULL, (unsigned)n);
	for (size_t i = 0; i < n; i++) {
		r[i].args = argv + 2 + ARGS * i;
		r[i].duration_ns = strtoull(argv[1], NULL, 10) * 1000000000;
		r[i].begin = &begin;
		if (pthread_create(&r[i].thread, NULL, run, &r[i]))
			return 2;
	}
	for (size_t i = 0; i < n; i++) {
		pthread_join(r[i].thread, NULL);
		if (r[i].failed)
			fprintf(stderr, "%s: %s: %s\n", r[i].args[4], r[i].failed,
				r[i].err.text);
		else
			print(&r[i]);
		ret |= r[i].failed != NULL;
	}
	return ret;
}
