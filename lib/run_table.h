/* SPDX-License-Identifier: MIT
 *
 * run_table - a table, kept by BPF programs in the kernel and mapped into our memory, of when
 * each thread last left a CPU and last came onto one from another CPU, and when each process
 * became another program.
 *
 * So whether a thread ran is a question to two words, however many CPUs there are. The events
 * that the programs hang on are a CPU's: context-switches, as a thread leaves it, and
 * cpu-migrations, as a thread comes onto it for the first time since it was moved there
 * (perf_event_task_sched_in(), include/linux/perf_event.h). Both run before the thread
 * executes an instruction. A thread that comes back onto the CPU that it left leaves no trace
 * before it leaves again: its reader, who sits on that CPU, knows that it is not running.
 *
 * Threads share a place by a hash of their number: one then looks as if it had run when
 * another did, never the other way round. Times are CLOCK_MONOTONIC, in ns. The programs look
 * at no memory but the table.
 */
#ifndef RUN_TABLE_H
#define RUN_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf_code.h"

enum { RUN_TABLE_EVENTS = 16 };

struct run_table {
	int map; /* -1: there is no table */
	int out, in, execs, hotplug, exec_link, hotplug_link;
	uint32_t n_cpus; /* numbers below */
	bool barrier;	 /* what the kernel has for notes, see run_table.c */
	_Atomic uint64_t *at;
};

/* Make it for CPUs with numbers below @n_cpus, and load the programs. 0; -EPERM: CAP_BPF and
 * CAP_PERFMON are needed; or another -errno (Linux 5.5 is needed). After a failure there is
 * none. */
int run_table_init(struct run_table *t, uint32_t n_cpus);
void run_table_deinit(struct run_table *t);

/* A CPU's context-switches event @fd notes who leaves, and gives a record of a thread's first
 * leaving after run_table_arm() alone. 0 or -errno. */
int run_table_watch_outs(const struct run_table *t, int fd);

/* A CPU's cpu-migrations event @fd notes who comes, and gives no record. 0 or -errno. */
int run_table_watch_ins(const struct run_table *t, int fd);

/* Append to a program that ends with a sample: the current thread, whose number is in the
 * lower half of R7, is sampled on this CPU now. Uses R0 to R8. */
void run_table_arm(const struct run_table *t, struct bpf_code *c);

/* Append to one that drops a sample of event @e: it is counted. Uses R0 to R5. */
void run_table_drop(const struct run_table *t, struct bpf_code *c, uint32_t e);

/* How many samples of event @e were dropped on all CPUs. */
uint64_t run_table_dropped(const struct run_table *t, uint32_t e);

/* Has @tid, sampled at @sampled, given a record of its leaving the CPU at @left, and neither
 * been sampled or left again since nor come onto another CPU? False also where that can't be
 * told. Any thread, as all below. */
bool run_table_stays(const struct run_table *t, pid_t tid, uint64_t sampled, uint64_t left);

/* Has @tid come onto another CPU after @since? */
bool run_table_moved(const struct run_table *t, pid_t tid, uint64_t since);

/* May @pid have become another program after @since? */
bool run_table_execed(const struct run_table *t, pid_t pid, uint64_t since);

/* When a CPU, or @cpu, last began or ended a step of going offline or coming online; the
 * events that were opened on it before are gone then. */
uint64_t run_table_any_hotplug(const struct run_table *t);
uint64_t run_table_hotplug(const struct run_table *t, int cpu);

#endif
