/* SPDX-License-Identifier: MIT
 *
 * events - which events can be had on a thread, here and with our rights.
 */
#ifndef EVENTS_H
#define EVENTS_H

#include "perf_event.h"
#include "sample/sample.h"

/* Find out on thread @tid which of @specs can be had, with @o (whose kernel is
 * cleared where the kernel may not be counted), and fill session->events. cycles
 * without a PMU becomes cpu-clock; *@fallback says so then, else it is "". 0, or as
 * perf_event_explain(). */
int events_choose(struct session *session, const struct perf_spec *specs, size_t n,
		  struct perf_options *o, pid_t tid, char fallback[256], struct err *err);

/* True: there may be a witness on thread @tid. */
bool events_can_witness(const struct session *session, pid_t tid);

/* True: on some of @cpus none of the session's events is opened. */
bool events_leave_out(const struct session *session, const struct cpus *cpus);

/* Can the samples of the session's event, and its witness, hold a count of user instructions?
 * If new threads are followed that takes Linux 6.12. Then it is changed to do so: event,
 * witness and counter are a group. Tried on the caller. */
bool events_can_count(struct session *session);

/* True: event @e can be counted without samples, as threads do beside CPUs that sample it. Tried on
 * the caller. */
bool events_count_beside(const struct session *session, size_t e);

/* True: events may be opened on CPUs, of which there are @cpus, for all that these run. Tried with
 * an event that is on one of them, where it is: the kernel knows no event of another kind of
 * core. */
bool events_can_wide(const struct session *session, const struct cpus *cpus);

#endif
