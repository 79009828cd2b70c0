/* SPDX-License-Identifier: MIT
 *
 * leak - recorders made and destroyed again and again, also where making or running one fails
 * at each thing that can: descriptors and memory stay as they were.
 *
 * Usage: leak PID TIMES RUNS. Prints a line for each way; exits 1 if one grows.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "record/recorder.h"
#include "sample/sink.h"
#include "base/sparse.h"
#include "base/stats.h"

/* ---- What fails: call number @fail_at of the calling thread, if that is not 0 ---- */

static _Thread_local unsigned long n_calls, fail_at;

static bool fails(void)
{
	return fail_at && ++n_calls == fail_at;
}

#define WRAP(type, name, params, args, failed) \
	type __real_##name params;             \
	type __wrap_##name params;             \
	type __wrap_##name params              \
	{                                      \
		if (fails()) {                 \
			errno = ENOMEM;        \
			return failed;         \
		}                              \
		return __real_##name args;     \
	}

WRAP(void *, malloc, (size_t n), (n), NULL)
WRAP(void *, calloc, (size_t n, size_t each), (n, each), NULL)
WRAP(void *, realloc, (void *p, size_t n), (p, n), NULL)
WRAP(void *, reallocarray, (void *p, size_t n, size_t each), (p, n, each), NULL)
WRAP(char *, strdup, (const char *s), (s), NULL)
WRAP(void *, mmap64, (void *at, size_t n, int prot, int flags, int fd, off64_t off),
     (at, n, prot, flags, fd, off), MAP_FAILED)
WRAP(int, eventfd, (unsigned n, int flags), (n, flags), -1)
WRAP(int, epoll_create1, (int flags), (flags), -1)
WRAP(int, pthread_create,
     (pthread_t * t, const pthread_attr_t *a, void *(*run)(void *), void *arg),
     (t, a, run, arg), EAGAIN)

/* ---- A recorder ---- */

struct way {
	const char *name, *event, *capture;
	pid_t tid;     /* -t; 0: without */
	size_t memory; /* --max-memory */
	bool gone;     /* no such process */
	bool run;
	uint32_t max_frames;
};

static pid_t target;
static struct stats stats;

static int drop_sample(struct sink *s, const struct sample *smp, const struct stack *st)
{
	(void)s, (void)smp, (void)st;
	return 0;
}

static const struct sink_ops nowhere = { .name = "nowhere", .sample = drop_sample };

/* 0, or the recorder's -errno. */
static int once(const struct way *w)
{
	struct session session = { .flags = SESSION_LINES, .stats = &stats };
	struct sink sink = { .ops = &nowhere, .session = &session }, *list = &sink;
	struct recorder_options o = {
		.pids = { w->gone ? 4194303 : target },
		.n_pids = 1,
		.tids = { w->tid },
		.n_tids = w->tid != 0,
		.freq = true,
		.value = 99,
		.duration_ns = 1000000,
		.capture = w->capture,
		.native = true,
		.follow = true,
		.memory = w->memory,
		.max_frames = w->max_frames,
		.hold_budget = 50,
		.stack_bytes = 16 << 10,
	};
	struct recorder_summary summary;
	unsigned long at = fail_at;
	struct recorder *r;
	struct err err;
	int ret = 0;

	fail_at = 0;
	if (perf_names_parse(w->event, o.events, SESSION_MAX_EVENTS, &o.n_events, &err) < 0)
		return err.code;
	fail_at = w->run ? 0 : at;
	r = recorder_create(&o, &session, &err);
	fail_at = at;
	if (r && w->run)
		ret = recorder_run(r, &list, 1, NULL, &summary, &err);
	fail_at = 0;
	if (r)
		recorder_destroy(r);
	else
		ret = err.code;
	return ret;
}

/* ---- What it leaves ---- */

struct held {
	size_t bytes, fds, threads;
};

static size_t entries(const char *folder)
{
	DIR *d = opendir(folder);
	size_t n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct held held_now(void)
{
	struct mallinfo2 m = mallinfo2();

	return (struct held){ m.uordblks + m.hblkhd, entries("/proc/self/fd"),
			      entries("/proc/self/task") };
}

/* Threads that were let go end a little later. */
static struct held settled(void)
{
	const struct timespec step = { .tv_nsec = 1000000 };
	enum { ALONE = 3 }; /* ".", ".." and this one */

	for (int i = 0; i < 3000 && entries("/proc/self/task") > ALONE; i++)
		nanosleep(&step, NULL);
	return held_now();
}

/* What malloc keeps for a thread is no leak, which is at least a chunk each time. */
enum { SLACK = 16 << 10 };

static bool report(const char *what, size_t n, const struct held *from, const struct held *to)
{
	bool grew = to->fds > from->fds || to->threads > from->threads ||
		    to->bytes > from->bytes + SLACK;

	printf("%s: times=%zu bytes=%+zd fds=%+zd threads=%+zd%s\n", what, n,
	       (ssize_t)(to->bytes - from->bytes), (ssize_t)(to->fds - from->fds),
	       (ssize_t)(to->threads - from->threads), grew ? " LEAK" : "");
	fflush(stdout);
	return grew;
}

static bool repeat(const struct way *w, size_t n)
{
	struct held from, to;
	int code = 0;
	char what[120];

	for (size_t i = 0; i < (w->run ? 10 : 3); i++)
		code = once(w);
	from = settled();
	for (size_t i = 0; i < n; i++)
		once(w);
	to = settled();
	snprintf(what, sizeof(what), "%s (%s)", w->name, code ? strerror(-code) : "made");
	return report(what, n, &from, &to);
}

/* With call 1, 2, 3... failing, until none does, by steps of @step. */
static bool each_failure(const struct way *w, unsigned long step)
{
	struct held from = settled(), to;
	size_t n = 0, failed = 0;
	char what[120];

	for (fail_at = 1;; n++) {
		unsigned long at = fail_at;

		n_calls = 0;
		failed += once(w) < 0;
		if (n_calls < at)
			break;
		fail_at = at + step;
	}
	to = settled();
	snprintf(what, sizeof(what), "%s, each call fails once (%zu times that was its end)",
		 w->name, failed);
	return report(what, n, &from, &to);
}

int main(int argc, char **argv)
{
	const struct way ways[] = {
		{ "made", "cpu-clock", "async", .max_frames = 1024 },
		{ "deep", "cpu-clock", "auto", .max_frames = 8192 },
		{ "no process", "cpu-clock", "async", .gone = true },
		{ "no capture", "cpu-clock", "none", .max_frames = 1024 },
		{ "no thread", "cpu-clock", "async", .tid = 1 },
		{ "two events", "mem:0x10:w,cpu-clock", "stop" },
		{ "no memory", "cpu-clock", "async", .memory = 1 },
	};
	const struct way runs[] = {
		{ "run, async", "cpu-clock", "async", .run = true, .max_frames = 1024 },
		{ "run, stop", "cpu-clock:u", "stop", .run = true, .max_frames = 1024 },
		{ "run, deep", "page-faults", "auto", .run = true, .max_frames = 8192 },
	};
	bool grew = false;

	sparse_init();
	mallopt(M_ARENA_MAX, 1); /* threads keep nothing for themselves */
	if (argc != 4)
		return 2;
	target = atoi(argv[1]);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		grew |= repeat(&ways[i], strtoul(argv[2], NULL, 10));
	grew |= each_failure(&ways[0], 1);
	grew |= each_failure(&ways[1], 1);
	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		grew |= repeat(&runs[i], strtoul(argv[3], NULL, 10));
		grew |= each_failure(&runs[i], strtoul(argv[3], NULL, 10) < 20 ? 5 : 1);
	}
	return grew;
}
