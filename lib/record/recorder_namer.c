/* SPDX-License-Identifier: MIT
 *
 * recorder_namer - the thread that reads what programs call their threads (targets/namer.h): when
 * it begins, and which one comes in place of one that hangs.
 */
#include "record/recorder_int.h"

#include "base/clock.h"
#include "base/stats.h"

void recorder_start_namer(struct recorder *r)
{
	r->namer_begun = true;
	r->namer = namer_start(&r->tracker.targets, &r->namer_user, &r->names,
			       r->config.namer_kick, &r->config.named_due);
	if (!r->namer && !r->nameless)
		note_say(&r->o.note, "no thread or memory to read what programs call their "
				     "threads: they keep the kernel's names until there is");
	if (r->namer && r->nameless)
		note_say(&r->o.note, "names of threads are read again");
	r->nameless = !r->namer;
}

static bool has_room(const struct recorder *r)
{
	return r->n_hung_namers < ARRAY_SIZE(r->hung_namers);
}

static void leave_behind(struct recorder *r, pid_t pid)
{
	STATS_ADD(r->session->stats, stuck_reads, 1);
	note_say(&r->o.note,
		 "a read of process %d hangs: the names of its threads are not read any more",
		 pid);
	tracker_hangs(&r->tracker, pid, false);
	r->hung_namers[r->n_hung_namers++] = r->namer;
	r->namer = NULL;
	if (has_room(r))
		return;
	note_say(&r->o.note,
		 "%zu such reads hang: until one ends no more names of threads are read",
		 r->n_hung_namers);
	r->nameless = true;
}

/* Those that were left behind, once their reads have ended. */
static void free_namers(struct recorder *r)
{
	for (size_t i = r->n_hung_namers; i > 0; i--) {
		pid_t pid = namer_returned(r->hung_namers[i - 1]);

		if (!pid)
			continue;
		tracker_returned(&r->tracker, pid, false);
		r->hung_namers[i - 1] = r->hung_namers[--r->n_hung_namers];
	}
}

int recorder_watch_namer(struct recorder *r)
{
	uint64_t now = now_ns();
	pid_t pid;

	if (now < r->namer_ns)
		return (int)((r->namer_ns - now) / 1000000) + 1;
	r->namer_ns = now + RECORDER_WATCH_MS * 1000000ull;
	free_namers(r);
	if (r->namer && namer_hangs(r->namer, &pid))
		leave_behind(r, pid);
	if (!r->namer && has_room(r))
		recorder_start_namer(r);
	return RECORDER_WATCH_MS;
}
