/* SPDX-License-Identifier: MIT
 *
 * hold - reading and judging the threads of the samples that wait, for a capture. All of it on
 * the reader's thread, or, once that was given up, on the control thread.
 */
#ifndef HOLD_H
#define HOLD_H

#include "capture/reader_int.h"

/* Read and emit all samples that wait. */
void hold_flush(struct reader *r);

/* True: @tid's process, @t or not known, is nobody's target: its samples that wait are done. */
bool hold_ignored(struct reader *r, pid_t tid, const struct target *t);

/* Give them all up: they are counted. */
void hold_shed(struct reader *r);

/* Read the thread of sample number @first, release it by the capture, judge and emit all its
 * samples. These are done then. */
void hold_thread(struct reader *r, uint32_t first);

/* The two halves of it. Read the thread of @first for all its samples: one read serves them,
 * for nothing that Python does lies between several events of one instant. False: it is no
 * target, and its samples are dropped. */
bool hold_walk(struct reader *r, const struct pending *first, struct walk *w);

/* Judge and emit; @w->ran, came_ns and t_end are known now. */
void hold_judge(struct reader *r, struct walk *w);

/* A capture's release() for who holds nobody, or by being on the CPU: whether the thread ran
 * is told by the records of all CPUs, or by the run table. */
void hold_release(struct reader *r, struct walk *w);

/* Note what the unread parts of all rings say of other programs. */
void hold_see_all_rings(struct reader *r);

/* A thread was kept from running for @ns, in which @w was read: a part of the hold budget. A
 * longer hold than all that was read may take is charged as that: then the reader slept in a
 * page fault, or a hypervisor took the CPU. */
void hold_charge(struct reader *r, uint64_t ns, const struct walk *w);

/* The newest waiting sample that @w serves. */
struct pending *hold_last_of(struct reader *r, const struct walk *w);

/* Samples that are done no longer wait. */
void hold_forget_processed(struct reader *r);

/* Whether a thread with these registers stands where it stood at @p. */
enum witness hold_witness(const struct pending *p, const void *regs);

/* @left: what was counted of @p's thread as it left. The witness counts only if it had
 * executed as many user instructions as at the sample. */
void hold_counted(struct stats *s, struct pending *p, const struct perf_sample *left);

#endif
