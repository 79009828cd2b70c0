/* SPDX-License-Identifier: MIT
 *
 * replay - what one core resolves: plays the records of a real recording (save.c) into the
 * resolver through as many queues as a machine has CPUs, as if as many times as many processes
 * ran there.
 *
 *   resolver_replay SAVED [-c CPUS] [-r ROUNDS | -f HZ -d SECONDS] [-o OUT]... [-p]
 *
 * -c  CPUs, a queue each (8); each two bear the recording's processes once more
 * -r  rounds (3): each plays all samples once; the first is not in the figures
 * -f  instead: as they come, that many samples a second of each CPU, for -d seconds (5); what
 *     finds no room is dropped as readers drop it
 * -o  an output, its format by its name as for record; none: stacks are made for nobody
 * -p  Python only: without what native stacks take
 *
 * What the resolver's and the inbox's threads take is measured by their CPU time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sample/wire.h"
#include "stacks/inbox.h"
#include "base/clock.h"
#include "sample/perf_decode.h"
#include "stacks/resolver.h"
#include "saved.h"
#include "../../../output/sink.h"
#include "base/stats.h"

enum {
	MAX_CPUS = 1024,
	QUEUE_BYTES = 1 << 20,
	PID_STEP = 10000019,
	TURN_BYTES = 64 << 20, /* less than the inbox keeps whole */
};

static struct stats stats;

struct record {
	uint32_t type, n;
	const unsigned char *data;
	uint64_t time;
	uint32_t cpu;
};

struct replay {
	struct session session;
	struct record *record;
	size_t n, n_samples;
	uint32_t record_cpus;
	/* the machine that is played */
	uint32_t cpus;
	bool python_only;
	struct queue queue[MAX_CPUS], *queues[MAX_CPUS];
	struct resolver *resolver;
	struct resolver_counts counts;
	struct sink sinks[RESOLVER_MAX_SINKS];
	size_t n_sinks;
	size_t queued; /* bytes since the resolver's last turn */
	bool live;     /* nobody waits for room, and the resolver runs */
	uint64_t pushed, unwound;
};

static void fail(const char *what, int code)
{
	fprintf(stderr, "resolver_replay: %s: %s\n", what, strerror(code));
	exit(1);
}

/* ---- What resolving takes: all that threads use which are not ours ---- */

struct used {
	uint64_t ns;
	long faults; /* of pages */
};

static uint64_t clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct used used_by_others(void)
{
	struct rusage all, mine;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &mine);
	return (struct used){ .ns = clock_of(CLOCK_PROCESS_CPUTIME_ID) -
				    clock_of(CLOCK_THREAD_CPUTIME_ID),
			      .faults = all.ru_minflt - mine.ru_minflt };
}

/* ---- The recording ---- */

static uint64_t record_time(const struct record *r)
{
	struct side s;

	if (r->type == Q_SAMPLE)
		return ((const struct q_sample *)(const void *)r->data)->sample.time;
	return r->type == Q_SIDE && perf_decode_side((const void *)r->data, &s) == 0 ? s.time :
										       0;
}

static void load_record(struct replay *p, const unsigned char *at)
{
	struct saved_record head;
	struct record *r = &p->record[p->n++];

	memcpy(&head, at, sizeof(head));
	*r = (struct record){ .type = head.type, .n = head.n, .data = at + sizeof(head) };
	r->time = record_time(r);
	if (r->type != Q_SAMPLE)
		return;
	r->cpu = ((const struct q_sample *)(const void *)r->data)->sample.cpu;
	p->record_cpus = MAX(p->record_cpus, r->cpu + 1);
	p->n_samples++;
}

static void load(struct replay *p, const char *path)
{
	FILE *f = fopen(path, "re");
	struct saved_session s;
	unsigned char *all;
	long n;

	if (!f || fread(&s, sizeof(s), 1, f) != 1 || fseek(f, 0, SEEK_END) < 0)
		fail(path, f ? EBADMSG : errno);
	n = ftell(f) - (long)sizeof(s);
	fseek(f, sizeof(s), SEEK_SET);
	all = malloc((size_t)n);
	p->record = calloc((size_t)n / sizeof(struct saved_record), sizeof(*p->record));
	if (!all || !p->record || fread(all, 1, (size_t)n, f) != (size_t)n)
		fail(path, ENOMEM);
	fclose(f);
	for (long at = 0; at < n;) {
		load_record(p, all + at);
		at += (long)((sizeof(struct saved_record) + p->record[p->n - 1].n + 7) & ~7u);
	}
	p->session = (struct session){ .stats = &stats,
				       .n_events = s.n_events,
				       .flags = s.flags,
				       .argv = (char *[]){ NULL } };
	memcpy(p->session.events, s.events, sizeof(s.events));
}

/* Of all CPUs by time; code before everything, as it is in each queue. */
static int by_time(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->data < y->data ? -1 : 1;
}

/* ---- As many CPUs and processes as wanted ---- */

static void add_u32(unsigned char *at, uint32_t n)
{
	uint32_t v = load_u32(at) + n;

	memcpy(at, &v, sizeof(v));
}

/* A perf record, of other processes; kernel maps have pid -1. */
static void shift_side(unsigned char *to, size_t n, uint32_t step, uint64_t time)
{
	struct perf_event_header h;
	unsigned char *trailer = to + n - PERF_TRAILER;

	memcpy(&h, to, sizeof(h));
	if (h.type == PERF_RECORD_MMAP2 || h.type == PERF_RECORD_COMM ||
	    h.type == PERF_RECORD_FORK || h.type == PERF_RECORD_EXIT) {
		size_t ids = h.type == PERF_RECORD_FORK || h.type == PERF_RECORD_EXIT ? 4 : 2;

		for (size_t i = 0; i < ids; i++)
			add_u32(to + 8 + 4 * i, step);
		if (ids == 4)
			memcpy(to + 24, &time, sizeof(time));
	}
	add_u32(trailer, step);
	add_u32(trailer + 4, step);
	memcpy(trailer + 8, &time, sizeof(time));
}

static void shift_sample(struct q_sample *q, uint32_t step, uint64_t time, uint32_t cpu)
{
	q->sample.pid += (pid_t)step;
	q->sample.tid += (pid_t)step;
	q->sample.time = time;
	q->sample.cpu = cpu;
	q->program = NULL;
}

/* The resolver takes and resolves what is queued. */
static void turn(struct replay *p)
{
	int r = p->queued ? resolver_start(p->resolver) : 0;

	if (r < 0)
		fail("a thread", -r);
	if (p->queued)
		resolver_stop(p->resolver, &p->counts);
	p->queued = 0;
}

static void *room(struct replay *p, uint32_t cpu, uint32_t type, size_t n)
{
	const struct timespec step = { .tv_nsec = 100000 };
	void *to;

	if (p->live && type == Q_SAMPLE)
		return queue_reserve(&p->queue[cpu], type, n);
	while (!(to = queue_reserve(&p->queue[cpu], type, n)))
		nanosleep(&step, NULL); /* the inbox comes */
	return to;
}

/* Without stack and registers: a prefix, as there are no counts. */
static size_t sample_bytes(const struct replay *p, const struct record *r)
{
	const struct q_sample *q = (const void *)r->data;

	return p->python_only ? (size_t)((unsigned char *)q_anchors(q) - r->data) : r->n;
}

static void push_sample(struct replay *p, const struct record *r, uint32_t copy, uint64_t time)
{
	uint32_t cpu = (copy * p->record_cpus + r->cpu) % p->cpus;
	bool scarce = p->live && !p->python_only && queue_scarce(&p->queue[cpu]);
	size_t n = scarce ? (size_t)(q_stack((const void *)r->data) - r->data) :
			    sample_bytes(p, r);
	struct q_sample *q = room(p, cpu, Q_SAMPLE, n);

	p->pushed++;
	STATS_ADD(&stats, stack_dropped, scarce);
	if (!q) {
		STATS_ADD(&stats, lost, 1);
		STATS_ADD(&stats, queue_full, 1);
		return;
	}
	memcpy(q, r->data, n);
	shift_sample(q, copy * PID_STEP, time, cpu);
	if (p->python_only)
		q->n_anchors = q->n_regs = q->n_reads = 0;
	if (scarce || p->python_only)
		q_drop_stack(q);
	p->unwound += q->n_stack > 0;
	p->queued += n;
	queue_commit(&p->queue[cpu]);
}

static void push_other(struct replay *p, const struct record *r, uint32_t copy, uint64_t time)
{
	unsigned char *to = room(p, 0, r->type, r->n);

	memcpy(to, r->data, r->n);
	if (r->type == Q_SIDE)
		shift_side(to, r->n, copy * PID_STEP, time);
	p->queued += r->n;
	queue_commit(&p->queue[0]);
}

static uint32_t copies(const struct replay *p)
{
	return MAX(p->cpus / p->record_cpus, 1u);
}

/* All records of all copies once; the @sides of a process come only in the first round. */
static void play(struct replay *p, uint64_t *time, bool sides)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct record *r = &p->record[i];

		for (uint32_t copy = 0; copy < copies(p); copy++) {
			(*time)++;
			if (r->type == Q_SAMPLE)
				push_sample(p, r, copy, *time);
			else if (sides && (copy == 0 || r->type == Q_SIDE))
				push_other(p, r, copy, *time);
			if (p->queued > TURN_BYTES)
				turn(p);
		}
	}
	turn(p);
}

/* The next @n samples, at the time that it is. */
static void push_next(struct replay *p, size_t *at, uint32_t *copy, uint64_t n)
{
	while (n > 0) {
		const struct record *r = &p->record[*at];

		if (r->type == Q_SAMPLE) {
			push_sample(p, r, *copy, now_ns());
			n--;
		}
		if (r->type == Q_SAMPLE && ++*copy < copies(p))
			continue;
		*copy = 0;
		*at = (*at + 1) % p->n;
	}
}

/* What processes and code there are, before the first sample. */
static void push_others(struct replay *p, uint64_t *time)
{
	for (size_t i = 0; i < p->n; i++)
		for (uint32_t copy = 0; copy < copies(p); copy++)
			if (p->record[i].type == Q_SIDE ||
			    (p->record[i].type != Q_SAMPLE && copy == 0))
				push_other(p, &p->record[i], copy, ++*time);
}

static void play_live(struct replay *p, uint64_t hz, uint64_t seconds)
{
	const struct timespec step = { .tv_nsec = 1000000 };
	uint64_t from = now_ns(), end = seconds * 1000000000, past, due, early = 0;
	size_t at = 0;
	uint32_t copy = 0;
	int r;

	p->live = true;
	r = resolver_start(p->resolver);
	if (r < 0)
		fail("a thread", -r);
	while ((past = now_ns() - from) < end) {
		due = past * hz / 1000 * p->cpus / 1000000;
		push_next(p, &at, &copy, due - p->pushed);
		if (past < end / 2) /* files are read, too */
			early = STATS_GET(&stats, stack_dropped);
		nanosleep(&step, NULL);
	}
	end = now_ns();
	resolver_stop(p->resolver, &p->counts);
	printf("the resolver was %.0f ms behind; stack_dropped in the first half=%" PRIu64
	       "; ",
	       (double)(now_ns() - end) / 1e6, early);
}

static void start(struct replay *p, char *const *outs, size_t n_outs)
{
	struct resolver_config c = { .session = &p->session,
				     .queues = p->queues,
				     .n_queues = p->cpus,
				     .native = !p->python_only };
	struct err err;

	for (uint32_t i = 0; i < p->cpus; i++) {
		p->queues[i] = &p->queue[i];
		if (queue_init(&p->queue[i], QUEUE_BYTES) < 0)
			fail("a queue", ENOMEM);
	}
	while (p->n_sinks < n_outs) {
		struct sink *s = &p->sinks[p->n_sinks];

		if (sink_open(s, sink_pick(NULL, outs[p->n_sinks]), outs[p->n_sinks],
			      &p->session, &err) < 0)
			fail(err.text, -err.code);
		c.sinks[c.n_sinks++] = s;
		p->n_sinks++;
	}
	p->resolver = resolver_create(&c);
	if (!p->resolver)
		fail("the resolver", ENOMEM);
	p->queued = 1; /* from the first turn on the inbox comes */
	turn(p);
}

static uint64_t written(const struct replay *p)
{
	uint64_t n = 0;

	for (int i = 0; i < PROV_N; i++)
		n += p->counts.by_prov[i];
	return n;
}

static void report(const struct replay *p, struct used from)
{
	struct used to = used_by_others();
	double n = (double)MAX(p->pushed, 1u), us = (double)(to.ns - from.ns) / 1e3 / n;
	struct rusage self;

	getrusage(RUSAGE_SELF, &self);
	printf("%" PRIu32
	       " CPUs, %.0f %% with stack bytes: %.2f us a sample, %.0f samples/s of "
	       "one core, %.2f page faults a sample; played=%" PRIu64 " written=%" PRIu64
	       " lost=%" PRIu64 " stack_dropped=%" PRIu64 " side_lost=%" PRIu64
	       " torn_badcode=%" PRIu64 " rss=%.0fMiB\n",
	       p->cpus, 100 * (double)p->unwound / n, us, 1e6 / us,
	       (double)(to.faults - from.faults) / n, p->pushed, written(p),
	       STATS_GET(&stats, lost), STATS_GET(&stats, stack_dropped),
	       STATS_GET(&stats, side_lost), STATS_GET(&stats, torn_badcode),
	       (double)self.ru_maxrss / 1024);
}

int main(int argc, char **argv)
{
	static struct replay p = { .cpus = 8 };
	char *outs[RESOLVER_MAX_SINKS];
	size_t n_outs = 0;
	int rounds = 3, opt;
	uint64_t time = 0, hz = 0, seconds = 5;
	struct used from = { 0 };
	struct err err;

	while ((opt = getopt(argc, argv, "c:r:f:d:o:p")) != -1) {
		if (opt == 'c')
			p.cpus = (uint32_t)MIN(strtoul(optarg, NULL, 10),
					       (unsigned long)MAX_CPUS);
		else if (opt == 'r')
			rounds = atoi(optarg);
		else if (opt == 'f')
			hz = strtoul(optarg, NULL, 10);
		else if (opt == 'd')
			seconds = strtoul(optarg, NULL, 10);
		else if (opt == 'o' && n_outs < RESOLVER_MAX_SINKS - 1)
			outs[n_outs++] = optarg;
		else if (opt == 'p')
			p.python_only = true;
		else
			return 2;
	}
	if (optind != argc - 1 || !p.cpus)
		return fprintf(stderr,
			       "usage: %s SAVED [-c CPUS] [-r ROUNDS | -f HZ -d SECONDS] "
			       "[-o OUT]... [-p]\n",
			       *argv),
		       2;
	load(&p, argv[optind]);
	qsort(p.record, p.n, sizeof(*p.record), by_time);
	start(&p, outs, n_outs);
	if (hz) {
		push_others(&p, &time);
		from = used_by_others();
		play_live(&p, hz, seconds);
	}
	for (int i = 0; !hz && i < rounds; i++) {
		if (i == 1) { /* files are read */
			p.pushed = p.unwound = 0;
			from = used_by_others();
		}
		play(&p, &time, i == 0);
	}
	report(&p, from);
	for (size_t i = 0; i < p.n_sinks; i++)
		if (sink_close(&p.sinks[i], &err) < 0)
			fail(err.text, -err.code);
	resolver_destroy(p.resolver);
	return 0;
}
