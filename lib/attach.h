/* SPDX-License-Identifier: MIT
 *
 * attach - events on threads: which can be had, opening them on every thread and
 * CPU, closing them.
 *
 * Control thread only.
 */
#ifndef ATTACH_H
#define ATTACH_H

#include "capture/reader.h"
#include "perf_event.h"
#include "sample.h"

/* A thread that has events since a moment at which it surely was not forking; all that it
 * made later inherited them. Ascending by tid. */
struct attached {
	pid_t tid;
	uint64_t since;
};

struct attach {
	struct session *session; /* borrowed: its events are chosen here */
	struct cpu_slot *slots;	 /* borrowed: with open rings */
	size_t n_slots;
	bool inherit;
	bool witness; /* each thread and CPU has one event more: perf_event_witness() */
	int *fds;
	size_t n_fds, cap_fds;
	uint64_t *ids; /* ids[i] of fds[i]; event i % (n_events + witness) */
	struct attached *attached;
	size_t n_attached;
	uint64_t until_ns; /* patience ends; 0: not begun */
	bool later;	   /* what is opened now begins when it is told to */
};

/* Find out on thread @tid which of @specs can be had, with @o (whose kernel is
 * cleared where the kernel may not be counted), and fill session->events. cycles
 * without a PMU becomes cpu-clock; *@fallback says so then, else it is "". 0, or as
 * perf_event_explain(). */
int attach_choose(struct session *session, const struct perf_spec *specs, size_t n,
		  struct perf_options *o, pid_t tid, char fallback[256], struct err *err);

/* May there be a witness on thread @tid? */
bool attach_can_witness(const struct session *session, pid_t tid);

/* Open the session's events on every thread of @pid (or only on @only, n_only of
 * them) and every slot's CPU, redirected into the slots' rings. Threads that start
 * meanwhile are found, those that inherit are left alone. 0; -ESRCH the process is
 * gone; -EMFILE with the numbers; or as perf_event_explain(). */
int attach_process(struct attach *a, pid_t pid, const pid_t *only, size_t n_only,
		   struct err *err);

/* After all attach_process(): publish the event of each id; the witness is event n_events.
 * 0 or -ENOMEM. */
int attach_ids(const struct attach *a, struct reader_config *c);

/* While the recording runs: events on @tids for one more CPU, which do not count until
 * attach_ids() and attach_enable_from(@first: n_fds before). 0, or as attach_process(); after
 * a failure some may be open. */
int attach_cpu(struct attach *a, const struct cpu_slot *slot, const pid_t *tids, size_t n,
	       struct err *err);
void attach_enable_from(struct attach *a, size_t first);
void attach_close_from(struct attach *a, size_t first);

/* Stop the events: no further samples. */
void attach_disable(struct attach *a);
void attach_deinit(struct attach *a);

/* Raise RLIMIT_NOFILE as far as allowed. Returns the limit. */
size_t attach_raise_nofile(void);
#endif
