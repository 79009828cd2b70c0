/* SPDX-License-Identifier: MIT
 *
 * recorder - a whole recording: attach, run, stop. The control thread is the
 * caller's; readers, resolver and probes are threads below it.
 */
#ifndef RECORDER_H
#define RECORDER_H

#include "capture/capture.h"
#include "attach/event_place.h"
#include "base/note.h"
#include "base/stop.h"
#include "events/perf_names.h"
#include "stacks/resolver.h"
#include "base/work.h"

struct scope;

enum { RECORDER_MAX_PIDS = 256 };

/* What of the threads' time is recorded: that on a CPU; waits too; that with the GIL. */
enum recorder_mode { RECORDER_CPU, RECORDER_WALL, RECORDER_GIL };

struct recorder_options {
	pid_t pids[RECORDER_MAX_PIDS];
	size_t n_pids;
	const struct scope *scope;     /* instead of @pids; borrowed, or NULL */
	pid_t tids[RECORDER_MAX_PIDS]; /* only these threads; 0: all */
	size_t n_tids;
	struct perf_spec events[SESSION_MAX_EVENTS];
	size_t n_events;
	bool freq; /* value is Hz, else a period */
	bool said; /* the user named the value */
	uint64_t value;
	uint64_t duration_ns; /* 0: until stopped */
	const char *capture;  /* "auto", "preempt", "stop", "async" */
	bool kernel, native, full, follow, any;
	uint32_t max_frames;
	const struct unwind_other *unwinder; /* of native frames, instead of ours; or NULL */
	enum recorder_mode mode;
	enum place_wish place; /* where events are to count */
	unsigned hold_budget;  /* percent */
	bool hold_isolated;    /* by SCHED_FIFO readers on isolated CPUs, too */
	uint32_t stack_bytes; /* copied with each sample, for native frames; a multiple of 8 */
	size_t memory;	      /* bytes of rings, queues and readers; 0: struct memory_wants */
	bool child;	      /* pids[0] is our own child, held before its exec */
	/* Borrowed, or NULL. If it is asked for before the recording begins, that begins with
	 * what has been looked at and attached to by then, and ends. */
	const struct stop *stop;
	struct work_origin origin; /* of struct work_moment */
	struct note note;
};

/* What a recording took. */
struct recorder_work {
	/* As the first sample was about to be queued (ns 0: there was none), after half of the
	 * duration (ns 0: none was given), as the loop ended, now. */
	struct work_moment first, half, end, all;
	size_t cpus, processes, threads; /* watched; followed; with events of their own */
	/* Of memory, for each of these: ring, queues and reader; what is known of a process;
	 * descriptors' numbers. The kernel's own is not in it. */
	size_t cpu_bytes, process_bytes, thread_bytes;
};

struct recorder_summary {
	struct recorder_work work;
	struct resolver_counts counts;
	double duration;      /* seconds */
	uint64_t uncounted;   /* samples that are missing from what the events counted */
	int child_end;	      /* our own child's, as wait(2) tells it; -1: wait for it */
};

struct recorder;

/* What the caller of recorder_run() does meanwhile, on its thread; each may be NULL. */
struct recorder_hooks {
	void (*attached)(void *arg); /* everything is: a child may exec */
	void (*second)(void *arg);   /* about one is over */
	void *arg;
};

/* Check rights, find the interpreters, choose events and capture, and fill
 * @session (events, capture). Nothing is opened on the targets' threads yet. NULL
 * with a sentence; err->code: -ESRCH, -ENOEXEC (not Python), -ENOTSUP, -EACCES,
 * -ENOENT (event), -EMFILE ... */
struct recorder *recorder_create(const struct recorder_options *o, struct session *session,
				 struct err *err);

/* Attach, and record into @sinks (opened) until the duration is over, the targets and all
 * that is followed ended, the end is asked for or a sink fails. @hooks may be NULL.
 * 0 or -errno with a sentence; the summary is filled in either case. */
int recorder_run(struct recorder *r, struct sink *const *sinks, size_t n_sinks,
		 const struct recorder_hooks *hooks, struct recorder_summary *ret,
		 struct err *err);

/* How many processes and threads there are to sample. From recorder_hooks.attached on. */
void recorder_attached(const struct recorder *r, size_t *processes, size_t *threads);

void recorder_destroy(struct recorder *r);

#endif
