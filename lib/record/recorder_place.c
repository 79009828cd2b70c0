/* SPDX-License-Identifier: MIT
 *
 * recorder_place - where events are to count, on threads or on CPUs, and the BPF programs that
 * counting on CPUs takes.
 */
#include <errno.h>

#include "attach/events.h"
#include "bpf/bpf_code.h"
#include "record/recorder_int.h"
#include "sys/proc.h"
#include "targets/target_cgroup.h"

bool recorder_has_probe(const struct recorder *r)
{
	bool probe = false;

	for (size_t i = 0; i < r->o.n_events; i++)
		probe |= *r->o.events[i].file;
	return probe;
}

uint64_t recorder_sample_rate(const struct session *s, bool on_cpus)
{
	uint64_t rate = 0;

	for (size_t i = 0; i < s->n_events; i++) {
		const struct perf_event_attr *a = &s->events[i].attr;

		/* A led event takes no samples: its attr has no rate. */
		if (s->how[i].led || (on_cpus && !event_place_may(&s->events[i], &s->how[i])))
			continue;
		if (!perf_event_is_clock(a) &&
		    (!a->freq || a->type == PERF_TYPE_SOFTWARE ||
		     a->type == PERF_TYPE_TRACEPOINT || a->type == PERF_TYPE_BREAKPOINT))
			return 0;
		rate += a->freq ? a->sample_freq : 1000000000 / MAX(a->sample_period, 1ull);
	}
	return rate;
}

static bool some_may(const struct session *s)
{
	for (size_t i = 0; i < s->n_events; i++)
		if (event_place_may(&s->events[i], &s->how[i]))
			return true;
	return false;
}

/* The cgroup that the targets have to themselves, if they have one. */
static int own_cgroup(struct recorder *r)
{
	struct targets *t = &r->tracker.targets;
	_cleanup_free_ pid_t *pids = calloc(t->n_all + 1, sizeof(*pids));
	size_t n = 0;

	for (size_t i = 0; pids && i < t->n_all; i++)
		if (targets_find(t, t->all[i]->pid) == t->all[i])
			pids[n++] = t->all[i]->pid;
	n = proc_sort_pids(pids, n);
	return n ? target_cgroup_open(pids, n) : -ENOENT;
}

static bool all_may(const struct session *s)
{
	bool all = true;

	for (size_t i = 0; i < s->n_events; i++)
		all = all && event_place_may(&s->events[i], &s->how[i]) &&
		      !perf_event_is_switch(&s->events[i].attr);
	return all;
}

/* Those of a PID namespace inside ours are not in the table, so nothing of theirs is exact. */
static bool all_known(struct recorder *r)
{
	struct targets *t = &r->tracker.targets;
	bool all = true, whole = bpf_knows_all();

	for (size_t i = 0; !whole && i < t->n_all; i++)
		all = all && (bpf_knows(t->all[i]->pid) || !proc_lives(t->all[i]->pid));
	return all;
}

uint32_t recorder_cpu_numbers(const struct recorder *r)
{
	uint32_t n = 0;

	for (int cpu = cpus_next(&r->possible, 0); cpu >= 0;
	     cpu = cpus_next(&r->possible, cpu + 1))
		n = (uint32_t)cpu + 1;
	return n;
}

/* Where events would be at @place: the table, and the filter that goes with it. */
static bool load_table(struct recorder *r, enum event_place place)
{
	/* Waits need records of switches. */
	if (r->o.mode == RECORDER_WALL || (place != PLACE_CPUS && place != PLACE_CGROUP) ||
	    !all_may(r->session) || !r->capture->prompt || !all_known(r))
		return false;
	if (run_table_init(&r->table, recorder_cpu_numbers(r), r->config.switches_hidden) < 0)
		return false;
	if (stranger_filter_init(&r->filter, &r->table) == 0)
		return true;
	run_table_deinit(&r->table);
	return false;
}

/* The BPF programs of events on CPUs. A cgroup of their own needs no filter. */
static void load_programs(struct recorder *r, struct place_facts *f)
{
	char why[256];

	f->filter = !f->cgroup;
	r->by_table = load_table(r, event_place_choose(f, why));
	if (!r->by_table && !f->cgroup)
		f->filter = stranger_filter_init(&r->filter, NULL) == 0;
}

/* Which events are on CPUs, at r->place. Where threads count them besides, not those that do
 * nothing but sample (AMD's IBS). False: none is. */
static bool place_events(struct recorder *r)
{
	struct session *s = r->session;
	bool some = false;

	for (size_t i = 0; r->place != PLACE_THREADS && i < s->n_events; i++) {
		s->how[i].on_cpus = event_place_may(&s->events[i], &s->how[i]) &&
				    (r->by_table || events_count_beside(s, i));
		some |= s->how[i].on_cpus;
	}
	return some;
}

int recorder_choose_place(struct recorder *r, bool wide, bool tied, size_t threads,
			  struct err *err)
{
	struct session *s = r->session;
	struct place_facts f = {
		.wish = r->o.scope && r->o.place == PLACE_AUTO ? PLACE_ON_CPUS : r->o.place,
		.eligible = some_may(s),
		.follows = !r->o.n_tids && !recorder_has_probe(r),
		.probes = recorder_has_probe(r),
		.on_threads = r->capture->on_threads,
		.tied = tied,
		.wide = wide && r->attach.witness,
		.many = threads * cpus_count(&r->cpus) * s->n_events,
		.rate = recorder_sample_rate(s, true),
	};
	char why[256];

	if (f.eligible && f.follows && f.wide && !f.on_threads && !r->o.child && !r->o.scope)
		r->cgroup = own_cgroup(r);
	f.cgroup = r->cgroup >= 0;
	if (f.eligible && f.follows && f.wide && !f.on_threads)
		load_programs(r, &f);
	r->place = event_place_choose(&f, why);
	if (r->place != PLACE_THREADS && !place_events(r)) {
		f.eligible = false;
		r->place = PLACE_THREADS;
		snprintf(why, sizeof(why), "they can't be counted without samples, as threads "
					   "would besides CPUs");
	}
	r->place_facts = f;
	snprintf(r->place_why, sizeof(r->place_why), "%s: %s",
		 r->place == PLACE_THREADS	 ? "events on threads" :
		 r->place == PLACE_THREADS_FIRST ? "events on threads at first" :
						   "events on CPUs",
		 why);
	s->place = r->place_why;
	return r->o.place == PLACE_ON_CPUS && r->place == PLACE_THREADS ?
		       err_set(err, -EPERM, "--events-on cpus: %s", why) :
		       0;
}

void recorder_give_up_place(struct recorder *r, bool joins)
{
	r->place = PLACE_THREADS;
	snprintf(r->place_why, sizeof(r->place_why), "events on CPUs only: %s",
		 joins ? "so that processes can join" :
			 "threads would need too many descriptors");
	for (size_t i = 0; i < r->session->n_events; i++)
		r->session->how[i].on_cpus = false;
	stranger_filter_deinit(&r->filter);
	if (r->by_table)
		run_table_deinit(&r->table);
	r->by_table = false;
	if (r->cgroup >= 0)
		close(r->cgroup);
	r->cgroup = -1;
}
