/* SPDX-License-Identifier: MIT
 *
 * capture - how a thread is held to its sample's instant, and what proves it.
 *
 * A capture is one file, one word in meson.build and one row of captures[]; stop has its
 * tracer and handover besides. It prepares a reader thread and judges, from what the rings
 * say, whether the thread stood still from the event to the end of the read.
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../err.h"

/* Did any user instruction run between two looks at a thread's registers? */
enum witness {
	WITNESS_NONE, /* not known: no right to look */
	WITNESS_SAME, /* no */
	WITNESS_MOVED,
};

/* What is known about the way from a sample to the end of its walk. */
struct hold {
	uint64_t t0;	      /* the sample, CLOCK_MONOTONIC ns */
	uint64_t t_out;	      /* its thread left the CPU; 0: no record of it */
	uint64_t t_end;	      /* the walk ended */
	bool in_kernel;	      /* the event happened in kernel code */
	bool ending;	      /* the thread is in its exit: it runs no user code any more */
	bool preempted;	      /* at t_out the thread was made to leave, not waiting */
	enum witness witness; /* its user registers at t0 and at t_out ... */
	bool counted;	      /* ... and its user instructions between them */
	bool backlog;	      /* the thread ran again before the reader came */
	bool ran;	      /* ... or before the walk ended, on any CPU */
	uint64_t gap_max_ns;  /* longest t0 -> t_out for a sample in user code */
};

/* Exact, or the one reason why not. */
enum judgement {
	JUDGE_EXACT,
	JUDGE_BACKLOG,
	JUDGE_GAP,
	JUDGE_VOLUNTARY,
	JUDGE_RAN,
	JUDGE_NOSWITCH,
	JUDGE_NOSTOP,
	JUDGE_CAPTURE,
	JUDGE_N,
};

/* What a recording wants of its capture. */
struct capture_want {
	const pid_t *pids; /* none: in general */
	size_t n_pids;
	bool user_only;	  /* no event counts in the kernel */
	bool kernel_only; /* an event counts nowhere else */
	bool switches;	  /* an event is the scheduler's own */
	bool breakpoints; /* an event is one */
	bool named;	  /* by --capture NAME, not auto's choice */
};

struct capture_ops {
	const char *name; /* --capture NAME */
	bool pins;	  /* a reader must be on its CPU, else it holds nobody */
	bool holds;	  /* keeps threads from running: the hold budget applies */
	bool stops;	  /* ... by the tracer: the user mode of each thread alone */
	/* Can it work here? 0, or -errno with a sentence that says what is missing. */
	int (*possible)(const struct capture_want *w, struct err *err);
	/* Make the calling reader thread fit for @cpu. 0 or -errno. */
	int (*thread_begin)(int cpu);
	/* Pure. */
	enum judgement (*judge)(const struct hold *h);
};

extern const struct capture_ops capture_preempt, capture_stop, capture_async;

/* NULL-terminated, best first. */
extern const struct capture_ops *const captures[];

/* @name ("auto" picks the first possible one) into *@ret. *@why says why not a
 * better one, "" if it is the best. 0; -EINVAL no such capture; or what
 * possible() said. */
int capture_pick(const char *name, const struct capture_want *want,
		 const struct capture_ops **ret, struct err *why, struct err *err);

/* The signal that may stop the threads of these processes: none of them handles or blocks
 * it, and nobody traces them; if there is a choice, none of @others either (their children).
 * Or -errno with a sentence. */
int capture_stop_signal(const pid_t *pids, size_t n, const pid_t *others, size_t n_others,
			struct err *err);

/* judge.c: the rule that every holding capture shares: out of the CPU once and not back, and
 * with the user registers it had at the event. Without a witness: not out by its own
 * will unless the kernel was at work, and soon. */
enum judgement capture_judge_held(const struct hold *h);

#endif
