/* SPDX-License-Identifier: MIT
 *
 * recorder_int - what the files of a recorder share, and nobody else sees: recorder.c (its
 * life and its loop), and what the other recorder_*.c do for it.
 */
#ifndef RECORDER_INT_H
#define RECORDER_INT_H

#include <errno.h>
#include <poll.h>

#include "attach/attach.h"
#include "attach/attach_plan.h"
#include "bpf/kernel_names.h"
#include "bpf/sight.h"
#include "capture/preempt.h"
#include "capture/tracer.h"
#include "record/cpuwatch.h"
#include "attach/event_place.h"
#include "record/recorder.h"
#include "record/ticks.h"
#include "base/stats.h"
#include "elf/file_helper.h"
#include "sample/wire.h"
#include "targets/announce.h"
#include "targets/namer.h"
#include "targets/scope.h"
#include "targets/tracker.h"

enum { RECORDER_UNKNOWN = 16, RECORDER_UNLOOKED = 4096 };
enum { RECORDER_NICE = -10 /* of the control thread */ };

struct recorder {
	struct recorder_options o;
	struct session *session;
	const struct capture_ops *capture;
	struct preempt_plan preempt;
	struct reader_config config;
	struct tracker tracker;
	struct attach attach;
	struct attach_plan plan;
	size_t n_reserved; /* descriptors that the table of all has room for */
	struct tracer *tracer; /* of a capture that stops threads */
	struct perf_options perf;
	pid_t *tids; /* the threads that there were when it was chosen */
	size_t n_tids, n_processes; /* of them, and of processes that had any */
	pid_t *deciders; /* whose signals decide whether threads can be stopped, and by which */
	size_t n_deciders;
	struct cpus cpus;     /* watched from the beginning */
	struct cpus possible; /* those that may come online, too */
	struct cpuwatch cpuwatch;
	enum event_place place;
	struct place_facts place_facts;
	char place_why[300];
	bool by_table; /* all events are CPUs', and the table tells who ran */
	struct run_table table;
	struct sight sight;
	struct kernel_names kernel_names;
	struct stranger_filter filter;		     /* of events on CPUs */
	int cgroup;				     /* the folder of the targets' own; -1 */
	uint64_t counted_before[SESSION_MAX_EVENTS]; /* occurrences before the begin */
	uint64_t dropped_before[SESSION_MAX_EVENTS];
	struct ticks ticks;
	bool needs_ticks;  /* a clock's events do not tell what they are to be compared with */
	uint64_t noted_ns; /* the last note */
	uint64_t pace_ns;  /* when recorder_pace() looks next */
	uint64_t second_ns;	  /* the last of recorder_hooks.second */
	uint64_t wake_ns;	  /* when readers that sleep are looked at next */
	_Atomic bool wake_wanted; /* the resolver waits for readers that sleep */
	struct queue own;	  /* the control thread's records for the resolver */
	struct queue traced;	  /* the tracer's messages to the control thread */
	struct queue names;	  /* the namer's */
	struct namer *namer;
	struct namer *hung_namers[TRACKER_HANGING]; /* left behind in reads that hang */
	size_t n_hung_namers;
	bool namer_begun;
	bool nameless;	   /* a person knows that there is none */
	uint64_t namer_ns; /* when to begin it, and then to see whether it hangs */
	struct epoch_user namer_user;
	struct waits *waits; /* with --mode wall; else NULL */
	struct joins *joins; /* of a scope; else NULL */
	size_t n_joined;    /* processes that joined, and may have run as Python before */
	uint64_t unseen_ns; /* how long they may have, at most, in all */
	bool told_no_join;
	pid_t unlooked[RECORDER_UNLOOKED]; /* that wait for room in @joins; the last is the next */
	size_t n_unlooked;
	struct queue **queues;
	struct resolver *resolver;
	int pidfds[RECORDER_MAX_PIDS]; /* of those that the user named; -1: it has ended */
	int last; /* of a process that is followed, once all of those have; -1: none known */
	uint64_t last_ns; /* since when @last is that one */
	/* A sample told of them; it may be that the record of their fork was not read yet. */
	pid_t unknown[RECORDER_UNKNOWN];
	size_t n_unknown;
	struct tracer_refusal refused; /* where the tracer tells of a thread without events */
	_Atomic int child_end; /* what the tracer saw of our own child's end; -1: nothing */
	bool told_left;	       /* a person was told of it */
	int nice;	       /* the user's, before the control thread took a better one */
	uint64_t begun_ns;     /* recorder_create() */
	bool told_progress;    /* of the attaching */
	struct err why;	       /* why not a better capture */
	struct work_moment half, end; /* of the time that was asked for, and of the loop */
	bool warned_budget, warned_stall, warned_new, child_ran;
	unsigned told_limits; /* a bit for each of those in recorder_tell.c */
	unsigned n_given_up, n_slow; /* files that nobody could read, and that did not answer */
	size_t n_missed;      /* threads that had ended before they got events of their own */
	uint64_t side_lost;   /* messages, when threads that had ended were last looked for */
	size_t n_late;	      /* threads that had run when they got their events */
	uint64_t late_ns;     /* how long those had run, in all */
};

/* recorder_choose.c: session, capture, perf, plan and cpus. 0 or -errno with a sentence. */
int recorder_choose(struct recorder *r, struct err *err);

/* recorder_place.c: which events count on CPUs, before it is planned what all of them need: with
 * @wide they may be opened there; @tied: not for lack of a right, but for one that has to be on
 * threads. */
int recorder_choose_place(struct recorder *r, bool wide, bool tied, size_t threads,
			  struct err *err);

/* recorder_place.c: counting on threads besides needs more descriptors than there are, or (@joins)
 * can't be had of who comes: do without. */
void recorder_give_up_place(struct recorder *r, bool joins);

/* recorder_place.c: samples a second on a busy CPU, with @on_cpus of the events that may count
 * there. 0: not known, for events that come in bursts too. */
uint64_t recorder_sample_rate(const struct session *s, bool on_cpus);

/* recorder_place.c: probes are not inherited: the events of new threads would be taken up in the
 * child's context, as its own, and fail: so would fork(). */
bool recorder_has_probe(const struct recorder *r);

/* recorder_place.c: CPUs have numbers below. */
uint32_t recorder_cpu_numbers(const struct recorder *r);

/* recorder_start.c: on return samples are taken, but for our own child's, whose begin with its
 * exec. 0 or -errno with a sentence; recorder_detach() is due in either case. */
int recorder_start(struct recorder *r, struct sink *const *sinks, size_t n_sinks,
		   struct err *err);

/* Who sees a reader inside a read kicks the control thread before. */
enum { RECORDER_WATCH_MS = 1000 };

/* recorder_namer.c: start to read what programs call their threads. */
void recorder_start_namer(struct recorder *r);

/* recorder_namer.c: do that soon after the start, and again when who does it hangs, or there was no
 * thread or memory for it. In how many ms to look again. */
int recorder_watch_namer(struct recorder *r);

/* recorder_start.c: @pid can't be attached to, for @code: then a child is left alone, and so is
 * one of several that the user named, who is told. 0, or @code: that was all. */
int recorder_go_without(struct recorder *r, pid_t pid, int code, const struct err *err);

/* recorder_start.c: from now on CPUs take the samples that threads took. */
void recorder_go_over(struct recorder *r);

/* recorder_detach.c: nothing is sampled any more, and nobody held. */
void recorder_detach(struct recorder *r);

/* recorder_tell.c: call now and then. */
void recorder_tell_limits(struct recorder *r);

/* recorder_balance.c: what occurred before is no part of the recording. */
void recorder_begin_counting(struct recorder *r);

/* recorder_balance.c: what a process that joins has used by now is none of the recording's. */
void recorder_count_from_now(struct recorder *r, pid_t pid);

/* recorder_balance.c: keep in mind what CPU time the targets have used, if that is of
 * interest: now and then, for who ends can't be asked any more, and at the end. */
void recorder_note_ticks(struct recorder *r);

/* recorder_pace.c: tell readers how long each process' periods must be. In how many ms to look
 * again. */
int recorder_pace(struct recorder *r);

/* recorder_balance.c: after the readers have ended: fills in what is uncounted, and says what
 * to do if it is much. */
void recorder_balance(const struct recorder *r, struct recorder_summary *ret);

/* recorder_work.c: what the recording took; before its readers are freed. */
void recorder_work(const struct recorder *r, struct recorder_work *ret);

/* announce_maps() or announce_process() said @ret: what has no room is counted. */
static inline void recorder_announced(struct recorder *r, int ret)
{
	if (ret == -ETIMEDOUT) /* it is named */
		STATS_ADD(r->session->stats, stuck_reads, 1);
	else if (ret == -EFBIG)
		STATS_ADD(r->session->stats, unlisted, 1);
	else if (ret < 0 && ret != -ENOBUFS && ret != -ESRCH && ret != -EACCES)
		STATS_ADD(r->session->stats, unread, 1);
	if (ret == -ENOBUFS)
		STATS_ADD(r->session->stats, side_lost, 1);
}

/* announce_process() for the resolver. */
static inline void recorder_announce(struct recorder *r, pid_t pid, bool execed, uint64_t time)
{
	recorder_announced(r, announce_process(&r->own, pid, execed, !r->config.named, time,
					       file_helper_openers(r->session->file_helper)));
}

/* recorder_announce.c: once, where the start takes long. @done: targets that were dealt with.
 */
void recorder_tell_progress(struct recorder *r, size_t done);

/* recorder_announce.c: tell the resolver what all targets are that are not asleep, as of
 * @time, before there were events, or as of when they were found. True: the maps of some are left
 * for recorder_announce_later(), once samples come. */
bool recorder_announce_all(struct recorder *r, uint64_t time);

/* recorder_announce.c: tell the resolver what @pid is, before its first sample, of @time; another
 * thread's may be a little older. */
void recorder_introduce(struct recorder *r, pid_t pid, uint64_t time);

/* recorder_announce.c: and now it may give on what was sampled: one more CTL_LOOK is answered.
 */
void recorder_announce_later(struct recorder *r, uint64_t time);

/* recorder_messages.c: do what readers and the tracer ask for. False: there is more, and it
 * took long enough for now. */
bool recorder_take_messages(struct recorder *r);

/* recorder_messages.c: what was sampled last is introduced to the sinks as well. */
void recorder_introduce_rest(struct recorder *r);

/* recorder_messages.c: have the readers read what stands in their rings now; records that are
 * no samples wake none. False: one is late. */
bool recorder_catch_up(struct recorder *r);

/* recorder_end.c: have all ended whom the user named, and those who are followed? Who is left
 * is told once. @fds: what poll() said of r->pidfds, which lose those that have ended. Call
 * again when r->last or r->config.kick gets readable. */
bool recorder_over(struct recorder *r, const struct pollfd *fds);

/* recorder_join.c: of a scope: its processes that run Python become targets; 0 or -errno with
 * a sentence. From joins_begin() on others join, by recorder_join() and what readers tell. */
int recorder_begin_scope(struct recorder *r, struct err *err);
void recorder_join(struct recorder *r);
void recorder_stranger(struct recorder *r, const struct ctl_msg *m);

/* recorder_join.c: only the first @n targets stay, the busiest; a person is told. */
void recorder_busiest(struct recorder *r, size_t n);

/* recorder_join.c: has @pid become another program, which has to show that it fits? Then it is
 * no target any more. */
bool recorder_stranger_again(struct recorder *r, pid_t pid);

/* Do children of who fits belong to the recording whatever they are? With another scope they
 * fit by themselves. */
static inline bool recorder_descends(const struct recorder *r)
{
	return r->o.follow && (!r->o.scope || r->o.scope->match);
}

#endif
