/* SPDX-License-Identifier: MIT
 *
 * proof - what the rings say about where a thread has been.
 *
 * Each CPU's ring holds a record for each time a sampled thread came onto that
 * CPU and left it (attr.context_switch), written before the thread runs on.
 */
#ifndef PROOF_H
#define PROOF_H

#include "bpf/sight.h"
#include "watch/watch.h"

/* A context switch record: which thread, when, in or out. */
struct proof_switch {
	pid_t pid, tid;
	uint64_t time;
	bool out, preempt;
};

/* Pure. True: @h (with its trailer @end) is a switch record. */
bool proof_is_switch(const struct perf_event_header *h, const unsigned char *end,
		     struct proof_switch *ret);

/* Is @pid, forked by @ppid at @time, a target because that is one? Of a scope not if it has
 * become another program since, which has to fit by itself. */
bool proof_inherits(const struct reader_config *c, pid_t pid, pid_t ppid, uint64_t time);

/* Take note of the record at @pos of @slot's ring, with header @h, if it tells of a target's
 * new child: with c->follow it is a target, too. */
void proof_note_birth(struct reader_config *c, const struct cpu_slot *slot, uint64_t pos,
		      const struct perf_event_header *h);

/* Look through the unread part of all rings but @own for births; what
 * lies before its place in @cursors was looked at before. A FORK record is written before the
 * child runs for the first time, on any CPU. */
void proof_look_for_births(struct reader_config *c, const struct cpu_slot *own,
			   uint64_t *cursors);

/* Does this kernel hide some threads of the machine's own? Guests were met that hide those of
 * process 1 also from root, from perf, tracepoints and BPF: who comes onto a CPU after such a
 * thread leaves no record. It shows in that their /proc/1/syscall can't be read; also true for
 * who lacks the right to. */
bool proof_switches_hidden(void);

/* A reader keeps the threads' files open that proof_moved() read last; 0: none. */
enum { PROOF_STAT_FILES = 16 };
struct proof_stat_files {
	struct {
		pid_t tid;
		int fd;
	} of[PROOF_STAT_FILES];
};
void proof_stat_files_close(struct proof_stat_files *files);

/* Is the thread's CPU another than @cpu by now, or the thread gone? Then it may have run
 * there, whatever records say. Reads a file of /proc, one of @files or opened for it. */
bool proof_moved(struct proof_stat_files *files, pid_t pid, pid_t tid, int cpu);

/* True: no thread has come onto any CPU unseen since @since, so that proof_moved() need not be
 * asked. */
bool proof_clear(const struct reader_config *c, struct sight_seen *seen, uint64_t since);

/* Remember that @tid was seen coming onto @slot's CPU at @time, for the others. */
void proof_note_in(struct reader_config *c, struct cpu_slot *slot, pid_t tid, uint64_t time);

/* @tid leaves @slot's CPU at @time: noted where switches are hidden, and of its hotplug thread. */
void proof_note_out(struct reader_config *c, struct cpu_slot *slot, pid_t tid, uint64_t time);

/* Where switches are hidden: has @tid, which was on @slot's CPU, left another one after
 * @since? Its leaving is seen also where its coming is not. It had come back before
 * proof_moved() was asked only if this is true afterwards, when all rings were looked at. */
bool proof_left_another(struct reader_config *c, const struct cpu_slot *slot, pid_t tid,
			uint64_t since);

/* Give the ring's records up to @to back to the kernel. If it had to drop some, then nobody
 * knows who came onto this CPU until now: noted for all threads. */
void proof_consume(struct reader_config *c, struct cpu_slot *slot, uint64_t to);

/* Has @tid come onto @slot's CPU after @since, as far as the unread part of its ring from
 * *@cursor on can tell? *@cursor moves to the end of what was looked at, which is not looked
 * at again for any thread: so all that came onto the CPU or left it is noted, as by
 * proof_note_in(), and what births_note() notes. So has its owner of what it takes out meanwhile:
 * proof_ran_noted() is asked afterwards. Also true when that can't be told. */
bool proof_ran_in_ring(struct reader_config *c, struct cpu_slot *slot, uint64_t *cursor,
		       pid_t tid, uint64_t since);

/* The same for what was noted. Not only that nobody can tell: */
bool proof_seen_noted(struct reader_config *c, pid_t tid, uint64_t since);
bool proof_ran_noted(struct reader_config *c, pid_t tid, uint64_t since);

/* The events of @tid are being opened, one after the other, while it runs: what it does until
 * all are there may leave no record. One thread at a time. */
void proof_opening(struct reader_config *c, pid_t tid);
void proof_opened(struct reader_config *c, pid_t tid);

/* With c->table: when @tid, whose leaving its CPU was recorded, last came onto one; UINT64_MAX
 * where that can't be told. Without: 0. */
uint64_t proof_came(struct reader_config *c, pid_t tid);

/* May @tid have run after @since where nothing tells of it: on a CPU that it is allowed to
 * use, but whose events were not open yet? */
bool proof_ran_unwatched(struct reader_config *c, pid_t tid, uint64_t since);

#endif
