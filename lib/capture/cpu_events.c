/* SPDX-License-Identifier: MIT
 *
 * cpu_events - what events on CPUs ask of a reader: whose samples they are, what they stand
 * for, and when their next period begins.
 */
#include <sched.h>

#include "attach/event_place.h"
#include "base/draw.h"
#include "base/stats.h"
#include "targets/births.h"
#include "watch/proof.h"
#include "capture/reader_int.h"

/* As far as has been noted @pid is a target. Our own child is none before its exec. */
static bool is_known(const struct reader_config *c, pid_t pid)
{
	bool held =
		(c->split || c->table) && pid == c->child && !births_execed(c->births, pid);

	return !held && ours_has(c->ours, pid);
}

/* Who forked it; 0: nobody knows, or it has become a program that must fit a scope by itself.
 */
static pid_t forker_of(const struct reader_config *c, pid_t pid)
{
	struct births_fork f;

	if (!c->strangers || c->descends)
		return births_parent(c->births, pid);
	return births_forked(c->births, pid, &f) ? f.ppid : 0;
}

/* The records of forks lie in the rings of several CPUs, in whatever order they were read. Of a chain
 * of forks that moves to another CPU at each, none may be known for as long as nobody reads those. */
static void learn_descent(const struct reader_config *c, pid_t pid)
{
	enum { GENERATIONS = 512 };
	pid_t of = pid;

	for (int i = 0; i < GENERATIONS && of; i++)
		if ((of = forker_of(c, of)) && ours_has(c->ours, of))
			ours_set(c->ours, pid, c->follow);
}

static void look_for_births(struct reader *r)
{
	tap_look(r, TAP_BIRTHS, 0);
	proof_look_for_births(r->c, r->slot, r->cursor);
	tap_looked(r, TAP_BIRTHS, 0, 0);
}

void cpu_events_learn(struct reader *r, pid_t pid, uint64_t time)
{
	if (!r->c->table || ours_has(r->c->ours, pid))
		return;
	if (r->saw_births_ns <= time) {
		r->saw_births_ns = now_ns();
		look_for_births(r);
	}
	learn_descent(r->c, pid);
}

/* Of a scope that any Python fits: has @pid become a program that maps a known interpreter?
 * Then it is a target from its first sample on. */
static bool adopt(struct reader *r, pid_t pid, uint64_t time)
{
	struct reader_config *c = r->c;
	uint64_t execed = c->adopts ? births_execed(c->births, pid) : 0, at;

	if (!execed || !births_interpreter(c->births, pid, execed, &at))
		return false;
	ours_set(c->ours, pid,
		 emit_control(r, CTL_STRANGER,
			      (struct ctl_msg){ .pid = pid, .ppid = 1, .time = time }));
	return true;
}

/* Has it become its program so lately that the filter lets some more of its samples pass? What
 * it maps meanwhile may lie in a ring that nothing wakes a reader for. */
static bool is_young(const struct reader_config *c, pid_t pid, uint64_t time)
{
	return c->filter && c->table && births_execed(c->births, pid) + STRANGER_NS > time;
}

/* The control thread is told of each once, until it becomes another program or maps code, and
 * of a young one again, or of one for whom there was no room. */
void cpu_events_stranger(struct reader *r, pid_t pid, uint64_t time)
{
	const struct reader_config *c = r->c;

	if (!c->strangers || (ours_has(c->strangers, pid) && !is_young(c, pid, time)))
		return;
	ours_set(c->strangers, pid, emit_control(r, CTL_STRANGER, (struct ctl_msg){ .pid = pid }));
}

/* That it is none is known of whom the control thread was told, until it becomes another program. */
static bool may_be_child(const struct reader_config *c, pid_t pid)
{
	return c->split || c->table || !c->strangers || !ours_has(c->strangers, pid);
}

bool cpu_events_want(struct reader *r, pid_t pid, pid_t tid, uint64_t time)
{
	const struct reader_config *c = r->c;
	bool found = !c->ours || watch_wants(c, tid);

	if (!found || is_known(c, pid))
		return found;
	if (may_be_child(c, pid))
		look_for_births(r);
	if (!c->split)
		learn_descent(c, pid);
	return is_known(c, pid) || adopt(r, pid, time);
}

/* May it become a target at once, by its exec, of which only a sample would tell where no table
 * tells the filter? */
static bool is_newborn(const struct reader *r, pid_t pid)
{
	struct births_fork f;

	return pid == r->c->child ||
	       (r->c->strangers && !r->c->table && births_forked(r->c->births, pid, &f) &&
		now_ns() < f.time + SECOND);
}

void cpu_events_drop(struct reader *r, pid_t pid, uint64_t time)
{
	const struct reader_config *c = r->c;

	STATS_ADD(c->stats, foreign, 1);
	cpu_events_stranger(r, pid, time);
	if (!c->filter || is_newborn(r, pid))
		return;
	stranger_filter_add(c->filter, pid, time + STRANGER_NS);
	/* The control thread may have let it join meanwhile. */
	if (is_known(c, pid))
		stranger_filter_add(c->filter, pid, 0);
}

void cpu_events_seen(struct reader *r, uint32_t event, uint64_t period)
{
	struct seen *seen = &r->slot->seen[event];

	if (!period)
		period = r->c->session->events[event].attr.sample_period;
	atomic_fetch_add_explicit(&seen->n, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&seen->period, period, memory_order_relaxed);
}

bool cpu_events_twin(const struct reader *r, uint32_t event, bool early, uint64_t time)
{
	bool over = time >= atomic_load_explicit(&r->c->over_ns, memory_order_relaxed);

	return r->c->early && r->c->session->how[event].on_cpus && early == over;
}

void cpu_events_birth(struct reader *r)
{
	struct reader_config *c = r->c;
	uint64_t start = atomic_load_explicit(&c->start_ns, memory_order_relaxed);
	uint64_t now = now_ns(), samples = 0;
	uint32_t births = atomic_fetch_add(&c->n_births, 1) + 1;

	for (uint32_t i = 0; i < c->n_slots; i++) {
		for (size_t e = 0; e < c->session->n_events; e++)
			samples += atomic_load_explicit(&c->slots[i].seen[e].n,
							memory_order_relaxed);
		work_foreign(&c->slots[i].work, c->session->n_events);
	}
	if (now > start && event_place_needed(births, samples, (now - start) * c->n_slots) &&
	    !atomic_exchange(&c->births_told, true) &&
	    !emit_control(r, CTL_BIRTHS, (struct ctl_msg){ 0 }))
		atomic_store(&c->births_told, false);
}

/* A new period would make the very next occurrence of a software event a sample
 * (perf_swevent_event(), kernel/events/core.c). */
static bool may_restart(const struct perf_event_attr *a)
{
	return a->type != PERF_TYPE_SOFTWARE || perf_event_is_clock(a);
}

static bool is_paced(const struct reader_config *c, uint32_t event)
{
	return atomic_load_explicit(&c->paced, memory_order_relaxed) >> event & 1;
}

void cpu_events_taken(struct reader *r, pid_t pid, uint32_t event)
{
	struct target *t = is_paced(r->c, event) ? targets_find(r->c->targets, pid) : NULL;

	if (!t)
		return;
	atomic_fetch_add_explicit(&t->taken, 1, memory_order_relaxed);
	r->pace = atomic_load_explicit(&t->pace, memory_order_relaxed);
}

/* A period drawn from half to one and a half of what was asked for, or of what the process
 * needs for as many samples as its time asks for. Of a clock's, what its thread has taken
 * since the sample is a part. */
static uint64_t next_period(struct reader *r, const struct perf_event_attr *a, bool paced)
{
	uint64_t asked = perf_event_period(a);
	uint64_t period = paced && r->pace ? asked * r->pace / PACE_ONE : asked;
	uint64_t drawn = draw_around(&r->random, period);
	uint64_t gone = perf_event_is_clock(a) ? MIN(r->way_out, period / 4) : 0;

	return drawn - gone;
}

/* It is the target's time that they measure, not ours; who was not held has gone on long ago.
 * Periods are drawn, for else a program that does the same thing every millisecond would be
 * sampled at the same place of it for ever. */
void cpu_events_restart(struct reader *r)
{
	const struct session *session = r->c->session;
	bool held = !r->unfit;

	for (uint32_t e = 0; r->sampled && held && e < session->n_events; e++) {
		int fd = atomic_load(&r->slot->sampler[e]);
		const struct perf_event_attr *a = &session->events[e].attr;

		if (r->sampled >> e & 1 && fd >= 0 && may_restart(a) &&
		    sched_getcpu() == r->slot->cpu)
			perf_event_restart(fd, perf_event_period(a) ?
						       next_period(r, a, is_paced(r->c, e)) :
						       a->sample_freq);
	}
	r->sampled = 0;
	r->pace = 0;
	r->way_out = 0;
}
