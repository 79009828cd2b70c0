/* SPDX-License-Identifier: MIT
 *
 * watch - what the readers of a recording share: their settings, and for each CPU that is
 * watched a slot with its ring, its queues and its reader.
 */
#ifndef WATCH_H
#define WATCH_H

#include <semaphore.h>
#include <stdatomic.h>

#include "perf_event.h"
#include "base/epoch.h"
#include "base/queue.h"
#include "sample/sample.h"
#include "base/work.h"
#include "remote/guard.h"
#include "watch/handover.h"

struct event_ids;
struct run_table;
struct sight;
struct stranger_filter;
struct wait_post;

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
	int nice;	      /* of readers that are not more urgent: the user's */
	bool only_gil;	      /* samples of threads that have not the GIL are left out */
	bool native;	      /* what unwinding needs goes to the resolver */
	uint32_t stack_bytes; /* asked for with each sample */
	uint32_t record_bytes; /* perf_record_longest(); 0: PERF_RECORD_BYTES */
	size_t queue_bytes;   /* of each reader's queue, a power of two */
	size_t room_bytes;    /* reader_bytes() */
	bool follow;	      /* unknown processes are children to take up */
	bool tell_threads;    /* events are not inherited: tell of new threads */
	int kick;	      /* eventfd */
	_Atomic uint32_t asked, answered;  /* CTL_LOOK: sent, and dealt with */
	_Atomic uint64_t start_ns, end_ns; /* samples outside are ignored */
	_Atomic bool over_budget;	   /* set once */
	/* tracker_crowds(): what the control thread has not judged yet is not read. */
	_Atomic bool crowded;
	_Atomic(struct event_ids *) *ids;  /* with several events */
	struct ours *ours;		   /* events see all of a CPU; else NULL */
	/* Only samples are of all that a CPU runs, other records of the targets' threads. */
	bool split;
	const struct stranger_filter *filter; /* told of strangers; or NULL */
	/* All events are CPUs' and no record tells who comes onto one: this does. Or NULL. */
	const struct run_table *table;
	bool switches_hidden;	/* proof_switches_hidden() */
	const struct sight *sight; /* tells then whether any was; or NULL */
	struct ours *named;	/* threads whose name the queues told of at a sample; NULL: no
				 * table has the names, and they are told by the control thread */
	struct ours *strangers; /* of a scope: who is no target, and the control thread knows;
				 * NULL: nobody joins */
	bool adopts;		/* whoever runs Python fits */
	bool descends;		/* whatever targets start are targets */
	/* Bit e: event e is a clock on CPUs, all of whose time the scheduler knows. */
	_Atomic uint32_t paced;
	bool early;		/* threads take samples, and CPUs may do so later: */
	_Atomic uint64_t over_ns;  /* from then on CPUs do; UINT64_MAX: not yet */
	_Atomic uint32_t n_births; /* of threads and processes so far */
	_Atomic bool named_due;	   /* a thread was born: the namer shall look */
	int namer_kick;		   /* the eventfd that the namer waits for; 0 or less: none */
	_Atomic bool births_told;  /* CTL_BIRTHS was sent */
	pid_t child;		   /* our own, no target before its exec; 0: none */
	const pid_t *tids;	   /* the threads that are wanted; none: all */
	size_t n_tids;
	_Atomic uint64_t *last_in; /* LAST_IN slots: when a thread was last seen starting */
	/* LAST_IN slots: when a thread last left a CPU, and which; NULL: no switch is hidden
	 */
	_Atomic uint64_t *last_out;
	struct wait_post *waits;	   /* told of switches; NULL: nobody asks for waits */
	struct births *births;	   /* who became another program, and when */
	_Atomic uint64_t blind_ns; /* what ran before it may have left no record */
	_Atomic pid_t opening;	   /* nor may what this thread does now; 0: none */
	/* A thread was seen that may use an unwatched CPU: until all that are online are
	 * watched, no affinity proves where threads have been. */
	_Atomic bool wanders;
	struct cpu_slot *slots; /* never moves: room for every CPU that is possible */
	void *block;		/* the memory of those that were there from the beginning */
	uint32_t cap_slots;
	_Atomic uint32_t n_slots; /* only grows */
	_Atomic uint32_t n_ready; /* readers that have emptied their ring and wait */
	sem_t all_ready;	  /* posted by the last of them */
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
	void *block; /* what lies in the queues, and room; NULL: a part of the config's */
	void *room;  /* zeroed memory for one reader, until one takes it */
	struct queue queue, ctl;
	struct handover handover; /* of a capture that stops threads */
	struct reader *reader;
	struct reader *stuck; /* abandoned ones, by the control thread */
	bool bare;	      /* the control thread's: no reader could take its place yet */
	uint32_t generation;  /* of the reader: emit_generation() */
	/* What lay in the ring by then is queued; UINT64_MAX: nobody reads the ring. */
	_Atomic uint64_t drained_ns;
	struct guard guard;	     /* of the reader's remote reads */
	struct epoch_user targets;   /* the reader holds targets */
	_Atomic bool looking;	     /* the reader is inside a table of event ids */
	_Atomic bool dropping;	     /* the ring gets room, and blind_ns does not tell yet */
	_Atomic uint64_t watched_ns; /* since then all threads have events here; 0: not yet */
	_Atomic uint64_t gone_ns;    /* events on the CPU itself are gone, if watched before */
	_Atomic uint64_t kept_ns;    /* they are not, if gone_ns is not later */
	_Atomic uint64_t left_ns;    /* the thread that takes them away last left the CPU */
	struct seen seen[SESSION_MAX_EVENTS];
	_Atomic int sampler[SESSION_MAX_EVENTS]; /* this CPU's own events; -1: none */
	_Atomic pid_t hotplug; /* the kernel's thread that takes them away; 0: not known */
	char before[64];       /* no other thread writes the cache lines of ... */
	struct work work;      /* what its readers have done */
	char after[64];
};

/* True: thread @tid is among those that are wanted. Any thread. */
static inline bool watch_wants(const struct reader_config *c, pid_t tid)
{
	bool wanted = !c->n_tids;

	for (size_t i = 0; !wanted && i < c->n_tids; i++)
		wanted = c->tids[i] == tid;
	return wanted;
}

/* Since when all threads have events there, 0: they have not. Any thread. */
static inline uint64_t slot_watched(const struct cpu_slot *s)
{
	uint64_t from = atomic_load_explicit(&s->watched_ns, memory_order_acquire);
	uint64_t kept = atomic_load_explicit(&s->kept_ns, memory_order_acquire);
	uint64_t gone = atomic_load_explicit(&s->gone_ns, memory_order_acquire);

	return gone < from || gone <= kept ? from : 0;
}

/* The event that the id of a record in @slot's ring means, n_events for the witness, or
 * EVENT_IDS_UNKNOWN. The slot's reader only. */
uint32_t watch_event_of(const struct reader_config *c, struct cpu_slot *slot, uint64_t id);

#endif
