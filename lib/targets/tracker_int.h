/* SPDX-License-Identifier: MIT
 *
 * tracker_int - what the files of the tracker share. Control thread only.
 */
#ifndef TRACKER_INT_H
#define TRACKER_INT_H

#include "targets/tracker.h"

struct probe;
struct pyproc;

/* A process whose interpreter is being looked for. */
struct search {
	struct target *target;
	struct probe *probe;
	int tries;
	bool fresh; /* just started: its interpreter may not be mapped yet */
	bool again; /* asked for while the probe was looking */
	bool dropped;
	uint64_t next_ns;
	uint64_t asked_ns; /* when the probe was started */
};

/* The last samples of a process have been read so long after it has ended. */
enum { TRACKER_DOUBT_NS = 1000000000 };

/* A look at a process takes some ms; one that takes longer than this hangs. */
#define TRACKER_LOOK_NS ((uint64_t)10000000000)

/* Look then whether it has ended, for nobody may tell. */
void tracker_doubt(struct target *target);

/* Note whose @target's process is, if it is there; whose it is, or was when it was asked last. */
uid_t tracker_user(struct target *target);

/* Open what is kept open of a published target, and note whose it is. Of its end may be told before
 * it is known, and while it still ends, for that is in two CPUs' rings: it is looked at. */
void tracker_open(struct tracker *t, struct target *target);

/* A target that no table has yet, for a process that began at @begun_ns; malloc'ed. NULL: no
 * memory. */
struct target *tracker_create(struct tracker *t, pid_t pid, uint64_t begun_ns);

/* The same, published and opened, in the place of one with its number. */
struct target *tracker_add(struct tracker *t, pid_t pid, uint64_t begun_ns);

/* In a PID namespace of its own a process numbers its threads differently: note whether. */
void tracker_learn_numbers(struct target *target);

/* Its interpreter is @p, and what else @p has. */
void tracker_found(struct tracker *t, struct target *target, const struct pyproc *p);

/* True: it has mapped what may be another interpreter since it was looked at. */
bool tracker_is_stale(const struct tracker *t, const struct target *target);

/* A look that began at @began ended with @code and, if it is not negative or -EAGAIN, with
 * @p: note that there was no interpreter then, or that one is about to start. */
void tracker_note_none(const struct tracker *t, struct target *target, int code,
		       const struct pyproc *p, uint64_t began);

/* One that can't be read, for @why: a person is told of the first, who wants details of all. */
void tracker_tell_refused(struct tracker *t, const char *why);

/* What @target is, whether it is read or not: an enum target_state, not TARGET_QUARANTINED. */
int tracker_state(const struct target *target);

/* From now on that is @state. As long as a read of it hangs it is in quarantine. */
void tracker_becomes(const struct tracker *t, struct target *target, int state);

/* @target, which is not published yet or is not asleep any more, is not read if its user has too
 * many that hang. */
void tracker_consider(struct tracker *t, struct target *target);

/* Put what the readers know of @target on the tape, if there is one. */
void tracker_tape(const struct tracker *t, const struct target *target);

/* More is known of @target: both of that. */
void tracker_learnt(struct tracker *t, struct target *target);

/* Look for @target's interpreter from now on. @fresh: it has just begun, and may not have
 * mapped it yet. 0 or -ENOMEM. */
int tracker_search(struct tracker *t, struct target *target, bool fresh);

#endif
