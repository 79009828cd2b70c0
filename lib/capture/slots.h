/* SPDX-License-Identifier: MIT
 *
 * slots - the CPUs that are watched: a ring, queues and a reader each.
 *
 * The array has room for every CPU that is possible and never moves; a slot is published
 * by n_slots when all of it stands. Control thread only.
 */
#ifndef SLOTS_H
#define SLOTS_H

#include "watch/watch.h"
#include "sys/cpus.h"

/* A slot with queues and a reader's room for each of @cpus. @c has cap_slots, queue_bytes and
 * room_bytes. 0, or -ENOMEM with a sentence. */
int slots_init(struct reader_config *c, const struct cpus *cpus, struct err *err);
void slots_deinit(struct reader_config *c);

/* Then their rings, of @pages each or, where less memory may be locked, fewer. 0 or
 * -errno with a sentence. */
int slots_open_rings(struct reader_config *c, size_t pages, struct err *err);

/* One slot more, ring and all, for @cpu while readers run. 0 or -errno with a sentence. */
int slots_add(struct reader_config *c, int cpu, struct err *err);

/* Events see all that a CPU runs: learn for each slot who takes them away. Where the kernel's
 * threads are not to be seen (a PID namespace), nothing is learnt. */
void slots_learn_hotplug(struct reader_config *c);

/* What this program has done by now, readers included. Any thread. */
void slots_work(const struct reader_config *c, struct work_moment *ret);

/* The slot of @cpu, or NULL. */
struct cpu_slot *slots_find(struct reader_config *c, int cpu);

#endif
