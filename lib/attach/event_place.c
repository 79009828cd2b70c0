/* SPDX-License-Identifier: MIT
 *
 * event_place - the rule, and its reasons in words.
 */
#include "attach/event_place.h"

#include <linux/capability.h>
#include <stdio.h>

#include "perf_event.h"
#include "sys/rights.h"

enum event_place event_place_choose(const struct place_facts *f, char why[256])
{
	enum event_place place = PLACE_THREADS;
	const char *text;

	if (f->wish == PLACE_ON_THREADS)
		text = "asked for";
	else if (!f->eligible)
		text = "each occurrence of these events is a sample, they belong to threads, or "
		       "on CPUs what others do would decide how often a sample is taken";
	else if (!f->follows)
		text = f->probes ? "each thread gets probes of its own" :
				   "-t names threads, which are there already";
	else if (f->on_threads)
		text = f->on_threads;
	else if (f->tied)
		text = "another event belongs to threads, and all stay with it";
	else if (!f->wide)
		text = "events on CPUs need CAP_PERFMON, or kernel.perf_event_paranoid below "
		       "1";
	else if (f->cgroup)
		place = PLACE_CGROUP, text = "those of the targets' own cgroup";
	else if (!f->filter)
		text = "events on CPUs need CAP_BPF too, to leave out what other processes do";
	else if (f->wish == PLACE_ON_CPUS)
		place = PLACE_CPUS, text = "asked for";
	else if (f->rate > PLACE_MOST_HZ)
		text = "events on CPUs cost other processes too much above 1000 Hz";
	else if (f->rate && f->rate <= PLACE_CHEAP_HZ)
		place = PLACE_CPUS,
		text = "so threads that live for less than a period count too";
	else if (f->many > PLACE_MANY)
		place = PLACE_CPUS, text = "there are too many threads to open events on each";
	else
		place = PLACE_THREADS_FIRST,
		text = "on CPUs as soon as threads are born often";
	snprintf(why, 256, "%s", text);
	return place;
}

/* The remedy where rights do not matter, or NULL. */
static const char *plain_remedy(const struct place_facts *f, enum event_place place)
{
	if (place == PLACE_THREADS_FIRST)
		return "the machine was too busy when samples were due, or threads ended, or "
		       "ran no further, before their next was; lower -F: up to 250 Hz events "
		       "count on CPUs from the beginning, which loses no thread";
	if (place != PLACE_THREADS || !f->eligible || !f->follows || f->tied)
		return f->rate ? "the machine was too busy, or stopped, when samples were due; "
				 "lower -F, or raise -c" :
				 "the machine was too busy when samples were due; raise -c";
	if (!f->on_threads && f->wide && (f->filter || f->cgroup))
		return "the machine was too busy when samples were due, threads ended before "
		       "their next was, or took turns thousands of times a second; use "
		       "--events-on cpus, which loses none of them, or lower -F";
	return NULL;
}

const char *event_place_remedy(const struct place_facts *f, enum event_place place,
			       char buf[EVENT_PLACE_REMEDY])
{
	const char *plain = plain_remedy(f, place);
	const char *lost = "threads ended, or ran no further, before their next sample was due";
	char wanted[250];

	if (plain)
		snprintf(buf, EVENT_PLACE_REMEDY, "%s", plain);
	else if (!f->on_threads)
		snprintf(buf, EVENT_PLACE_REMEDY,
			 "%s; %s: then events count on CPUs, which loses none", lost,
			 rights_wanted(wanted, sizeof(wanted),
				       "CAP_PERFMON, CAP_BPF and CAP_SYS_NICE"));
	else if (rights_have(CAP_SYS_NICE))
		snprintf(buf, EVENT_PLACE_REMEDY, "%s; use --capture preempt", lost);
	else
		snprintf(buf, EVENT_PLACE_REMEDY, "%s; use --capture preempt: %s", lost,
			 rights_wanted(wanted, sizeof(wanted), "CAP_SYS_NICE"));
	return buf;
}

/* At a rate: a CPU's period fits all that occurs there, and leaves few samples, or none, of a
 * target whose share of it is small. Of time it has the share that the rate is meant of. */
static bool is_of_all(const struct perf_event_attr *a)
{
	return a->freq && a->type == PERF_TYPE_SOFTWARE && !perf_event_is_clock(a);
}

bool event_place_may(const struct event_info *event, const struct event_how *how)
{
	const struct perf_event_attr *a = &event->attr;

	return !is_of_all(a) && (a->freq || a->sample_period > 1) && !how->leader && !how->probe &&
	       a->type != PERF_TYPE_BREAKPOINT && a->type != PERF_TYPE_TRACEPOINT;
}

bool event_place_needed(uint64_t births, uint64_t samples, uint64_t cpu_ns)
{
	enum { SOME = 4, ONE_IN = 50 }; /* births that lose 1 % */

	return births >= SOME && births * ONE_IN > samples &&
	       samples * UINT64_C(1000000000) <= PLACE_MOST_HZ * cpu_ns;
}
