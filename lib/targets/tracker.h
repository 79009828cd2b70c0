/* SPDX-License-Identifier: MIT
 *
 * tracker - which processes belong to the recording, and what interpreter each runs:
 * found at attach, taken over at fork, looked for again after exec.
 *
 * Control thread only; what the readers see of it is the table of targets.
 */
#ifndef TRACKER_H
#define TRACKER_H

#include "base/note.h"
#include "base/queue.h"
#include "base/stop.h"
#include "targets/others.h"
#include "targets/target.h"

struct probers;
struct scout;
struct search;

enum { TRACKER_HANGING = 64 };

struct tracker {
	struct targets targets;
	struct others others;
	struct search *searches; /* interpreters being looked for */
	size_t n_searches;
	pid_t newest;		   /* family_newest() when descendants were listed */
	size_t n_awake;		   /* descendants that were looked at before they run */
	int n_programs;		   /* numbers given out, struct pystack_target */
	struct probers *crew;	   /* who looks for them */
	int kick;		   /* eventfd: written to when a search ends */
	struct file_helper *files; /* reads files of targets, or NULL; borrowed */
	struct scout *scout;	   /* at work, or NULL */
	struct target **scouted;   /* whom it was asked about */
	size_t n_scouted;
	struct births *births;	 /* taught what is found, or NULL */
	struct queue *tape;	 /* where TAPE_TARGET records go, or NULL */
	struct stats *stats;	 /* of the recording: what a tape lacks; NULL: without @tape */
	const struct stop *stop; /* waits end when it is asked for; or NULL */
	uint64_t doubts_ns;	 /* when to look again for targets that ended untold */
	struct note note;
	bool told_refused; /* a person knows of one that can't be read */
	bool told_short;   /* a person knows that a look lacked descriptors, memory or processes */
	bool told_crowded; /* a person knows that a user's processes are not read */
	bool told_looks;   /* a person knows that they are not looked at */
	/* Reads that were left behind: of which process, and whose that is. */
	pid_t hanging[TRACKER_HANGING];
	uid_t hanging_of[TRACKER_HANGING];
	bool hanging_torn[TRACKER_HANGING]; /* tracker_hangs() */
	size_t n_hanging;
};

int tracker_init(struct tracker *t, int kick); /* 0 or -ENOMEM */
void tracker_deinit(struct tracker *t);

/* A process that the user named; waits for the answer. With @any it need not be
 * Python, nor where @follow takes up Python children that it has: then a line says so. 0;
 * -ESRCH, -ENOEXEC, -ENOTSUP, -EACCES ... with a sentence. */
int tracker_root(struct tracker *t, pid_t pid, bool any, bool follow, struct err *err);

/* All descendants of @pids. A few are looked at, and tracker_settle() waits until each of them
 * was so once; many are pending until tracker_look(), and so are those of which
 * tracker_settle() learnt nothing in time. 0 or -ENOMEM. */
int tracker_descendants(struct tracker *t, const pid_t *pids, size_t n);
void tracker_settle(struct tracker *t);

/* Again, but at the cost of those that were born since, if that can be told. */
int tracker_born(struct tracker *t, const pid_t *pids, size_t n);

/* A new program in @pid (exec, our own child before its exec, a process never seen):
 * that began at @begun_ns (0: before the recording); looked for from now on. 0 or -ENOMEM. */
int tracker_new(struct tracker *t, pid_t pid, uint64_t begun_ns);

/* @pid was forked by thread @ptid of @ppid at @time: until it execs it is its parent's copy.
 */
void tracker_forked(struct tracker *t, pid_t pid, pid_t ppid, pid_t ptid, uint64_t time);

/* A sample can't be judged by what is known of @pid: if it has no interpreter yet, look at
 * once. */
void tracker_look(struct tracker *t, pid_t pid);

/* Look at a descendant that was asleep. 0 or -ENOMEM. */
int tracker_wake(struct tracker *t, struct target *target);

void tracker_gone(struct tracker *t, pid_t pid);

/* Its first thread has ended, and others have not: nobody tells when they do. */
void tracker_leader_ended(struct tracker *t, pid_t pid);

/* A process that was taken for one that lives, and is gone now; 0: none, or not looked for
 * yet. To be called until it says so, now and then. */
pid_t tracker_left(struct tracker *t);

/* A look at @pid hangs, or may: its samples are torn until that ends. */
void tracker_quarantine(struct tracker *t, pid_t pid);

/* A read of @pid was left behind, and keeps a thread, until tracker_returned(). @torn: and its
 * samples are torn until all such reads of it have ended. Where its user has too many of either
 * no process of that user is read. */
void tracker_hangs(struct tracker *t, pid_t pid, bool torn);
void tracker_returned(struct tracker *t, pid_t pid, bool torn);

/* True: some user has too many. */
bool tracker_crowds(const struct tracker *t);

/* Take up what ended, start what is due, free targets that have ended. Call often; cheap when
 * nothing is up. */
void tracker_run(struct tracker *t);

/* Milliseconds until tracker_run() has something to do by itself, at most @most. */
int tracker_due_ms(const struct tracker *t, int most);

/* The events are open: readers learn from @births what is found, from now on and what is known
 * already; who had no interpreter is looked at once more. */
void tracker_teach(struct tracker *t, struct births *births);

/* Find out where known interpreters lie in those that are asleep, so that their first samples
 * can be read. */
void tracker_scout(struct tracker *t);

/* Queue all known interpreters for a tape. */
void tracker_tape_all(struct tracker *t, struct queue *tape);

#endif
