/* SPDX-License-Identifier: MIT
 *
 * event_place - does an event that is sampled count on each thread of the targets, or on each
 * CPU? Pure but for words.
 *
 * An event on a thread begins anew with each thread, with a whole period, and what is left of
 * the period when the thread ends is dropped (kernel: inherit_event(),
 * perf_event_exit_event()). So threads that live for less than some periods are sampled too
 * rarely. An event on a CPU does not know of threads, but interrupts other processes too.
 */
#ifndef EVENT_PLACE_H
#define EVENT_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/sample.h"

enum event_place {
	PLACE_THREADS,
	PLACE_THREADS_FIRST, /* on CPUs as soon as threads are born often */
	PLACE_CPUS,	     /* strangers' samples are dropped by stranger_filter */
	PLACE_CGROUP,	     /* on CPUs, while they run a task of the targets' own cgroup */
};

/* What the user asked for. */
enum place_wish { PLACE_AUTO, PLACE_ON_THREADS, PLACE_ON_CPUS };

/* What is known when it is chosen. */
struct place_facts {
	enum place_wish wish;
	bool eligible;		/* event_place_may() says so of some event */
	bool follows;		/* new threads are recorded too */
	bool probes;		/* there are probes, which no new thread inherits */
	const char *on_threads; /* why the capture wants events on threads, a clause, or NULL
				 */
	bool cgroup;		/* the targets, and nobody else, are in one cgroup */
	bool tied;		/* another event keeps all of them on threads */
	bool wide;		/* events on CPUs are permitted ... */
	bool filter;		/* a BPF filter can drop strangers' samples */
	uint64_t many;		/* events that threads would need, one on each CPU */
	uint64_t rate;		/* interrupts a second of a CPU that is busy; 0: not known */
};

/* Interrupts a second that other processes may have to bear: one costs them up to 30 us in a
 * virtual machine in another one (tools/bench --strangers) and 1 to 2 us on hardware, so that
 * is at most 1 % and 3 % of a busy CPU. */
enum { PLACE_CHEAP_HZ = 250, PLACE_MOST_HZ = 1000 };

/* More events than that take longer to open than a person waits for. */
enum { PLACE_MANY = 512 };

/* The place, and why it is this one, a clause for a person. */
enum event_place event_place_choose(const struct place_facts *f, char why[256]);

/* Samples are missing from a recording whose events counted at @place: why that may be, and
 * what to do, a clause for a person, by the rights of the calling thread. Returns @buf. */
enum { EVENT_PLACE_REMEDY = 512 };
const char *event_place_remedy(const struct place_facts *f, enum event_place place,
			       char buf[EVENT_PLACE_REMEDY]);

/* May this event count on CPUs? Not where each occurrence is a sample, which no birth can
 * lose, not the kernel's own counts at a rate, which would be everybody's, not what means
 * something in the targets alone (addresses), not tracepoints (the filter would apply to
 * everybody's), not groups, whose counts are those of a thread. */
bool event_place_may(const struct event_info *event, const struct event_how *how);

/* Have births lost so many samples that events should count on CPUs? @births of threads since
 * the begin, each of which loses half a sample in the mean, @samples that there are, taken
 * within
 * @cpu_ns of one or more CPUs. */
bool event_place_needed(uint64_t births, uint64_t samples, uint64_t cpu_ns);

#endif
