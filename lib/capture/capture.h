/* SPDX-License-Identifier: MIT
 *
 * capture - how a thread is held to its sample's instant, and what proves it.
 *
 * A capture is one file and one word in meson.build (docs/ADD_A_CAPTURE.md); stop has its
 * tracer and handover besides. It says what it demands of a recording, does what is its own on
 * a reader's thread, and judges, from what the rings say, whether the thread stood still from
 * the event to the end of the read. Nobody asks which capture it is.
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/note.h"

/* Whether any user instruction ran between two looks at a thread's registers. */
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
	enum witness witness; /* what its user registers at t0 and at t_out tell */
	bool counted;	      /* its user instructions between them are known, too */
	bool backlog;	      /* the thread ran again before the reader came */
	bool ran;	      /* it ran before the walk ended, on any CPU */
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

struct preempt_plan;

/* What a recording wants of its capture. */
struct capture_want {
	const pid_t *pids; /* none: in general */
	size_t n_pids;
	bool user_only;		   /* no event counts in the kernel */
	bool kernel_only;	   /* an event counts nowhere else */
	bool switches;		   /* an event is the scheduler's own */
	bool breakpoints;	   /* an event is one */
	bool waits;		   /* threads that sleep are sampled too */
	bool joins;		   /* processes may become targets at any time */
	bool named;		   /* by --capture NAME, not auto's choice */
	struct preempt_plan *plan; /* the recording's: preempt finds out whether it holds */
};

struct cpu_slot;
struct perf_options;
struct reader;
struct tracer;
struct tracer_config;
struct walk;

/* What the innermost evaluation loop keeps on the C stack lies within so many bytes. */
enum { CAPTURE_STACK_BYTES = 1024 };
/* Nobody who is over the hold budget sleeps longer without looking at the ring. */
enum { CAPTURE_SHED_NS = 10000000 };

/* How the events of the targets' threads are opened. */
struct capture_attach {
	int (*attach)(void *arg, struct err *err); /* opens them, in the calling thread */
	void *arg;
	const pid_t *pids; /* the targets that the user named */
	size_t n_pids;
	const pid_t *others; /* the processes that are followed */
	size_t n_others;
	const struct note *note;
	struct tracer_config *tracer; /* all but its signal; its queue is empty */
	struct tracer **ret_tracer;   /* stays NULL where there is none */
};

/* Each function is set; where a capture does nothing of its own it is one of those below. */
struct capture_ops {
	const char *name;    /* --capture NAME */
	const char *promise; /* what its stacks are worth, a clause for doctor */
	const char *cheaper; /* behind "samples are shed": what else helps, a clause or "" */

	/* What it demands of a recording. */
	const char *on_threads; /* why events must count on threads, a clause; NULL: no need */
	uint32_t stack_bytes;	/* of the user stack, with each sample; a multiple of 8 */
	uint32_t cpu_fds;	/* descriptors for each CPU */
	bool fixed_cpus;	/* no CPU can be added after the beginning */
	bool finds_threads;	/* sees new threads itself: readers need not tell of them */
	bool sees_registers;	/* sees the held thread's registers: needs no witness */
	bool traces;		/* by ptrace(2): a stop of ours would be the targets', too */
	bool holds;		/* threads; without it few stacks can be exact */
	bool on_one_cpu;	/* it holds them on the CPU of the sample only */
	bool prompt; /* a reader runs on its CPU as soon as a sample wakes it there */

	/* Control thread: can it work here? 0, or -errno with a sentence that says what is
	 * missing. */
	int (*possible)(const struct capture_want *w, struct err *err);
	/* After possible(): which samples will be late all the same, a sentence into @buf; ""
	 * if none. Returns @buf. */
	const char *(*caveat)(const struct preempt_plan *p, char *buf, size_t size);
	/* Why readers got no CPU for a while (stats: stalled), a sentence. Returns @buf. */
	const char *(*stall)(char *buf, size_t size);
	/* Restrict how events are opened to what it can sample. */
	void (*limit)(struct perf_options *o);
	/* Control thread: a CPU's slot gets what it needs, freed by slots.c. 0 or -errno. */
	int (*slot_begin)(struct cpu_slot *slot);
	/* Control thread: have @a->attach() called by the thread that must. Its result. */
	int (*attach)(const struct capture_attach *a, struct err *err);

	/* A reader's thread, in this order. */
	int wait_ms; /* how long it sleeps after a look that found something */
	/* Make the thread fit for @cpu, @p being the want's plan. 0 or -errno: it holds nobody
	 * then, and tries again as it wakes up. */
	int (*thread_begin)(const struct preempt_plan *p, int cpu);
	/* The thread that reads who sleeps: make it as urgent as readers are. 0 or -errno: an
	 * ordinary thread does it then, late on a busy machine. */
	int (*waits_begin)(const struct preempt_plan *p);
	/* True if the reader woke up on a CPU where it holds nobody, or may have been there.
	 */
	bool (*moved_away)(const struct reader *r);
	/* The hold budget is used up for @left_ns: let the targets run meanwhile. */
	void (*shed)(struct reader *r, uint64_t left_ns);
	/* Before the ring is scanned. */
	void (*scan)(struct reader *r);
	/* The thread of a sample that waits left its CPU at @h->t_out: may it come back
	 * before it is held? */
	bool (*comes_back)(const struct hold *h);
	/* The ring was scanned: read those of the samples that wait whose threads are held
	 * now. hold.h has what it takes. */
	void (*read)(struct reader *r);
	/* Read them all; no thread will be held later. */
	void (*flush)(struct reader *r);
	/* A thread was read, and its hold ends: fill in @w->ran, came_ns and t_end, and charge
	 * what the hold cost. */
	void (*release)(struct reader *r, struct walk *w);
	/* What was scanned has left the ring: the targets go on. */
	void (*resume)(struct reader *r);
	/* Judge whether what was read is the stack at the sample. Pure. */
	enum judgement (*judge)(const struct hold *h);
};

/* For captures that do nothing of their own. */
const char *capture_says_nothing(char *buf, size_t size);
const char *capture_no_caveat(const struct preempt_plan *p, char *buf, size_t size);
void capture_limits_nothing(struct perf_options *o);
int capture_slot_as_is(struct cpu_slot *slot);
int capture_attach_here(const struct capture_attach *a, struct err *err);
int capture_waits_ordinary(const struct preempt_plan *p);
bool capture_stays(const struct reader *r);
void capture_sleep(struct reader *r, uint64_t left_ns);
void capture_idle(struct reader *r);
bool capture_comes_back_never(const struct hold *h);

/* Best first, NULL-terminated. */
extern const struct capture_ops *const captures[];

/* The one of this name, or NULL. */
const struct capture_ops *capture_named(const char *name);

/* True: the one that capture_pick() takes for @name may trace the targets. */
bool capture_may_trace(const char *name);

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

/* judge.c: the rule for a thread that nobody holds: what was read may still be its stack at
 * the sample. */
enum judgement capture_judge_unheld(const struct hold *h);

/* judge.c: the rule that every holding capture shares: out of the CPU once and not back, and
 * with the user registers it had at the event. Without a witness: not out by its own
 * will unless the kernel was at work, and soon. */
enum judgement capture_judge_held(const struct hold *h);

#endif
