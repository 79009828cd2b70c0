/* SPDX-License-Identifier: MIT
 *
 * recorder_announce - what the targets were before the recording, for the resolver; and a word
 * where that takes long.
 */
#include "base/clock.h"
#include "capture/taping.h"
#include "record/recorder_int.h"

enum {
	MANY_MAPS = 512,	  /* whose reading takes a millisecond */
	PATIENCE_NS = 1000000000, /* until a person is told why nothing is sampled yet */
	BEFORE_NS = 120000000,	  /* less than the resolver waits */
};

void recorder_tell_progress(struct recorder *r, size_t done)
{
	if (r->told_progress || now_ns() < r->begun_ns + PATIENCE_NS)
		return;
	r->told_progress = true;
	note_say(&r->o.note,
		 "still attaching, to %zu of %zu processes so far; Ctrl-C ends the recording "
		 "with what there is",
		 done, r->tracker.targets.n_all);
}

/* Are the maps of @t read when samples come already? Where there are many that takes longer
 * than the rest of the start; and before a tracer's events run nothing tells what is mapped.
 * What a tape begins with comes before all else, and a child of ours is about to be another
 * program. */
static bool maps_later(const struct recorder *r, const struct target *t)
{
	if (r->config.tape || r->o.child)
		return false;
	return r->tracer || (t->n_maps >= MANY_MAPS && t->py.root);
}

/* As of when @t is announced: of @time, before there were events. One that was found since may have
 * a record of its fork, which makes it a copy of its parent: what is read of itself comes after it.
 */
static uint64_t as_of(const struct target *t, uint64_t time)
{
	return MAX(time, t->since_ns);
}

static void announce(struct recorder *r, const struct target *t, uint64_t time)
{
	if (maps_later(r, t))
		recorder_announced(
			r, announce_names(&r->own, t->pid, false, !r->config.named, time));
	else
		recorder_announce(r, t->pid, false, time);
}

bool recorder_announce_all(struct recorder *r, uint64_t time)
{
	bool later = false;

	for (size_t i = 0; i < r->tracker.targets.n_all; i++) {
		const struct target *t = r->tracker.targets.all[i];

		recorder_tell_progress(r, i);
		if (t->asleep)
			continue;
		if (stop_asked(r->o.stop))
			break;
		announce(r, t, as_of(t, time));
		later = later || maps_later(r, t);
	}
	if (r->config.tape) {
		taping_begin(&r->config, &r->own);
		tracker_tape_all(&r->tracker, &r->own);
	}
	return later;
}

void recorder_announce_later(struct recorder *r, uint64_t time)
{
	struct pool *openers = file_helper_openers(r->session->file_helper);

	if (r->tracer)
		tracer_await_events(r->tracer);
	for (size_t i = 0; i < r->tracker.targets.n_all; i++) {
		const struct target *t = r->tracker.targets.all[i];

		if (t->asleep || !maps_later(r, t))
			continue;
		if (stop_asked(r->o.stop))
			break;
		recorder_announced(
			r, announce_maps(&r->own, t->pid, t->py.root, as_of(t, time), openers));
	}
	atomic_fetch_add(&r->config.answered, 1);
}

void recorder_introduce(struct recorder *r, pid_t pid, uint64_t time)
{
	/* The stack of who sleeps since before is as of the start itself. */
	uint64_t first = r->session->start_ns - 1 + BEFORE_NS;

	recorder_announce(r, pid, false, MAX(time, first) - BEFORE_NS);
}
