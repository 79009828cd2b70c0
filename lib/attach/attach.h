/* SPDX-License-Identifier: MIT
 *
 * attach - events on threads: opening them on every thread and CPU, closing them.
 *
 * One thread: the control thread, or the tracer's until tracer_stop().
 */
#ifndef ATTACH_H
#define ATTACH_H

#include "base/nudge.h"
#include "base/stop.h"
#include "watch/watch.h"
#include "watch/event_ids.h"
#include "perf_event.h"
#include "bpf/run_table.h"
#include "sample/sample.h"
#include "bpf/stranger_filter.h"

/* Instead of a thread: all that a CPU runs. */
static const pid_t ATTACH_ALL = -1;

/* A thread that has events since a moment at which it surely was not forking; all that it
 * made later inherited them. */
struct attached {
	pid_t tid;
	uint64_t since;
	int *fds; /* for each slot, for each event; -1: none */
};

/* What a tracer does to each thread that gets events. */
struct attach_hooks {
	/* Before the first event is opened: 0, -ESRCH, or -errno with a sentence: it gets
	 * none; -EAGAIN: not now. NULL: there is no tracer. */
	int (*seize)(void *arg, pid_t tid, struct err *err);
	/* Samples of it come with @fd, on CPU slot @slot; with a hook here an event of its own
	 * carries all other records. 0 or -errno. */
	int (*arm)(void *arg, pid_t tid, size_t slot, int fd);
	/* Between two threads of a process: what has stopped meanwhile may go on. It may give
	 * threads events itself. NULL: nothing has. */
	void (*between)(void *arg);
	void *arg;
};

struct attach {
	struct session *session; /* borrowed: events.c has chosen its events */
	struct cpu_slot *slots;	 /* borrowed: with open rings */
	size_t n_slots, cap_slots;
	bool inherit;
	bool begun;		       /* events that were to wait for an exec begin at once */
	struct attach_hooks hooks;     /* who must seize a thread first */
	struct reader_config *readers; /* told whose events are being opened, or NULL */
	bool witness; /* each thread and CPU has one event more: perf_event_witness() */
	bool counter; /* and one more, the three being a group: perf_event_instructions() */
	bool side;    /* and one that carries all records but samples, for there are CPUs on which
		       * no other event is: events_leave_out() */
	bool split;   /* events that are how.on_cpus are sampled on CPUs, see attach_cpus(); on
		       * threads they are only counted */
	bool early;   /* With @split threads sample them too, until attach_end_early(). */
	bool early_ended;
	bool on_cpus; /* CPUs have events: attach_cpus(). The control thread's, whoever attaches */
	int cgroup;			/* CPUs' events count in it alone; -1: none */
	struct stranger_filter *filter; /* of CPUs' events, or NULL */
	/* All events are CPUs', and who runs where stands in it: no thread has events. Or
	 * NULL. */
	const struct run_table *table;
	uint64_t ended_count[SESSION_MAX_EVENTS]; /* by events that were closed before the end
						   */
	_Atomic(struct event_ids *) ids; /* with several events; readers look into it */
	struct attached *attached;	 /* ascending by tid */
	size_t n_attached;
	uint64_t until_ns;	 /* patience ends; 0: not begun */
	const struct stop *stop; /* no more threads get events once it is asked for; or NULL */
	struct nudges nudges;	 /* of the thread that attaches, while it does: perf_event.h */
};

/* Open events on every slot's CPU, for all that it runs, redirected into the slots' rings:
 * with
 * @split those that are how.on_cpus, which count at once, else all of the session's, which
 * must not inherit. Not on a CPU that was watched and is offline: it is slot.gone_ns, for cpuwatch.
 * 0, or as perf_event_explain(). */
int attach_cpus(struct attach *a, struct err *err);

/* Threads take no samples of the events that are how.on_cpus any more. */
void attach_end_early(struct attach *a);

/* Open the session's events on every thread of @pid (or only on @only, n_only of
 * them) and every slot's CPU, redirected into the slots' rings. Threads that start
 * meanwhile are found, those that inherit are left alone. 0; -ESRCH the process is
 * gone; -EMFILE with the numbers; or as perf_event_explain(). */
int attach_process(struct attach *a, pid_t pid, const pid_t *only, size_t n_only,
		   struct err *err);

/* The same for one thread more. 0; -ESRCH it is gone; or as above. */
int attach_thread(struct attach *a, pid_t tid, struct err *err);

/* True: @tid has events. */
bool attach_has(const struct attach *a, pid_t tid);

/* The first thread that has events of those with numbers above @tid; 0: none. */
pid_t attach_next(const struct attach *a, pid_t tid);

/* @tid is gone, or has the number @to now. */
void attach_forget(struct attach *a, pid_t tid);
void attach_renamed(struct attach *a, pid_t tid, pid_t to);

/* The events of @tid, or of all if it is 0, send their signal, or with @send false do not. */
void attach_signal(struct attach *a, pid_t tid, bool send);

/* Start the events of @tid, or of all if it is 0. */
void attach_enable(struct attach *a, pid_t tid);

/* While the recording runs: events on @tids for one more CPU, slot number @slot, which do not
 * count yet; unless they are inherited, on those alone that have events. 0, or as
 * attach_process(); after a failure some may be open. Then start or close them all. Not where a
 * tracer attaches. */
int attach_cpu(struct attach *a, size_t slot, const pid_t *tids, size_t n, struct err *err);
void attach_enable_cpu(struct attach *a, size_t slot);
void attach_close_cpu(struct attach *a, size_t slot);

/* True: an event that sees all of the CPU of @slot is enabled now: the CPU has not gone offline
 * since it was opened. */
bool attach_sees_cpu(const struct attach *a, size_t slot);

/* True: event @e, or one that it counts together with, needs a counter of the processor, and may
 * be without one for a while. False where that can't be told: a thread's event of some CPUs is
 * without one also while its thread runs on others. */
bool attach_takes_turns(const struct attach *a, size_t e);

/* Stop the events: no further samples. */
void attach_disable(struct attach *a);
/* Of the time that its threads ran, the part in which event @e had a counter. Less than 1:
 * there were more events than counters, and they took turns. After attach_disable(). */
double attach_share(const struct attach *a, size_t e);

/* How often event @e has occurred so far: in all threads that have events, or had, and what
 * they made since; if all of the session's events count on CPUs, there. What it counted while
 * it had a counter stands for all the time. Reads each descriptor. */
uint64_t attach_count(const struct attach *a, size_t e);

/* Descriptors that a thread has on a CPU. */
size_t attach_per_cpu(const struct attach *a);

void attach_deinit(struct attach *a);

#endif
