/* SPDX-License-Identifier: MIT
 *
 * reader - one thread per CPU: takes samples from the CPU's ring, reads the
 * Python frames while the sampled thread is held, judges, queues.
 *
 * After reader_start() a reader allocates nothing, opens nothing and locks
 * nothing. All it meets that is not a sample it passes on. A reader whose read of
 * a target hangs is abandoned where it stands and replaced (reader_stuck()).
 */
#ifndef READER_H
#define READER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "../counts.h"
#include "../event_ids.h"
#include "../perf_event.h"
#include "../pystack.h"
#include "../queue.h"
#include "../run_table.h"
#include "../sample.h"
#include "../stranger_filter.h"
#include "../target.h"
#include "../work.h"
#include "capture.h"
#include "guard.h"
#include "ours.h"
#include "handover.h"

/* What a reader queues for the resolver. */
enum q_type {
	Q_SIDE = 1, /* a perf record as it came */
	Q_CODE,	    /* uint64_t id, then a struct pycode_copy */
	Q_SAMPLE,   /* struct q_sample */
	Q_TAPE,	    /* uint32_t enum tape_type, uint32_t head bytes, then a tape record */
};

struct q_sample {
	struct sample sample;
	uint64_t user_ip; /* 0: not known */
	uint64_t
		stack_at; /* where the stack bytes begin: the red zone, or the stack pointer */
	uint64_t far_at;  /* of bytes elsewhere: of the thread's own stack, while a signal has
			   * another */
	/* @undecided: torn, but "nopython" if the resolver learns that @program, or the
	 * process's if it is NULL, had no interpreter then. */
	const struct target *program;
	uint32_t n_kernel, n_python, n_anchors, n_reads, n_regs, n_stack, n_far;
	uint32_t undecided;
	/* then uint64_t kernel[n_kernel], struct pystack_frame python[n_python], struct
	 * pystack_anchor anchors[n_anchors], struct counts_read reads[n_reads] (0: no
	 * group), uint64_t regs[n_regs] (0: not wanted, or not known), unsigned char
	 * stack[n_stack], at a multiple of 8 unsigned char far[n_far] */
};

/* The pieces behind a queued sample, by its numbers as they are now. */
static inline uint64_t *q_kernel(const struct q_sample *q)
{
	return (uint64_t *)(uintptr_t)(q + 1);
}
static inline struct pystack_frame *q_python(const struct q_sample *q)
{
	return (struct pystack_frame *)(q_kernel(q) + q->n_kernel);
}
static inline struct pystack_anchor *q_anchors(const struct q_sample *q)
{
	return (struct pystack_anchor *)(q_python(q) + q->n_python);
}
static inline struct counts_read *q_reads(const struct q_sample *q)
{
	return (struct counts_read *)(q_anchors(q) + q->n_anchors);
}
static inline unsigned char *q_regs(const struct q_sample *q)
{
	return (unsigned char *)(q_reads(q) + q->n_reads);
}
static inline unsigned char *q_stack(const struct q_sample *q)
{
	return q_regs(q) + 8 * (size_t)q->n_regs;
}
static inline unsigned char *q_far(const struct q_sample *q)
{
	return q_stack(q) + ((q->n_stack + 7u) & ~7u);
}

/* Of it all. */
static inline size_t q_bytes(const struct q_sample *q)
{
	return (size_t)(q_far(q) - (unsigned char *)(uintptr_t)q) + ((q->n_far + 7u) & ~7u);
}

/* Without what takes most of it: its native stack will be cut. */
static inline void q_drop_stack(struct q_sample *q)
{
	q->n_stack = q->n_far = 0;
}

/* What a reader or the tracer tells the control thread; queued, then @kick is written to. */
enum ctl_type {
	CTL_FORK = 1,
	CTL_EXEC,
	CTL_EXIT,
	CTL_UNKNOWN,
	CTL_LOOK, /* what is known of @pid may no longer be true: look again */
	CTL_BEGUN,
	CTL_BIRTHS, /* threads are born so often that events should count on CPUs */
	CTL_THREAD, /* with tell_threads: one more in @pid, @ptid */
	CTL_ENDED,  /* ... and @ptid is gone */
};
struct ctl_msg {
	pid_t pid, ppid, ptid; /* FORK: by which thread of which process */
	uint64_t time;	       /* FORK, EXEC: of the record; LOOK: of the sample; CTL_BEGUN: a
				* program that began by then, unseen */
};

/* The settings all readers share; read-only while they run, except where atomic. */
struct reader_config {
	const struct capture_ops *capture;
	const struct preempt_plan *plan; /* of that capture */
	struct targets *targets;
	const struct session *session;
	struct stats *stats; /* the session's */
	uint32_t max_frames;
	unsigned hold_budget; /* percent of a CPU */
	uint64_t sample_type; /* of all events */
	bool witness;	      /* event n_events: perf_event_witness() */
	bool counter;	      /* its records and samples hold a count of user instructions */
	bool tape;
	bool native;			   /* what unwinding needs goes to the resolver */
	uint32_t stack_bytes;		   /* asked for with each sample */
	size_t queue_bytes;		   /* of each reader's queue, a power of two */
	bool follow;			   /* unknown processes are children to take up */
	bool tell_threads;		   /* events are not inherited: tell of new threads */
	int kick;			   /* eventfd */
	_Atomic uint32_t asked, answered;  /* CTL_LOOK: sent, and dealt with */
	_Atomic uint64_t start_ns, end_ns; /* samples outside are ignored */
	_Atomic bool over_budget;	   /* set once */
	_Atomic(struct event_ids *) *ids;  /* with several events */
	struct ours *ours;		   /* events see all of a CPU; else NULL */
	/* Only samples are of all that a CPU runs, other records of the targets' threads. */
	bool split;
	const struct stranger_filter *filter; /* told of strangers; or NULL */
	/* All events are CPUs' and no record tells who comes onto one: this does. Or NULL. */
	const struct run_table *table;
	bool switches_hidden; /* proof_switches_hidden() */
	struct ours *named;   /* threads whose name the queues told of at a sample; NULL: no
			       * table has the names, and they are told by the control thread */
	bool early;	      /* threads take samples, and CPUs may do so later: */
	_Atomic uint64_t over_ns;  /* from then on CPUs do; UINT64_MAX: not yet */
	_Atomic uint32_t n_births; /* of threads and processes so far */
	_Atomic bool births_told;  /* CTL_BIRTHS was sent */
	pid_t child;		   /* our own, no target before its exec; 0: none */
	const pid_t *tids;	   /* ... these threads are wanted; none: all */
	size_t n_tids;
	_Atomic uint64_t *last_in; /* LAST_IN slots: when a thread was last seen starting */
	struct births *births;	   /* who became another program, and when */
	_Atomic uint64_t blind_ns; /* what ran before it may have left no record */
	_Atomic pid_t opening;	   /* nor may what this thread does now; 0: none */
	/* A thread was seen that may use an unwatched CPU: until all that are online are
	 * watched, no affinity proves where threads have been. */
	_Atomic bool wanders;
	struct cpu_slot *slots; /* never moves: room for every CPU that is possible */
	uint32_t cap_slots;
	_Atomic uint32_t n_slots; /* only grows */
	sem_t readies;		  /* posted by each reader when its slot is ready */
	_Atomic bool first_seen;  /* a reader writes, or has written, @first */
	struct work_origin origin;
	struct work others;	  /* what all threads but the readers have done */
	struct work_moment first; /* as the first sample was about to be queued */
};
enum { LAST_IN = 8192 };

/* An event's samples that a CPU's reader has taken from its ring, of targets and in time,
 * whatever became of them, and what they stand for. The reader writes, others read. */
struct seen {
	_Atomic uint64_t n, period;
};

/* A CPU's ring and queues; outlives its readers. */
struct cpu_slot {
	int cpu;
	uint32_t index;
	struct perf_ring ring;
	void *blocks; /* what lies in the queues */
	struct queue queue, ctl;
	struct handover handover; /* of a capture that stops threads */
	struct reader *reader;
	struct reader *stuck;	     /* abandoned ones, by the control thread */
	uint32_t generation;	     /* readers started so far */
	_Atomic bool ready;	     /* the first one has emptied the ring and waits */
	struct guard guard;	     /* of the reader's remote reads */
	_Atomic bool looking;	     /* the reader is inside a table of event ids */
	_Atomic bool dropping;	     /* the ring gets room, and blind_ns does not tell yet */
	_Atomic uint64_t watched_ns; /* since then all threads have events here; 0: not yet */
	_Atomic uint64_t gone_ns;    /* events on the CPU itself are gone, if watched before */
	struct seen seen[SESSION_MAX_EVENTS];
	_Atomic int sampler[SESSION_MAX_EVENTS]; /* this CPU's own events; -1: none */
	pid_t hotplug;	  /* the kernel's thread that takes them away; 0: not known */
	char before[64];  /* no other thread writes the cache lines of ... */
	struct work work; /* what its readers have done */
	char after[64];
};

/* Since when all threads have events there, 0: they have not. Any thread. */
static inline uint64_t slot_watched(const struct cpu_slot *s)
{
	uint64_t from = atomic_load_explicit(&s->watched_ns, memory_order_acquire);

	return atomic_load_explicit(&s->gone_ns, memory_order_acquire) < from ? from : 0;
}

struct reader;

/* Start the slot's reader. 0 or -errno. */
int reader_start(struct reader_config *c, struct cpu_slot *slot);

/* Bytes of memory that a reader takes. */
size_t reader_bytes(const struct reader_config *c);

/* Ask it to drain its ring and end; then wait for it. One whose read hangs is abandoned: then
 * slot->stuck is not empty, and what it may still touch must stay. */
void reader_stop(struct cpu_slot *slot);

/* Have it look into its ring soon, also for what does not wake it. Call until it did. */
void reader_nudge(struct cpu_slot *slot);

/* Called now and then: a reader sleeps until a sample comes once it has found its ring empty;
 * if there are records now it is nudged. */
void reader_wake(struct cpu_slot *slot);

/* The watchdog's look, called at intervals: has the reader been inside the same
 * read since the last call? Then it is abandoned and the result is the process whose
 * memory hangs; the slot waits for reader_start(). Else 0. */
pid_t reader_stuck(struct cpu_slot *slot);

/* A reader that was abandoned has come back: the process whose memory no longer hangs. Call
 * until it is 0. */
pid_t reader_returned(struct cpu_slot *slot);

#endif
